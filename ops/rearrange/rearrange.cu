#include <cuda_runtime.h>

#include <locus/ops/kernel/divisor.h>
#include <locus/ops/kernel/launch.h>
#include <locus/ops/rearrange/rearrange_kernel.h>

namespace locus::cuda {
namespace {

template <class I>
struct Divisors {
  DivisorOf<I> out[kMaxRank], inner;

  Divisors(const RearrangeWalk& w) : inner(static_cast<DivisorOf<I>>(w.inner)) {
    for (int a = 0; a < kMaxRank; ++a)
      out[a] = static_cast<DivisorOf<I>>(a < w.rank ? w.out[a] : 1);
  }
};

// Each thread writes E adjacent elements at once. `whole`: out is aligned to E elements.
template <class T, class I, int E, class R>
__global__ void __launch_bounds__(kBlock)
    rearrange_packs(const __grid_constant__ R r, const __grid_constant__ RearrangeWalk w,
                    const __grid_constant__ Divisors<I> divisors, const T* __restrict__ in,
                    T* __restrict__ out, T constant, bool whole) {
  const int64_t size = w.places * w.inner, packs = (size + E - 1) / E;
  const I inner = static_cast<I>(w.inner);
  for (int64_t pack = first_thread(); pack < packs; pack += all_threads()) {
    Place<I> p = w.first<I>();
    I place = static_cast<I>(pack * E) / divisors.inner;
    I within = static_cast<I>(pack * E) - place * inner;
#pragma unroll
    for (int a = kMaxRank - 1; a >= 0; --a)
      if (a < w.rank) {
        const I rest = a > 0 ? place / divisors.out[a] : 0;
        p.index[a] = place - rest * p.out[a];
        place = rest;
      }
    Pack<T, E> values;
    int64_t at = 0;
    bool is_constant = false, moved = true;
#pragma unroll
    for (int e = 0; e < E; ++e) {
      if (moved) {  // the first element, or another place
        at = 0;
        is_constant = false;
#pragma unroll
        for (int a = 0; a < kMaxRank; ++a)
          if (a < w.in_rank) {
            const I from = r.source(a, p).at;
            is_constant |= from < 0;
            at += static_cast<int64_t>(from) * w.stride[a];
          }
      }
      const bool inside = pack * E + e < size;
      values.v[e] = is_constant || !inside ? constant : in[at + within];
      moved = ++within == inner;
      if (moved) {
        within = 0;
        bool carry = true;
#pragma unroll
        for (int a = kMaxRank - 1; a >= 0; --a)
          if (carry && a < w.rank) {
            carry = ++p.index[a] == p.out[a];
            if (carry) p.index[a] = 0;
          }
      }
    }
    if (whole && pack * E + E <= size) {
      reinterpret_cast<Pack<T, E>*>(out)[pack] = values;
    } else {
#pragma unroll
      for (int e = 0; e < E; ++e)
        if (pack * E + e < size) out[pack * E + e] = values.v[e];
    }
  }
}

struct Backend {
  template <class R>
  static void rearrange(const Call& call) {
    const R& r = call.attributes<R>();
    const View &in = call.in[0], &out = call.out[0];
    RearrangeWalk w = walk_of(r, in, out);
    const int64_t elements = w.places * w.inner;
    if (elements == 0) return;
    const uint64_t bits = element_bits(out.meta.dtype, r.constant());
    // A constant of another word than zeros needs elements as words.
    int bytes = size_of(out.meta.dtype);
    for (; bytes < 8 && bits == 0 && w.inner % 2 == 0; bytes *= 2) {
      bool even = aligned(in.data, 2 * bytes) && aligned(out.data, 2 * bytes);
      for (int a = 0; a < w.in_rank; ++a) even = even && w.stride[a] % 2 == 0;
      if (!even) break;
      for (int a = 0; a < w.in_rank; ++a) w.stride[a] /= 2;
      w.inner /= 2;
    }
    by_size(bytes, [&](auto word) {
      using T = decltype(word);
      const int64_t size = w.places * w.inner;
      const auto go = [&](auto index) {
        using I = decltype(index);
        // Wide indices are rare: fewer elements of a thread are less code.
        constexpr int kEach = (sizeof(T) == 8 ? 2 : 4) / (sizeof(I) == 8 ? 2 : 1);
        const bool whole = aligned(out.data, sizeof(T) * kEach);
        launch(call.stream, (size + kEach - 1) / kEach, rearrange_packs<T, I, kEach, R>, r, w,
               Divisors<I>(w), in.as<T>(), out.as<T>(), static_cast<T>(bits), whole);
      };
      constexpr int64_t kMost = int64_t{1} << 30;  // twice a length is an index, too
      if (elements < kMost && in.meta.size() < kMost)
        go(int32_t{});
      else
        go(int64_t{});
    });
  }
};

}  // namespace

extern constinit const KernelList rearrange = rearrange_kernels<Backend, Views>();

}  // namespace locus::cuda
