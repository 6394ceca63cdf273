// For kernel functions: letting others launch meanwhile.
//
// launch() holds the stream's mutex while a kernel function runs, so that its kernels stay
// together: they share the stream's counters. A function that takes the host long, such as one
// whose library compiles, opens that mutex for a scope: other threads launch on the stream then, as
// they could have just before the call. Only before the function enqueues anything, or asks for
// counters.
#pragma once

#include <functional>

#include <locus/core/kernel.h>
#include <locus/core/noncopyable.h>

namespace locus::cuda {

struct CudaStream;

class Opened : NonCopyable {
 public:
  explicit Opened(StreamView s);
  ~Opened();
  // f() with the mutex held again.
  void enqueue(const std::function<void()>& f) const;

 private:
  CudaStream& stream_;
  const char* const op_;
};

}  // namespace locus::cuda
