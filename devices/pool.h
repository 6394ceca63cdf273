// CachingPool: the caching memory pool of every context. The pool takes memory from the driver in
// segments, cuts segments into blocks, and keeps freed blocks for later requests.
//
//   CachingPool pool(std::move(source), {.context = c});
//   void* const p = pool.allocate(bytes, stream);
//   pool.deallocate(p, bytes, stream);     // the stream orders the block's next use
//
// A block freed on a stream is reused on that stream at once, without an event, because the stream
// orders the old and the new user. If memory is short, another stream may take the block and waits
// for the first one. If no memory is left, allocate throws OutOfMemory; the program can go on.
//
// The pool owns its MemorySource. Threads: any. LOCUS_POOL=off makes every block a driver
// allocation, for memory checkers.
#pragma once

#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include <locus/core/base/mutex.h>
#include <locus/core/device.h>

namespace locus {

// The memory behind a pool: cudaMalloc, cudaHostAlloc or aligned host memory. Threads: any.
class MemorySource {
 public:
  virtual ~MemorySource() = default;
  // Returns memory aligned to PoolOptions::rounding at least, or nullptr if there is none. bytes >=
  // 1.
  virtual void* allocate(size_t bytes) = 0;
  // Releases p. `bytes` is the argument of allocate. If streams of the context have queued work on
  // p, release waits for that work, as cudaFree does.
  virtual void release(void* p, size_t bytes) noexcept = 0;
};

bool pool_caching();  // false if LOCUS_POOL=off

struct PoolOptions {
  Context context;        // for errors, and for the events of blocks that change streams
  size_t rounding = 512;  // a power of two that divides block sizes and addresses
  size_t limit = 0;       // the most reserved bytes; 0: no limit
  bool caching = pool_caching();
  // Tells AddressSanitizer which bytes are live. Only for memory that the host alone uses.
  bool poison = false;
};

class CachingPool final : public MemoryPool, private NonCopyable {
 public:
  CachingPool(std::unique_ptr<MemorySource> source, const PoolOptions& options);
  // Waits for deferred blocks, then releases everything.
  ~CachingPool() override;

  void* allocate(size_t bytes, StreamView stream) override;
  // Frees p for `stream`. `bytes` is the argument of allocate. `stream` may differ from that of
  // allocate if the block is safe to reuse there.
  void deallocate(void* p, size_t bytes, StreamView stream) noexcept override;
  void deallocate_after(void* p, size_t bytes, StreamView stream,
                        std::span<const EventView> pending) noexcept override;

  MemoryStats stats() const override;
  void set_limit(size_t bytes) override;
  void release_cached() override;

  // Device::close_stream calls retire after the stream's work is done. The stream's blocks, and
  // blocks freed on the stream later, may then go to any stream.
  void retire(StreamView stream);
  // The stream is opened again. Blocks that it frees from now on belong to it.
  void revive(StreamView stream);

 private:
  struct StreamBlocks;
  struct Segment;
  struct Chunk;
  struct Deferred;
  enum Kind { small, medium, large };

  static Kind kind_of(size_t size);
  size_t rounded(size_t bytes) const;
  int bin_of(size_t size) const;
  StreamBlocks& blocks_of(StreamView stream) LOCUS_REQUIRES(mutex_);
  size_t block_size(size_t bytes) const;
  void* acquire(size_t bytes, StreamView stream);
  void* allocate_told(size_t bytes, StreamView stream);
  void* freed_block(void* p, size_t& bytes, StreamView stream,
                    std::span<const EventView>& pending) const;
  void put_back(void* p, size_t bytes, StreamView stream);
  void release_to_source(void* p, size_t bytes) noexcept;
  void* hand_out(void* p, size_t bytes, size_t size) LOCUS_REQUIRES(mutex_);
  void* allocate_slow(size_t bytes, size_t size, StreamView stream);
  void* take(size_t size) LOCUS_REQUIRES(mutex_);
  void* allocate_uncached(size_t bytes);
  void release_uncached(void* p, size_t bytes);
  void poison(const void* p, size_t bytes) const;
  void unpoison(const void* p, size_t bytes) const;
  static Chunk* best(const StreamBlocks& from, size_t size, Kind first, Kind last);
  Chunk* find(StreamBlocks& own, size_t size, Kind first, Kind last) LOCUS_REQUIRES(mutex_);
  Chunk* use(Chunk* chunk, StreamBlocks& to, size_t size) LOCUS_REQUIRES(mutex_);
  Chunk* steal(StreamBlocks& to, size_t size) LOCUS_REQUIRES(mutex_);
  Chunk* grow(StreamBlocks& to, size_t size) LOCUS_REQUIRES(mutex_);
  Chunk* grow_by(StreamBlocks& to, size_t size, size_t segment_size) LOCUS_REQUIRES(mutex_);
  void absorb(Chunk* left, Chunk* right) LOCUS_REQUIRES(mutex_);
  void give(StreamBlocks& to, void* p) LOCUS_REQUIRES(mutex_);
  void insert(Chunk* chunk) LOCUS_REQUIRES(mutex_);
  void flush(StreamBlocks& from) LOCUS_REQUIRES(mutex_);
  void finish(const Deferred& block) LOCUS_REQUIRES(mutex_);
  void poll(int patience) LOCUS_REQUIRES(mutex_);
  bool wait_deferred() LOCUS_REQUIRES(mutex_);
  void release_free_segments() LOCUS_REQUIRES(mutex_);
  [[noreturn]] void out_of_memory(size_t bytes) const LOCUS_REQUIRES(mutex_);
  size_t largest_free() const LOCUS_REQUIRES(mutex_);  // on any stream, cached segments only

  const std::unique_ptr<MemorySource> source_;
  const PoolOptions options_;
  const int rounding_bits_;
  mutable SpinMutex mutex_;
  MemoryStats stats_ LOCUS_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<StreamBlocks>> blocks_ LOCUS_GUARDED_BY(mutex_);  // by stream id
  std::unordered_map<void*, Chunk*> chunks_ LOCUS_GUARDED_BY(mutex_);           // by address
  std::vector<std::unique_ptr<Segment>> segments_ LOCUS_GUARDED_BY(mutex_);
  std::vector<Deferred> deferred_ LOCUS_GUARDED_BY(mutex_);
  // Threads that wait for deferred blocks they took out of deferred_.
  int waiting_ LOCUS_GUARDED_BY(mutex_) = 0;
  unsigned ticks_ LOCUS_GUARDED_BY(mutex_) = 0;
};

// --- Details ---
//
// - Blocks up to 1 MiB come from 2 MiB segments, blocks up to 32 MiB from 32 MiB segments, larger
// blocks from a segment of their own.
// - Within a segment the best fit is taken, and free neighbours merge.
// - Small sizes have free lists in front; allocate and deallocate together cost about 20 ns there.
// - If memory is short, the pool first takes blocks whose events are done, then blocks of other
// streams. The new stream waits on the device for the old one; for a recording, the host waits.
// - Next, the pool returns cached segments to the driver. Then the host waits for deferred blocks.
// - While the pool's lock is held, the pool only asks the driver whether events have fired.

}  // namespace locus
