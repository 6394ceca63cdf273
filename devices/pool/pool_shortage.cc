// The pool without a free block: grows, takes from other streams, waits, or throws.
#include <algorithm>
#include <climits>
#include <cstdint>
#include <iterator>
#include <string>
#include <utility>

#include <locus/core/base/table.h>
#include <locus/core/error.h>
#include <locus/core/memory/recording_home.h>
#include <locus/core/observe/memory_events.h>
#include <locus/core/observe/red_zones.h>
#include <locus/core/stream.h>
#include <locus/devices/pool/pool_blocks.h>

namespace locus {
namespace {

constexpr size_t kSegment[] = {size_t{2} << 20, size_t{32} << 20, 0};  // by Kind; 0: exact

}  // namespace

// The size that stats count.
size_t CachingPool::block_size(size_t bytes) const {
  return options_.caching ? rounded(bytes) : std::max<size_t>(bytes, 1);
}

// allocate(), with events and red zones. No lock is held while hooks run.
void* CachingPool::allocate_told(size_t bytes, StreamView stream) {
  memory_events::read_environment();
  const size_t zone = red_zones::zone(options_.rounding);
  const size_t whole = bytes > SIZE_MAX - 2 * zone ? bytes : bytes + 2 * zone;
  MemoryEvent event{
      .context = options_.context, .stream = stream.id, .bytes = bytes, .block = block_size(whole)};
  memory_events::tell(event);
  void* p = acquire(whole, stream);
  if (zone > 0) {
    try {
      p = red_zones::open(p, bytes, zone, stream, options_.context);
    } catch (...) {
      put_back(p, whole, stream);
      throw;
    }
  }
  event.kind = MemoryEventKind::served;
  event.data = p;
  memory_events::tell(event);
  return p;
}

// The block, and its `bytes`, with red zones. Empties `pending` if they are done. Comes before the
// block can be handed out again, so that hooks see events of a block in order.
void* CachingPool::freed_block(void* p, size_t& bytes, StreamView stream,
                               std::span<const EventView>& pending) const {
  const red_zones::Block block = red_zones::close(p, bytes, stream, options_.context, pending);
  memory_events::tell({.kind = MemoryEventKind::freed,
                       .context = options_.context,
                       .stream = stream.id,
                       .bytes = bytes,
                       .block = block_size(block.bytes),
                       .data = p});
  bytes = block.bytes;
  return block.data;
}

void CachingPool::release_to_source(void* p, size_t bytes) noexcept {
  if (!memory_events::off())
    memory_events::tell({.kind = MemoryEventKind::released,
                         .context = options_.context,
                         .bytes = bytes,
                         .block = bytes,
                         .data = p});
  source_->release(p, bytes);
}

void* CachingPool::allocate_slow(size_t bytes, size_t size, StreamView stream) {
  const SpinLock lock(mutex_);
  StreamBlocks& own = blocks_of(stream);
  const Kind kind = kind_of(size);
  Chunk* chunk = find(own, size, kind, kind);
  if (chunk == nullptr) {
    poll(INT_MAX);
    flush(own);
    chunk = find(own, size, kind, kind);
  }
  if (chunk == nullptr) chunk = grow(own, size);
  while (chunk == nullptr) {
    if ((chunk = find(own, size, small, large)) != nullptr) break;
    if ((chunk = steal(own, size)) != nullptr) break;
    release_free_segments();
    if ((chunk = grow(own, size)) != nullptr) break;
    if (!wait_deferred()) out_of_memory(bytes);
  }
  return hand_out(chunk->data, bytes, size);
}

// Memory from the source; nullptr beyond the limit, or if there is none.
void* CachingPool::take(size_t size) {
  if (stats_.limit != 0 && stats_.reserved + size > stats_.limit) return nullptr;
  stats_.reserved += size;  // before unlocking: threads must not pass the limit together
  void* p = nullptr;
  FirstFailure failure;
  mutex_.unlock();
  failure.run([&] { p = source_->allocate(size); });
  if (p != nullptr && !memory_events::off())
    memory_events::tell({.kind = MemoryEventKind::upstream,
                         .context = options_.context,
                         .bytes = size,
                         .block = size,
                         .data = p});
  mutex_.lock();
  if (p != nullptr)
    ++stats_.driver_allocations;
  else
    stats_.reserved -= size;
  failure.rethrow();
  return p;
}

void* CachingPool::allocate_uncached(size_t bytes) {
  const size_t size = std::max<size_t>(bytes, 1);
  const SpinLock lock(mutex_);
  poll(INT_MAX);
  for (;;) {
    if (void* p = take(size)) return hand_out(p, bytes, size);
    if (!wait_deferred()) out_of_memory(bytes);
  }
}

void CachingPool::release_uncached(void* p, size_t bytes) {
  const size_t size = std::max<size_t>(bytes, 1);
  release_to_source(p, size);
  const SpinLock lock(mutex_);
  stats_.in_use -= size;
  stats_.reserved -= size;
}

// Adds a whole segment or, if memory is short, just the block.
CachingPool::Chunk* CachingPool::grow(StreamBlocks& to, size_t size) {
  const size_t segment = std::max(kSegment[kind_of(size)], size);
  if (Chunk* chunk = grow_by(to, size, segment)) return chunk;
  return segment > size ? grow_by(to, size, size) : nullptr;
}

CachingPool::Chunk* CachingPool::grow_by(StreamBlocks& to, size_t size, size_t segment_size) {
  auto* data = static_cast<char*>(take(segment_size));
  if (data == nullptr) return nullptr;
  segments_.push_back(
      std::make_unique<Segment>(Segment{data, segment_size, kind_of(size), nullptr}));
  Segment* segment = segments_.back().get();
  auto* chunk = new Chunk{data, segment_size, segment, &to};
  segment->first = chunk;
  chunks_.emplace(data, chunk);
  poison(data, segment_size);
  insert(chunk);
  return use(chunk, to, size);
}

// Takes a free block of another stream. The new stream waits for the old stream's queued work. For
// a recording, the host waits.
CachingPool::Chunk* CachingPool::steal(StreamBlocks& to, size_t size) {
  for (size_t i = 0; i < blocks_.size(); ++i) {
    StreamBlocks* other = blocks_[i].get();
    if (other == nullptr || other == &to || other->retired) continue;
    flush(*other);
    const StreamView from = other->stream;
    Chunk* const chunk = best(*other, size, small, large);
    if (chunk == nullptr) continue;
    use(chunk, to, size);
    mutex_.unlock();
    try {
      if (!is_recording_home(from)) {
        const Event event(from);
        Device& d = device(options_.context);
        is_recording_home(to.stream) ? d.wait_host(event.view()) : d.wait(to.stream, event.view());
      }
    } catch (...) {
      mutex_.lock();
      give(*other, chunk->data);
      throw;
    }
    mutex_.lock();
    return chunk;
  }
  return nullptr;
}

void CachingPool::release_free_segments() {
  for (const auto& a : blocks_)
    if (a != nullptr) flush(*a);
  std::vector<std::unique_ptr<Segment>> unused;
  const auto is_unused = [](const auto& segment) {
    for (const Chunk* chunk = segment->first; chunk != nullptr; chunk = chunk->next)
      if (!chunk->free) return false;
    return true;
  };
  const auto first = std::stable_partition(segments_.begin(), segments_.end(),
                                           [&](const auto& s) { return !is_unused(s); });
  std::move(first, segments_.end(), std::back_inserter(unused));
  segments_.erase(first, segments_.end());
  for (const auto& segment : unused) {
    for (Chunk* chunk = segment->first; chunk != nullptr;) {
      chunk->owner->free[segment->kind].erase(chunk);
      chunks_.erase(chunk->data);
      delete std::exchange(chunk, chunk->next);
    }
  }
  ++waiting_;
  mutex_.unlock();
  size_t released = 0;
  for (const auto& segment : unused) {
    unpoison(segment->data, segment->size);
    release_to_source(segment->data, segment->size);
    released += segment->size;
  }
  mutex_.lock();
  stats_.reserved -= released;
  --waiting_;
}

namespace {

// An event of a device that failed never fires; its error surfaces at synchronize().
bool is_done(EventView event) {
  try {
    return device(event.context).done(event);
  } catch (...) {
    return true;
  }
}

}  // namespace

// Frees deferred blocks that are done, oldest first, until `patience` blocks are not.
void CachingPool::poll(int patience) {
  std::vector<Deferred> finished;
  size_t kept = 0, i = 0;
  for (; i < deferred_.size() && patience > 0; ++i) {
    std::vector<EventView>& pending = deferred_[i].pending;
    while (!pending.empty() && is_done(pending.back())) {
      device(pending.back().context).release(pending.back());
      pending.pop_back();
    }
    if (pending.empty()) {
      finished.push_back(std::move(deferred_[i]));
      continue;
    }
    --patience;
    if (kept != i) deferred_[kept] = std::move(deferred_[i]);
    ++kept;
  }
  const auto first = deferred_.begin();
  deferred_.erase(first + static_cast<std::ptrdiff_t>(kept),
                  first + static_cast<std::ptrdiff_t>(i));
  for (const Deferred& block : finished) finish(block);
}

// The host waits for deferred blocks. False if there are none.
bool CachingPool::wait_deferred() {
  if (deferred_.empty()) {
    if (waiting_ == 0) return false;
    while (waiting_ > 0) {
      mutex_.unlock();
      std::this_thread::yield();
      mutex_.lock();
    }
    return true;
  }
  std::vector<Deferred> blocks;
  blocks.swap(deferred_);
  ++waiting_;
  mutex_.unlock();
  for (const Deferred& block : blocks) {
    for (const EventView& event : block.pending) {
      try {
        device(event.context).wait_host(event);
      } catch (...) {
        // As in is_done.
      }
      device(event.context).release(event);
    }
  }
  mutex_.lock();
  for (const Deferred& block : blocks) finish(block);
  --waiting_;
  return true;
}

void CachingPool::finish(const Deferred& block) {
  if (options_.caching) {
    const size_t size = rounded(block.bytes);
    stats_.in_use -= size;
    poison(block.block, size);
    give(blocks_of(block.stream), block.block);
    return;
  }
  mutex_.unlock();
  release_uncached(block.block, block.bytes);
  mutex_.lock();
}

void CachingPool::out_of_memory(size_t bytes) const {
  const std::string where = to_string(options_.context);
  throw OutOfMemory(
      "out of memory on ", where, ": ", memory_text(bytes), " requested; in use ",
      memory_text(stats_.in_use), ", reserved ", memory_text(stats_.reserved), ", limit ",
      stats_.limit == 0 ? std::string("none") : memory_text(stats_.limit), ", largest free block ",
      memory_text(largest_free()),
      stats_.limit == 0
          ? ". Free tensors, or use smaller batches"
          : ". Free tensors, use smaller batches, or raise memory_pool(" + where + ")'s limit");
}

}  // namespace locus
