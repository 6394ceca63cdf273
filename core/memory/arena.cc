#include <locus/core/memory/arena.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include <locus/core/memory/unload.h>

namespace locus {
namespace {

constexpr size_t kLarge = size_t{1} << 20;

// Addresses that no memory has: the processor refuses them.
void* reserve(size_t bytes) {
  constexpr uint64_t kPage = 4096, kFirst = uint64_t{1} << 62;
  static std::atomic<uint64_t> next{kFirst};
  const uint64_t pages = bytes / kPage + 1;
  return reinterpret_cast<void*>(next.fetch_add(pages * kPage, std::memory_order_relaxed));
}

}  // namespace

Arena::Arena(Context c, bool reserves)
    : context_(c),
      reserves_(reserves),
      shared_(device(c).kernels() == DeviceType::cpu ? 0 : kLarge) {}

Arena::Block& Arena::add(size_t bytes, StreamView stream) {
  blocks_.reserve(blocks_.size() + 1);
  void* const data = device(context_).allocator().allocate(bytes, stream);
  return blocks_.emplace_back(Block{data, bytes, stream});
}

void* Arena::allocate(size_t bytes, StreamView stream) {
  if (reserves_) return reserve(bytes);
  const MutexLock lock(mutex_);
  Block* best = nullptr;
  // The smallest; among equals, the last released.
  for (Block& b : blocks_)
    if (!sealed_ && bytes >= shared_ && !b.used && b.pending.empty() && b.stream.id == stream.id &&
        b.bytes >= bytes && b.bytes / 2 <= bytes &&
        (!best || std::pair(b.bytes, best->released) < std::pair(best->bytes, b.released)))
      best = &b;
  if (!best) best = &add(bytes, stream);
  best->used = true;
  return best->data;
}

void* Arena::keep(size_t bytes, StreamView stream) {
  const MutexLock lock(mutex_);
  Block& b = add(bytes, stream);
  b.kept = true;
  return b.data;
}

void Arena::release(void* data, std::span<const EventView> pending) noexcept {
  if (reserves_) return;
  const MutexLock lock(mutex_);
  const auto at = std::find_if(blocks_.begin(), blocks_.end(),
                               [&](const Block& b) { return b.used && !b.kept && b.data == data; });
  at->used = false;
  at->released = ++releases_;
  at->pending.assign(pending.begin(), pending.end());
  if (open_) return;
  give_back(*at);
  blocks_.erase(at);
}

void Arena::seal() {
  const MutexLock lock(mutex_);
  sealed_ = true;
}

bool Arena::idle(const void* data) const {
  const MutexLock lock(mutex_);
  return std::any_of(blocks_.begin(), blocks_.end(),
                     [&](const Block& b) { return b.data == data && !b.used; });
}

void Arena::close() noexcept {
  if (devices_unload) return;
  const MutexLock lock(mutex_);
  open_ = false;
  std::erase_if(blocks_, [&](const Block& b) {
    const bool returns = !b.used || b.kept;
    if (returns) give_back(b);
    return returns;
  });
}

void Arena::give_back(const Block& b) noexcept {
  Allocator& pool = device(context_).allocator();
  if (b.pending.empty())
    pool.deallocate(b.data, b.bytes, b.stream);
  else
    pool.deallocate_after(b.data, b.bytes, b.stream, b.pending);
}

std::vector<std::span<std::byte>> Arena::blocks() const {
  const MutexLock lock(mutex_);
  std::vector<std::span<std::byte>> all;
  for (const Block& b : blocks_) all.emplace_back(static_cast<std::byte*>(b.data), b.bytes);
  return all;
}

size_t Arena::bytes() const {
  const MutexLock lock(mutex_);
  size_t sum = 0;
  for (const Block& b : blocks_) sum += b.bytes;
  return sum;
}

}  // namespace locus
