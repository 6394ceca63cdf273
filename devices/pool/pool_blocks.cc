#include <locus/devices/pool.h>

#include <algorithm>
#include <bit>
#include <climits>
#include <utility>

#include <locus/core/base/environment.h>
#include <locus/core/error.h>
#include <locus/core/observe/memory_events.h>
#include <locus/devices/pool/pool_blocks.h>

// Present only in programs built with AddressSanitizer.
extern "C" {
void __asan_poison_memory_region(const volatile void*, size_t) __attribute__((weak));
void __asan_unpoison_memory_region(const volatile void*, size_t) __attribute__((weak));
}

namespace locus {
namespace {

constexpr size_t kSmallest = 8;  // units of rounding below which every size has a bin
constexpr size_t kSmall = size_t{1} << 20;
constexpr size_t kMedium = size_t{32} << 20;
constexpr size_t kLargest = size_t{1} << 60;  // larger requests would overflow the rounding

size_t round_up(size_t n, size_t multiple) { return (n + multiple - 1) / multiple * multiple; }

}  // namespace

bool pool_caching() {
  static const bool caching = environment_choice("LOCUS_POOL", {"on", "off"}).value_or(0) == 0;
  return caching;
}

void CachingPool::poison(const void* p, size_t bytes) const {
  if (options_.poison && __asan_poison_memory_region != nullptr)
    __asan_poison_memory_region(p, bytes);
}
void CachingPool::unpoison(const void* p, size_t bytes) const {
  if (options_.poison && __asan_unpoison_memory_region != nullptr)
    __asan_unpoison_memory_region(p, bytes);
}

CachingPool::CachingPool(std::unique_ptr<MemorySource> source, const PoolOptions& options)
    : source_(std::move(source)),
      options_(options),
      rounding_bits_(std::countr_zero(options.rounding)) {
  LOCUS_CHECK(std::has_single_bit(options.rounding) && options.rounding <= 4096,
              "PoolOptions::rounding is not a power of two up to 4096");
  stats_.limit = options.limit;
}

CachingPool::~CachingPool() {
  {
    const SpinLock lock(mutex_);
    wait_deferred();
  }
  for (const auto& segment : segments_) {
    unpoison(segment->data, segment->size);
    release_to_source(segment->data, segment->size);
    for (Chunk* chunk = segment->first; chunk != nullptr;) delete std::exchange(chunk, chunk->next);
  }
}

// Eight sizes per power of two, so at most an eighth of a small block is lost.
size_t CachingPool::rounded(size_t bytes) const {
  if (bytes > kMedium) return round_up(bytes, 2 * kSmall);
  if (bytes > kSmall) return round_up(bytes, 4096);
  const size_t last = (bytes == 0 ? 0 : bytes - 1) >> rounding_bits_;
  if (last < kSmallest) return (last + 1) << rounding_bits_;
  const int shift = std::bit_width(last) - 4;
  return ((last >> shift) + 1) << shift << rounding_bits_;
}

int CachingPool::bin_of(size_t size) const {
  const size_t last = (size >> rounding_bits_) - 1;
  if (last < kSmallest) return static_cast<int>(last);
  const int shift = std::bit_width(last) - 4;
  return 8 * shift + static_cast<int>(last >> shift);
}

CachingPool::Kind CachingPool::kind_of(size_t size) {
  return size <= kSmall ? small : size <= kMedium ? medium : large;
}

CachingPool::StreamBlocks& CachingPool::blocks_of(StreamView stream) {
  if (stream.id >= blocks_.size()) blocks_.resize(stream.id + 1);
  std::unique_ptr<StreamBlocks>& a = blocks_[stream.id];
  if (a == nullptr) {
    a = std::make_unique<StreamBlocks>();
    a->stream = stream;
  }
  return *a;
}

void* CachingPool::hand_out(void* p, size_t bytes, size_t size) {
  ++stats_.allocations;
  stats_.in_use += size;
  stats_.peak = std::max(stats_.peak, stats_.in_use);
  unpoison(p, bytes);
  return p;
}

void* CachingPool::allocate(size_t bytes, StreamView stream) {
  if (!memory_events::off()) [[unlikely]]
    return allocate_told(bytes, stream);
  return acquire(bytes, stream);
}

void* CachingPool::acquire(size_t bytes, StreamView stream) {
  if (bytes > kLargest) {
    const SpinLock lock(mutex_);
    out_of_memory(bytes);
  }
  const size_t size = rounded(bytes);
  if (size <= kSmall) {
    const SpinLock lock(mutex_);
    // Querying events costs a microsecond, so only every 16th call does.
    if (!deferred_.empty() && ++ticks_ % 16 == 0) poll(1);
    if (stream.id < blocks_.size() && blocks_[stream.id] != nullptr) {
      StreamBlocks::Bin& bin = blocks_[stream.id]->bins[bin_of(size)];
      if (bin.count > 0) return hand_out(bin.blocks[--bin.count], bytes, size);
    }
  }
  return options_.caching ? allocate_slow(bytes, size, stream) : allocate_uncached(bytes);
}

void CachingPool::deallocate(void* p, size_t bytes, StreamView stream) noexcept {
  if (p == nullptr) return;
  if (memory_events::off()) [[likely]]
    return put_back(p, bytes, stream);
  std::span<const EventView> none;
  void* const block = freed_block(p, bytes, stream, none);
  put_back(block, bytes, stream);
}

void CachingPool::put_back(void* p, size_t bytes, StreamView stream) {
  if (!options_.caching) return release_uncached(p, bytes);
  const size_t size = rounded(bytes);
  poison(p, size);
  const SpinLock lock(mutex_);
  stats_.in_use -= size;
  StreamBlocks& own = blocks_of(stream);
  if (size > kSmall || own.retired) return give(own, p);
  StreamBlocks::Bin& bin = own.bins[bin_of(size)];
  if (bin.count == bin.capacity) {
    if (bin.capacity == 0) {
      bin.capacity = static_cast<int>(std::clamp<size_t>(kSmall / size, 2, 64));
      bin.blocks = std::make_unique<void*[]>(static_cast<size_t>(bin.capacity));
    } else {
      // The older half goes back; the newer is warm in cache.
      const int half = bin.capacity / 2;
      for (int i = 0; i < half; ++i) give(own, bin.blocks[i]);
      std::copy(&bin.blocks[half], &bin.blocks[bin.count], &bin.blocks[0]);
      bin.count -= half;
    }
  }
  bin.blocks[bin.count++] = p;
}

void CachingPool::deallocate_after(void* p, size_t bytes, StreamView stream,
                                   std::span<const EventView> pending) noexcept {
  if (pending.empty()) return deallocate(p, bytes, stream);
  if (!memory_events::off()) [[unlikely]] {
    p = freed_block(p, bytes, stream, pending);
    if (pending.empty()) return put_back(p, bytes, stream);
  }
  const SpinLock lock(mutex_);
  deferred_.push_back({p, bytes, stream, {pending.begin(), pending.end()}});
}

// Gives a free chunk to `to`, and splits off the rest if large enough.
CachingPool::Chunk* CachingPool::use(Chunk* chunk, StreamBlocks& to, size_t size) {
  static constexpr size_t kWorthSplitting[] = {0, kSmall / 4, 2 * kSmall};
  StreamBlocks& from = *chunk->owner;
  from.free[chunk->segment->kind].erase(chunk);
  chunk->free = false;
  const size_t rest = chunk->size - size;
  if (rest > 0 && rest >= kWorthSplitting[chunk->segment->kind]) {
    Chunk* tail = new Chunk{chunk->data + size, rest, chunk->segment, &from, chunk, chunk->next};
    if (tail->next != nullptr) tail->next->previous = tail;
    chunk->next = tail;
    chunk->size = size;
    chunks_.emplace(tail->data, tail);
    insert(tail);
  }
  chunk->owner = &to;
  return chunk;
}

void CachingPool::insert(Chunk* chunk) {
  chunk->free = true;
  chunk->owner->free[chunk->segment->kind].insert(chunk);
}

// The best fit of these kinds among a stream's free blocks.
CachingPool::Chunk* CachingPool::best(const StreamBlocks& from, size_t size, Kind first,
                                      Kind last) {
  Chunk wanted{nullptr, size, nullptr, nullptr};
  for (int kind = first; kind <= last; ++kind)
    if (const auto at = from.free[kind].lower_bound(&wanted); at != from.free[kind].end())
      return *at;
  return nullptr;
}

// Searches the stream's own blocks, then those of retired streams.
CachingPool::Chunk* CachingPool::find(StreamBlocks& own, size_t size, Kind first, Kind last) {
  if (Chunk* chunk = best(own, size, first, last)) return use(chunk, own, size);
  for (const auto& other : blocks_) {
    if (other == nullptr || !other->retired) continue;
    if (Chunk* chunk = best(*other, size, first, last)) return use(chunk, own, size);
  }
  return nullptr;
}

void CachingPool::absorb(Chunk* left, Chunk* right) {
  left->size += right->size;
  left->next = right->next;
  if (right->next != nullptr) right->next->previous = left;
  chunks_.erase(right->data);
  delete right;
}

// Frees a block for the stream of `to`, and merges it with free neighbours that the stream may use.
void CachingPool::give(StreamBlocks& to, void* p) {
  const auto at = chunks_.find(p);
  LOCUS_CHECK(at != chunks_.end(), "a block was freed that the pool did not hand out");
  Chunk* chunk = at->second;
  LOCUS_CHECK(!chunk->free, "a block was freed twice");
  chunk->owner = &to;
  const auto mergeable = [&](const Chunk* other) {
    return other != nullptr && other->free && (other->owner == &to || other->owner->retired);
  };
  if (Chunk* next = chunk->next; mergeable(next)) {
    next->owner->free[next->segment->kind].erase(next);
    absorb(chunk, next);
  }
  if (Chunk* previous = chunk->previous; mergeable(previous)) {
    previous->owner->free[previous->segment->kind].erase(previous);
    previous->owner = &to;
    absorb(previous, chunk);
    chunk = previous;
  }
  insert(chunk);
}

void CachingPool::flush(StreamBlocks& from) {
  for (StreamBlocks::Bin& bin : from.bins)
    while (bin.count > 0) give(from, bin.blocks[--bin.count]);
}

void CachingPool::retire(StreamView stream) {
  const SpinLock lock(mutex_);
  StreamBlocks& own = blocks_of(stream);
  flush(own);
  own.retired = true;
}

void CachingPool::revive(StreamView stream) {
  const SpinLock lock(mutex_);
  blocks_of(stream).retired = false;
}

MemoryStats CachingPool::stats() const {
  const SpinLock lock(mutex_);
  return stats_;
}

void CachingPool::set_limit(size_t bytes) {
  const SpinLock lock(mutex_);
  stats_.limit = bytes;
}

void CachingPool::release_cached() {
  const SpinLock lock(mutex_);
  poll(INT_MAX);
  release_free_segments();
}

size_t CachingPool::largest_free() const {
  size_t largest = 0;
  for (const auto& a : blocks_) {
    if (a == nullptr) continue;
    for (const auto& free : a->free)
      if (!free.empty()) largest = std::max(largest, (*free.rbegin())->size);
  }
  return largest;
}

}  // namespace locus
