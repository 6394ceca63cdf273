// Scratch is temporary memory for a kernel function, on any device.
//
// The memory comes from the context's pool, in the order of the call's stream, and is counted by
// memory_pool(c).stats(). When the Scratch is destroyed, later launches on the stream may reuse the
// memory without waiting. A replayed call (capture.h) has the same memory each time. Kernel
// functions allocate only through Scratch. Contents are not initialised. Threads: only the thread
// of the kernel function uses a Scratch; pass pointers to threads of parallel_for.
#pragma once

#include <locus/core/kernel.h>
#include <locus/core/noncopyable.h>

namespace locus {

class Scratch : NonCopyable {
 public:
  // Aligned to 256 bytes (64 on the host); null for 0 bytes. Throws OutOfMemory naming the context.
  Scratch(const Call& call, size_t bytes);
  ~Scratch();

  void* data() const { return data_; }
  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }

 private:
  StreamView stream_;
  size_t bytes_;
  bool of_replay_ = false;  // the replayed call owns the memory
  void* data_ = nullptr;
};

}  // namespace locus
