// Internal to devices/cuda: page-locked slots through which pageable memory is copied.
//
// A copy is cut into chunks. While threads of the host's pool move one chunk between the program's
// memory and a slot, the copy engine moves its neighbours. The driver's own copies do not overlap
// and reach a fraction of the link's rate. Threads: `mutex` is held for a whole copy.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstddef>

#include <locus/core/base/mutex.h>
#include <locus/core/kernel.h>
#include <locus/core/noncopyable.h>
#include <locus/devices/pool/spares.h>

namespace locus::cuda {

class Ring {
 public:
  static constexpr int kSlots = 8;
  static constexpr size_t kSlotBytes = size_t{2} << 20;
  struct Slot {
    char* memory = nullptr;
    cudaEvent_t free = nullptr;  // fires when the slot's last copy is done
  };

  explicit Ring(Context context) : context_(context) {}

  // Returns when src has been read; the last chunks may be in flight.
  void upload(void* dst, const void* src, size_t bytes, cudaStream_t s);
  // Returns when dst is filled. s should be idle, because other threads wait for the ring.
  void download(void* dst, const void* src, size_t bytes, cudaStream_t s);

  // An empty slot, for copies that use slots directly. Throws OutOfMemory if there is no
  // page-locked memory.
  Slot& take() LOCUS_REQUIRES(mutex);
  Mutex mutex;

 private:
  void open() LOCUS_REQUIRES(mutex);
  const Context context_;
  Slot slots_[kSlots] LOCUS_GUARDED_BY(mutex);
  int next_ LOCUS_GUARDED_BY(mutex) = 0;
};

// Page-locked buffers for small downloads. Each download leases one, so threads that wait for
// different streams do not wait for each other.
class SmallBuffers {
 public:
  static constexpr size_t kBytes = size_t{64} << 10;

  class Lease : NonCopyable {
   public:
    explicit Lease(SmallBuffers& from);
    ~Lease() { from_.free_.put(memory_); }
    void* memory() const { return memory_; }

   private:
    SmallBuffers& from_;
    void* memory_;
  };

 private:
  Spares<void*> free_;
};

// nullptr if there is none. In memory.cc.
void* pinned_memory(size_t bytes);

// Faults for tests: no page-locked memory; direct links between GPUs that deliver wrong bytes.
struct TestFaults {
  std::atomic<bool> no_pinned_memory{false};
  std::atomic<bool> corrupt_links{false};
};
TestFaults& test_faults();

}  // namespace locus::cuda
