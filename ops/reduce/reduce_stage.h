// For the CPU kernels of the reductions, included once per instruction set: elements of any dtype
// and strides brought into a row of the type they are computed in.
#pragma once

#ifdef __F16C__
#include <immintrin.h>
#endif

#include <locus/devices/cpu.h>
#include <locus/ops/reduce/reduce_kernel.h>

namespace locus::LOCUS_ISA {
namespace {

using namespace reduction;

constexpr int64_t kBlock = 4096;            // elements that meet in the accumulator's own type
constexpr int64_t kMaxParts = 4096;         // partial results of blocks held at once
constexpr int64_t kParallelWork = 1 << 15;  // elements worth a thread

template <class T, class A>
inline void widen(const T* x, int64_t n, A* out) {
  int64_t i = 0;
#ifdef __F16C__
  if constexpr (std::is_same_v<T, Half> && std::is_same_v<A, float>)
    for (; i + 8 <= n; i += 8)
      _mm256_storeu_ps(out + i,
                       _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(x + i))));
#endif
  for (; i < n; ++i) out[i] = convert<A>(x[i]);
}

template <class A, class T>
inline void narrow(const A* x, int64_t n, T* out) {
  int64_t i = 0;
#ifdef __F16C__
  if constexpr (std::is_same_v<T, Half> && std::is_same_v<A, float>)
    for (; i + 8 <= n; i += 8)
      _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i),
                       _mm256_cvtps_ph(_mm256_loadu_ps(x + i), _MM_FROUND_TO_NEAREST_INT));
#endif
  for (; i < n; ++i) out[i] = convert<T>(x[i]);
}

// Where output o begins: in the input, and in the result.
struct Offsets {
  int64_t in = 0, out = 0;
};
LOCUS_HD Offsets output_offsets(const ReducePlan& p, int64_t o, int first_axis = 0) {
  Offsets at;
  for (int a = first_axis; a < p.n_keep; ++a) {
    int64_t i = o;
    if (a + 1 < p.n_keep) {
      o = i / p.keep[a].size;
      i -= o * p.keep[a].size;
    }
    at.in += i * p.keep[a].in;
    at.out += i * p.keep[a].out;
  }
  return at;
}
LOCUS_HD int64_t element_offset(const ReducePlan& p, int64_t k) {
  int64_t at = 0;
  for (int a = 0; a + 1 < p.n_reduce; ++a) {
    const int64_t i = k;
    k = i / p.reduce[a].size;
    at += (i - k * p.reduce[a].size) * p.reduce[a].in;
  }
  return at + k * p.reduce[p.n_reduce - 1].in;
}

// Elements k .. k + n of the output that begins at `base`: in place when they lie side by side in
// the right type already, else in `buffer`.
template <class T, class A>
inline const A* stage(const T* base, const ReducePlan& p, int64_t k, int64_t n, A* buffer) {
  const int64_t length = p.reduce[0].size, stride = p.reduce[0].in;
  for (int64_t done = 0; done < n;) {
    const int64_t rest = p.n_reduce == 1 ? n : length - k % length;
    const int64_t run = rest < n - done ? rest : n - done;
    const T* x = base + element_offset(p, k);
    if (stride == 1) {
      if constexpr (std::is_same_v<T, A>)
        if (run == n) return x;
      widen(x, run, buffer + done);
    } else {
      for (int64_t i = 0; i < run; ++i) buffer[done + i] = convert<A>(x[i * stride]);
    }
    done += run;
    k += run;
  }
  return buffer;
}

// The order of additions depends on n alone: kLanes side by side, then a tree.
template <int kLanes, class R, class A>
inline A reduce_lanes(const A* __restrict x, int64_t n) {
  A lane[kLanes];
  for (int i = 0; i < kLanes; ++i) lane[i] = R::map(x[i]);
  int64_t b = kLanes;
  for (; b + kLanes <= n; b += kLanes)
    for (int i = 0; i < kLanes; ++i) lane[i] = R::combine(lane[i], R::map(x[b + i]));
  for (int i = 0; b + i < n; ++i) lane[i] = R::combine(lane[i], R::map(x[b + i]));
  for (int w = kLanes / 2; w > 0; w /= 2)
    for (int i = 0; i < w; ++i) lane[i] = R::combine(lane[i], lane[i + w]);
  return lane[0];
}

template <class R, class A>
[[maybe_unused]] __attribute__((noinline)) A reduce_block(const A* x, int64_t n) {
  if (n >= 128) return reduce_lanes<64, R>(x, n);
  if (n >= 16) return reduce_lanes<8, R>(x, n);
  A a = R::template identity<A>();
  for (int64_t i = 0; i < n; ++i) a = R::combine(a, R::map(x[i]));
  return a;
}

// Whether to go down the columns: neighbouring outputs then lie side by side in memory.
LOCUS_HD bool by_columns(const ReducePlan& p) {
  return p.keep[0].in == 1 && p.keep[0].size >= 8 && p.reduce[0].in != 1;
}

// Whether one output is work for all threads: the outputs alone would leave some idle.
LOCUS_HD bool splits_outputs(int64_t outputs, int64_t count) {
  return outputs < 2 * num_threads() && count > 4 * kBlock;
}

LOCUS_HD int64_t grain(int64_t work_each) {
  return work_each >= kParallelWork ? 1 : kParallelWork / (work_each > 0 ? work_each : 1);
}

}  // namespace
}  // namespace locus::LOCUS_ISA
