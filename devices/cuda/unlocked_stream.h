// For kernel functions that take the host long, such as a library that compiles.
//
// launch() holds the stream's mutex while a kernel function runs, because its kernels share the
// stream's counters. UnlockedStream releases the mutex for a scope, so other threads may launch on
// the stream. Their kernels come between those enqueued before and after the scope. So open no
// scope between a kernel and another that reads its counters, nor between counters() and the launch
// that uses them.
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
  // Calls f() with the mutex held again.
  void enqueue(const std::function<void()>& f) const;

 private:
  CudaStream& stream_;
  const char* const op_;
};

}  // namespace locus::cuda
