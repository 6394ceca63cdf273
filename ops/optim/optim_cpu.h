// Shared by CPU kernels over many tensors: chunks of kChunk elements, the same for any number of
// threads. Included by *_cpu.cc only.
#pragma once

#include <locus/devices/cpu.h>
#include <locus/ops/kernel/cast.h>

namespace locus::LOCUS_ISA_NAMESPACE {
namespace {

constexpr int64_t kChunk = 4096, kLanes = 16, kPiece = 512;

LOCUS_HD int64_t chunks_of(int64_t size) { return (size + kChunk - 1) / kChunk; }

// Calls f(tensor, begin, end, chunk's number) for the chunks of n tensors of size(i) elements.
void each_chunk(int n, const auto& size, const auto& f) {
  int64_t total = 0;
  for (int i = 0; i < n; ++i) total += chunks_of(size(i));
  parallel_ranges(total, 4, [&](int64_t begin, int64_t end) {
    int64_t first = 0;
    for (int i = 0; i < n && first < end; ++i) {
      const int64_t count = size(i), chunks = chunks_of(count);
      for (int64_t c = begin > first ? begin - first : 0; c < chunks && first + c < end; ++c)
        f(i, c * kChunk, (c + 1) * kChunk < count ? (c + 1) * kChunk : count, first + c);
      first += chunks;
    }
  });
}

// R's result (multi_kernel.h) over v and n numbers, in vector code.
template <class R, class A>
double reduce_run(double v, const A* x, int64_t n) {
  alignas(64) double lanes[kLanes];
  for (double& lane : lanes) lane = R::kInit;
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (int64_t l = 0; l < kLanes; ++l) lanes[l] = R::combine(lanes[l], R::of(x[i + l]));
  for (int64_t l = 0; i < n; ++i, ++l) lanes[l] = R::combine(lanes[l], R::of(x[i]));
  for (const double lane : lanes) v = R::combine(v, lane);
  return v;
}

}  // namespace
}  // namespace locus::LOCUS_ISA_NAMESPACE
