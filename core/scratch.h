// Memory that a kernel needs for itself while it runs, on every device alike.
//
// It comes from the context's pool (memory_pool(c).stats() counts it) in the order of the call's
// stream: it is free for what is launched there next as soon as the Scratch ends, without waiting.
// A call that is replayed (capture.h) has the same memory each time.
// A kernel function allocates nothing in another way. Contents are not initialised. Threads: the
// one that runs the kernel function; hand pointers, not Scratches, to parallel_for's.
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
  bool of_replay_ = false;  // of a call that is replayed, which keeps it
  void* data_ = nullptr;
};

}  // namespace locus
