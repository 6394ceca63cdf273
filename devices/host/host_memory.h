// Ordinary host memory for a pool. Threads: any.
#pragma once

#include <locus/devices/pool.h>

namespace locus {

// `alignment`: a power of two. Blocks of 2 MiB and more are aligned to 2 MiB, for huge pages.
void* host_allocate(size_t bytes, size_t alignment);  // nullptr if there is none
void host_free(void* p);

// Copies on the thread pool. `move` copies a piece, a multiple of `grain` bytes, like memcpy.
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
