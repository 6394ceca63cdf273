// A table of objects by small ids, such as a stream's. Chunks never move, so that look-ups take no
// lock. The table does not own its objects and never removes an entry. Internal.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include <locus/core/base/mutex.h>

namespace locus {

template <class T>
class IdTable {
 public:
  static constexpr uint32_t kChunkBits = 10, kChunk = 1u << kChunkBits, kChunks = 1u << 12;
  static constexpr uint32_t kCapacity = kChunk * kChunks;  // ids are below it

  // nullptr if there is none.
  T* find(uint32_t id) const {
    if (id >= kCapacity) return nullptr;
    const Chunk* chunk = chunks_[id >> kChunkBits].load(std::memory_order_acquire);
    return chunk ? (*chunk)[id & (kChunk - 1)].load(std::memory_order_acquire) : nullptr;
  }
  // The object. If there is none, enters the result of make(). id < kCapacity.
  T& find_or_enter(uint32_t id, const auto& make) {
    if (T* found = find(id)) return *found;
    const MutexLock lock(mutex_);
    std::atomic<Chunk*>& chunk = chunks_[id >> kChunkBits];
    if (!chunk.load(std::memory_order_relaxed)) chunk.store(new Chunk{}, std::memory_order_release);
    std::atomic<T*>& slot = (*chunk.load(std::memory_order_relaxed))[id & (kChunk - 1)];
    if (!slot.load(std::memory_order_relaxed)) slot.store(make(), std::memory_order_release);
    return *slot.load(std::memory_order_relaxed);
  }

 private:
  using Chunk = std::array<std::atomic<T*>, kChunk>;
  Mutex mutex_;  // held to enter
  std::atomic<Chunk*> chunks_[kChunks] = {};
};

}  // namespace locus
