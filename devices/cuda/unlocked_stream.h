// For kernel functions: letting others launch meanwhile.
//
// launch() holds the stream's mutex while a kernel function runs, so that its kernels stay
// together: they share the stream's counters. A function that takes the host long, such as one
// whose library compiles, opens that mutex for a scope: other threads launch on the stream then.
// Their kernels come between what the function enqueued before, such as the other gradient of a
// convolution, and what it enqueues afterwards: not between a kernel and one that reads what it
// left in the counters, nor between counters() and the launch that they are for.
#pragma once

#include <functional>

#include <locus/core/kernel.h>
#include <locus/core/noncopyable.h>

namespace locus::cuda {

struct CudaStream;

class UnlockedStream : NonCopyable {
 public:
  explicit UnlockedStream(StreamView s);
  ~UnlockedStream();
  // f() with the mutex held again.
  void enqueue(const std::function<void()>& f) const;

 private:
  CudaStream& stream_;
  const char* const op_;
};

}  // namespace locus::cuda
