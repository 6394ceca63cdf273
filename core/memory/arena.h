// Arena: memory of recorded work, in blocks of one context with fixed addresses. Blocks come from
// the context's pool, which counts them (memory_pool(c).stats()). Internal to core.
//
// While the work is recorded, a freed block is reused on the same stream. On a GPU only large
// blocks are reused, because branches of the work would wait for each other. After close(), blocks
// return to the pool; blocks of live tensors return with the tensors.
// Threads: any.
#pragma once

#include <span>
#include <vector>

#include <locus/core/base/mutex.h>
#include <locus/core/device.h>
#include <locus/core/noncopyable.h>

namespace locus {

class Arena : NonCopyable {
 public:
  // `reserves`: blocks are addresses that no other block has, without memory.
  explicit Arena(Context c, bool reserves = false);

  // As Allocator::allocate; release() frees the block.
  void* allocate(size_t bytes, StreamView stream);
  // A block that is never reused, until close().
  void* keep(size_t bytes, StreamView stream);
  // `pending`: events of other streams' work on the block; takes ownership of them.
  void release(void* data, std::span<const EventView> pending) noexcept;
  // Call when all is recorded: later, no block is reused.
  void seal();
  // Whether no tensor has the block at `data`.
  bool idle(const void* data) const;
  // Call when all replays are done and no more will come.
  void close() noexcept;

  Context context() const { return context_; }
  size_t bytes() const;
  std::vector<std::span<std::byte>> blocks() const;

 private:
  struct Block {
    void* data;
    size_t bytes;
    StreamView stream;
    bool used = true, kept = false;
    uint64_t released = 0;                // index of the release
    std::vector<EventView> pending = {};  // if unused
  };
  Block& add(size_t bytes, StreamView stream) LOCUS_REQUIRES(mutex_);
  void give_back(const Block& b) noexcept;

  const Context context_;
  const bool reserves_;
  const size_t shared_;  // least bytes of blocks that are reused
  mutable Mutex mutex_;
  bool open_ LOCUS_GUARDED_BY(mutex_) = true, sealed_ LOCUS_GUARDED_BY(mutex_) = false;
  std::vector<Block> blocks_ LOCUS_GUARDED_BY(mutex_);
  uint64_t releases_ LOCUS_GUARDED_BY(mutex_) = 0;
};

}  // namespace locus
