// Ordinary host memory for a pool. Threads: any.
#pragma once

#include <locus/devices/pool.h>

namespace locus {

// `alignment`: a power of two. Stretches of 2 MiB and more are aligned to that, so that the kernel
// can back them with huge pages.
void* host_allocate(size_t bytes, size_t alignment);  // nullptr when there is none
void host_free(void* p);

// Copies on the pool's threads: `move` is memcpy or its like, for pieces of `grain` bytes.
void copy_on_threads(void* dst, const void* src, size_t bytes, size_t grain,
                     void (*move)(char* dst, const char* src, size_t bytes));

class HostMemory : public MemorySource {
 public:
  explicit HostMemory(size_t alignment) : alignment_(alignment) {}
  void* allocate(size_t bytes) override { return host_allocate(bytes, alignment_); }
  void release(void* p, size_t) noexcept override { host_free(p); }

 private:
  size_t alignment_;
};

MemoryInfo host_memory();  // of the machine, from /proc/meminfo

}  // namespace locus
