// The caching pool behind every context: driver memory is taken in segments and cut into blocks;
// freed blocks are kept and handed out again.
//
// Blocks up to 1 MiB come from 2 MiB segments, blocks up to 32 MiB from 32 MiB segments, larger
// ones from a segment of their own. Within a segment: best fit, and free neighbours merge. Each
// stream has free blocks of its own (StreamBlocks): a block freed on a stream is reused there at
// once, without any event, because the stream orders the old and the new user. Another stream gets
// it only when memory is short, and then waits on the device for the first. Blocks of small sizes
// pass through free lists in front; the pair allocate + deallocate costs about 20 ns there.
//
// When memory is short: blocks whose events are done, then blocks of other streams, then cached
// segments back to the driver, then the host waits for deferred blocks; then OutOfMemory, after
// which the program can go on. Threads: any; with the lock held the driver is asked
// whether an event has fired, and nothing else.
// LOCUS_POOL=off makes every block a driver allocation, for memory checkers.
#pragma once

#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include <locus/core/base/mutex.h>
#include <locus/core/device.h>

namespace locus {

// Where a pool takes memory from: cudaMalloc, cudaHostAlloc, aligned host memory. Threads: any.
class MemorySource {
 public:
  virtual ~MemorySource() = default;
  // nullptr when there is no memory; aligned to PoolOptions::rounding at least. bytes >= 1.
  virtual void* allocate(size_t bytes) = 0;
  // Streams of the context may still have work queued on p; release must wait for it (cudaFree
  // does by itself). `bytes` is what allocate was given.
  virtual void release(void* p, size_t bytes) noexcept = 0;
};

bool pool_caching();  // false when LOCUS_POOL=off

struct PoolOptions {
  Context context;        // for errors, and for the events of blocks that change streams
  size_t rounding = 512;  // block sizes and addresses are multiples of it; a power of two
  size_t limit = 0;       // on reserved bytes; 0: none
  bool caching = pool_caching();
  // Tell AddressSanitizer which bytes are live. Only for host memory used by the host alone.
  bool poison = false;
};

class CachingPool final : public MemoryPool, private NonCopyable {
 public:
  CachingPool(std::unique_ptr<MemorySource> source, const PoolOptions& options);
  // Waits for deferred blocks, then releases everything.
  ~CachingPool() override;

  void* allocate(size_t bytes, StreamView stream) override;
  // `bytes` is what allocate was given. `stream` may be another one than allocate's, if the block
  // is safe to reuse there.
  void deallocate(void* p, size_t bytes, StreamView stream) noexcept override;
  void deallocate_after(void* p, size_t bytes, StreamView stream,
                        std::span<const EventView> pending) noexcept override;

  MemoryStats stats() const override;
  void set_limit(size_t bytes) override;
  void release_cached() override;

  // The stream is being closed and its work is done: its blocks, and those freed on it later, may
  // go to any stream. Call from Device::close_stream.
  void retire(StreamView stream);
  // The stream is opened again: what it frees is its own.
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

}  // namespace locus
