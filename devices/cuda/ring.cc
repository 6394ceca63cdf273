#include <locus/devices/cuda/ring.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#if defined(__x86_64__)
#include <emmintrin.h>
#endif

#include <locus/core/device.h>
#include <locus/core/error.h>
#include <locus/devices/cuda/driver.h>
#include <locus/devices/host/host_memory.h>

namespace locus::cuda {
namespace {

constexpr size_t kPiece = size_t{64} << 10;           // bytes a thread moves in some 6 us
constexpr size_t kSmallestChunk = size_t{256} << 10;  // below it, events cost more than they hide
constexpr size_t kBeyondCaches = size_t{16} << 20;

// At best four chunks, so that short copies overlap.
size_t chunk_of(size_t bytes) {
  const size_t quarter = (bytes / 4 + kPiece - 1) / kPiece * kPiece;
  return std::clamp(quarter, kSmallestChunk, Ring::kSlotBytes);
}

void copy_piece(char* dst, const char* src, size_t n) { std::memcpy(dst, src, n); }

// Non-temporal stores: dst is not read first and the caches keep their contents.
void stream_piece(char* dst, const char* src, size_t n) {
#if defined(__x86_64__)
  const size_t head = std::min(n, (16 - reinterpret_cast<uintptr_t>(dst) % 16) % 16);
  std::memcpy(dst, src, head);
  size_t i = head;
  for (; i + 64 <= n; i += 64) {
    const auto* from = reinterpret_cast<const __m128i*>(src + i);
    auto* to = reinterpret_cast<__m128i*>(dst + i);
    const __m128i a = _mm_loadu_si128(from), b = _mm_loadu_si128(from + 1);
    const __m128i c = _mm_loadu_si128(from + 2), d = _mm_loadu_si128(from + 3);
    _mm_stream_si128(to, a);
    _mm_stream_si128(to + 1, b);
    _mm_stream_si128(to + 2, c);
    _mm_stream_si128(to + 3, d);
  }
  std::memcpy(dst + i, src + i, n - i);
  _mm_sfence();
#else
  std::memcpy(dst, src, n);
#endif
}

// Page-locked memory. If there is none, the pinned pool first releases its cached blocks.
void* allocate_pinned(size_t bytes, const std::string& what) {
  for (const bool again : {false, true}) {
    if (void* p = test_faults().no_pinned_memory ? nullptr : pinned_memory(bytes)) return p;
    if (!again) memory_pool(cpu_pinned()).release_cached();
  }
  throw OutOfMemory("out of page-locked memory: ", what, " needs ", bytes >> 10,
                    " KiB. Free cpu_pinned() tensors, raise the limit of locked memory (ulimit -l, "
                    "or the container's memory), or keep the host's side in cpu_pinned()");
}

}  // namespace

TestFaults& test_faults() {
  static TestFaults p;
  return p;
}

void Ring::open() {
  if (slots_[0].memory) return;
  const Guard guard(context_.index);
  for (Slot& slot : slots_)
    if (!slot.free) LOCUS_CUDA(cudaEventCreateWithFlags(&slot.free, cudaEventDisableTiming));
  auto* memory = static_cast<char*>(
      allocate_pinned(kSlots * kSlotBytes,
                      "the ring through which " + to_string(context_) + " copies pageable memory"));
  for (Slot& slot : slots_) {
    slot.memory = memory;
    memory += kSlotBytes;
  }
}

// Round robin. A slot whose copy is pending is skipped if another is empty.
Ring::Slot& Ring::take() {
  open();
  for (int i = 0; i < kSlots; ++i) {
    const int which = (next_ + i) % kSlots;
    const cudaError_t state = cudaEventQuery(slots_[which].free);
    if (state == cudaErrorNotReady) {
      static_cast<void>(cudaGetLastError());
      continue;
    }
    if (state != cudaSuccess) failed(state, "cudaEventQuery", __FILE__, __LINE__);
    next_ = (which + 1) % kSlots;
    return slots_[which];
  }
  Slot& slot = slots_[next_];
  next_ = (next_ + 1) % kSlots;
  LOCUS_CUDA(cudaEventSynchronize(slot.free));
  return slot;
}

void Ring::upload(void* dst, const void* src, size_t bytes, cudaStream_t s) {
  const MutexLock lock(mutex);
  const size_t chunk = chunk_of(bytes);
  for (size_t at = 0; at < bytes; at += chunk) {
    const size_t n = std::min(chunk, bytes - at);
    Slot& slot = take();
    // Through the caches, where the copy engine reads the slot.
    copy_on_threads(slot.memory, static_cast<const char*>(src) + at, n, kPiece, &copy_piece);
    LOCUS_CUDA(copy_up(static_cast<char*>(dst) + at, slot.memory, n, s));
    LOCUS_CUDA(record(slot.free, s));
  }
}

void Ring::download(void* dst, const void* src, size_t bytes, cudaStream_t s) {
  const MutexLock lock(mutex);
  const size_t chunk = chunk_of(bytes), chunks = (bytes + chunk - 1) / chunk;
  const auto piece = bytes >= kBeyondCaches ? &stream_piece : &copy_piece;
  const auto size_at = [&](size_t i) { return std::min(chunk, bytes - i * chunk); };
  const auto issue = [&](size_t i, Slot& slot) {
    LOCUS_CUDA(copy_down(slot.memory, static_cast<const char*>(src) + i * chunk, size_at(i), s));
    LOCUS_CUDA(record(slot.free, s));
  };
  open();
  const size_t ahead = std::min<size_t>(kSlots, chunks);
  for (size_t i = 0; i < ahead; ++i) {
    LOCUS_CUDA(cudaEventSynchronize(slots_[i].free));
    issue(i, slots_[i]);
  }
  for (size_t i = 0; i < chunks; ++i) {
    Slot& slot = slots_[i % kSlots];
    LOCUS_CUDA(cudaEventSynchronize(slot.free));
    copy_on_threads(static_cast<char*>(dst) + i * chunk, slot.memory, size_at(i), kPiece, piece);
    if (i + ahead < chunks) issue(i + ahead, slot);
  }
}

SmallBuffers::Lease::Lease(SmallBuffers& from) : from_(from), memory_(from.free_.take()) {
  if (!memory_) memory_ = allocate_pinned(kBytes, "a buffer for small copies to pageable memory");
}

}  // namespace locus::cuda
