// Memory of work that is recorded and replayed: blocks of one context whose addresses stay. They
// come from the context's pool, which counts them (memory_pool(c).stats()). Internal to core.
//
// A block that its tensor gave up is handed out again, to the same stream, while the work is
// recorded; on a GPU only a large one, so that branches of the work need not wait for each other.
// Once the work is gone (close), blocks return to the pool: those of tensors that live on with
// these.
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
  explicit Arena(Context c);

  // As Allocator's, to be released.
  void* allocate(size_t bytes, StreamView stream);
  // A block that no other work has or had, until close().
  void* keep(size_t bytes, StreamView stream);
  // `pending`: what other streams still do with the block; takes ownership of the events.
  void release(void* data, std::span<const EventView> pending) noexcept;
  // All is recorded: no block is handed out again from now on.
  void seal();
  // Whether the block at `data` is one that no tensor has.
  bool idle(const void* data) const;
  // Nothing replays any more, and what was replayed is done.
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
    uint64_t released = 0;                // when, counted
    std::vector<EventView> pending = {};  // once unused
  };
  Block& add(size_t bytes, StreamView stream) LOCUS_REQUIRES(mutex_);
  void give_back(const Block& b) noexcept;

  const Context context_;
  const size_t shared_;  // bytes from which on blocks are handed out again
  mutable Mutex mutex_;
  bool open_ LOCUS_GUARDED_BY(mutex_) = true, sealed_ LOCUS_GUARDED_BY(mutex_) = false;
  std::vector<Block> blocks_ LOCUS_GUARDED_BY(mutex_);
  uint64_t releases_ LOCUS_GUARDED_BY(mutex_) = 0;
};

}  // namespace locus
