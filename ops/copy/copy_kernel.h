// What kernels of several families share: element conversion, and strided copies reduced to as few
// axes as possible. Read by the CPU kernels of every instruction set and by nvcc.
#pragma once

#include <type_traits>

#include <locus/core/dtype.h>
#include <locus/core/kernel_list.h>

namespace locus {

namespace detail {

LOCUS_HD uint64_t double_bits(double v) {
#ifdef __CUDA_ARCH__
  return static_cast<uint64_t>(__double_as_longlong(v));
#else
  return std::bit_cast<uint64_t>(v);
#endif
}
LOCUS_HD double bits_double(uint64_t v) {
#ifdef __CUDA_ARCH__
  return __longlong_as_double(static_cast<long long>(v));
#else
  return std::bit_cast<double>(v);
#endif
}

// f64 to f32 rounding to odd, so that a second rounding to 16 bits is correct (Boldo and Melquiond,
// "Emulation of FMA and correctly rounded sums: proved algorithms using rounding to odd", 2008).
LOCUS_HD float to_odd(double v) {
  const float f = static_cast<float>(v);
  if (!(static_cast<double>(f) != v) || v != v) return f;
  uint32_t u = float_bits(f);
  const double a = v < 0 ? -v : v, b = f < 0 ? -static_cast<double>(f) : static_cast<double>(f);
  if (b > a) --u;
  return bits_float(u | 1u);
}

template <class To, class From>
LOCUS_HD To saturate(From v) {
  // 2^(bits - 1), or 2^bits for u8: exact in every floating type, one past the largest value.
  constexpr From kEnd = static_cast<From>(
      std::is_signed_v<To> ? 2.0 * static_cast<double>(int64_t{1} << (8 * sizeof(To) - 2)) : 256.0);
  constexpr From kBegin = std::is_signed_v<To> ? -kEnd : From(0);
  constexpr To kMax = static_cast<To>(
      std::is_signed_v<To> ? ~(uint64_t{1} << 63) >> (64 - 8 * sizeof(To)) : uint64_t{255});
  constexpr To kMin = static_cast<To>(std::is_signed_v<To> ? -static_cast<int64_t>(kMax) - 1 : 0);
  if (v != v) return To(0);
  if (v >= kEnd) return kMax;
  if (v <= kBegin) return kMin;
  return static_cast<To>(v);
}

template <class T>
inline constexpr bool kIs16 = std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;

}  // namespace detail

// The one definition of a cast.
template <class To, class From>
LOCUS_HD To convert(From v) {
  if constexpr (std::is_same_v<To, From>) {
    return v;
  } else if constexpr (detail::kIs16<From>) {
    return convert<To>(static_cast<float>(v));
  } else if constexpr (std::is_same_v<To, bool>) {
    return v != From(0);
  } else if constexpr (detail::kIs16<To>) {
    if constexpr (std::is_same_v<From, double> || sizeof(From) >= 8)
      return To(detail::to_odd(static_cast<double>(v)));
    else if constexpr (std::is_same_v<From, int32_t>)
      return To(detail::to_odd(static_cast<double>(v)));
    else
      return To(static_cast<float>(v));
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    return detail::saturate<To>(v);
  } else {
    return static_cast<To>(v);
  }
}

// Two views of one shape as axes both can walk: no axis of length 1, neighbours that lie in one
// piece in both merged, ordered by the output's strides, outermost first. `bytes` is the element
// size; widen() makes elements of up to 16 bytes out of runs.
struct Walk {
  int rank = 0;
  int64_t size = 1;
  int64_t shape[kMaxRank] = {};
  int64_t in_stride[kMaxRank] = {};
  int64_t out_stride[kMaxRank] = {};

  LOCUS_HD bool contiguous() const {
    return rank == 0 || (rank == 1 && in_stride[0] == 1 && out_stride[0] == 1);
  }
};

LOCUS_HD int64_t magnitude(int64_t v) { return v < 0 ? -v : v; }

LOCUS_HD Walk make_walk(const View& in, const View& out) {
  Walk w;
  w.size = out.meta.size();
  for (int i = 0; i < out.meta.rank; ++i) {
    if (out.meta.shape[i] == 1) continue;
    int at = w.rank++;
    for (; at > 0; --at) {  // insertion by the output's stride, then the input's; stable
      const int64_t a = magnitude(w.out_stride[at - 1]), b = magnitude(out.stride[i]);
      if (a > b || (a == b && magnitude(w.in_stride[at - 1]) >= magnitude(in.stride[i]))) break;
      w.shape[at] = w.shape[at - 1];
      w.in_stride[at] = w.in_stride[at - 1];
      w.out_stride[at] = w.out_stride[at - 1];
    }
    w.shape[at] = out.meta.shape[i];
    w.in_stride[at] = in.stride[i];
    w.out_stride[at] = out.stride[i];
  }
  int n = 0;
  for (int i = 0; i < w.rank; ++i) {
    if (n > 0 && w.in_stride[n - 1] == w.in_stride[i] * w.shape[i] &&
        w.out_stride[n - 1] == w.out_stride[i] * w.shape[i]) {
      w.shape[n - 1] *= w.shape[i];
      w.in_stride[n - 1] = w.in_stride[i];
      w.out_stride[n - 1] = w.out_stride[i];
    } else {
      w.shape[n] = w.shape[i];
      w.in_stride[n] = w.in_stride[i];
      w.out_stride[n] = w.out_stride[i];
      ++n;
    }
  }
  w.rank = n;
  return w;
}

// The element size, at most 16 bytes, in which a same-dtype walk can be done; rescales the walk.
LOCUS_HD int widen(Walk& w, int bytes, const void* in, const void* out) {
  if (w.rank == 0 || w.in_stride[w.rank - 1] != 1 || w.out_stride[w.rank - 1] != 1) return bytes;
  while (bytes < 16) {
    if ((reinterpret_cast<uintptr_t>(in) | reinterpret_cast<uintptr_t>(out)) &
        static_cast<uintptr_t>(2 * bytes - 1))
      return bytes;
    if (w.shape[w.rank - 1] % 2 != 0) return bytes;
    for (int i = 0; i + 1 < w.rank; ++i)
      if (w.in_stride[i] % 2 != 0 || w.out_stride[i] % 2 != 0) return bytes;
    w.shape[w.rank - 1] /= 2;
    w.size /= 2;
    for (int i = 0; i + 1 < w.rank; ++i) {
      w.in_stride[i] /= 2;
      w.out_stride[i] /= 2;
    }
    bytes *= 2;
  }
  return bytes;
}

// Copies `in` to `out`, views of one shape, casting where the dtypes differ; and sets every byte of
// `out` to zero. For the kernels of other families.
#ifdef LOCUS_ISA
namespace LOCUS_ISA {
void copy_view(const View& in, const View& out);
void zero_view(const View& out);
}  // namespace LOCUS_ISA
#endif
namespace cuda {
void copy_view(const View& in, const View& out, StreamView stream);
void zero_view(const View& out, StreamView stream);
}  // namespace cuda

template <class Backend>
constexpr KernelList copy_kernels() {
  KernelList list;
  list.add("copy", kAllDTypes, Backend::copy);
  list.add("contiguous", kAllDTypes, Backend::copy);
  return list;
}

}  // namespace locus
