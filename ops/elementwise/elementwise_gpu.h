// The CUDA engine of the elementwise families: kernels per formula and compute type.
//
// `flat` moves 16 bytes of the compute type per thread; `strided` walks any layout with the fewest
// axes, and rows of several operands by 16 bytes where alignment permits, also if they broadcast. A
// uniform branch selects the storage dtype, so f16 and bf16 share the kernels of f32, and u8, i8
// and bool_ those of i32. Numbers are kernel parameters, so an op is one launch. Included by
// *.cu only.
#pragma once

#include <locus/core/dtype.h>
#include <locus/devices/cuda.h>
#include <locus/ops/elementwise/kernels.h>
#include <locus/ops/kernel/divisor.h>
#include <locus/ops/kernel/launch.h>

namespace locus::cuda {
namespace elementwise_engine {

// Calls f with a null pointer to d's storage type: a type that computes in C, or bool_ (the mask of
// where, the result of comparisons).
template <class C, class F>
__device__ __forceinline__ void dispatch(DType d, const F& f) {
  if constexpr (std::is_same_v<C, float>) {
    if (d == f32) return f(static_cast<float*>(nullptr));
    if (d == f16) return f(static_cast<Half*>(nullptr));
    if (d == bf16) return f(static_cast<BFloat16*>(nullptr));
    return f(static_cast<bool*>(nullptr));
  } else if constexpr (std::is_same_v<C, int32_t>) {
    if (d == i32) return f(static_cast<int32_t*>(nullptr));
    if (d == u8) return f(static_cast<uint8_t*>(nullptr));
    if (d == i8) return f(static_cast<int8_t*>(nullptr));
    return f(static_cast<bool*>(nullptr));
  } else {
    if (d == bool_) return f(static_cast<bool*>(nullptr));
    return f(static_cast<C*>(nullptr));
  }
}

template <class C, int E>
__device__ __forceinline__ void load_pack(const void* p, DType d, int64_t pack, C* values) {
  dispatch<C>(d, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const Pack<T, E> x = static_cast<const Pack<T, E>*>(p)[pack];
#pragma unroll
    for (int i = 0; i < E; ++i) values[i] = convert<C>(x.v[i]);
  });
}
template <class C, int E>
__device__ __forceinline__ void store_pack(void* p, DType d, int64_t pack, const C* values) {
  dispatch<C>(d, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    Pack<T, E> x;
#pragma unroll
    for (int i = 0; i < E; ++i) x.v[i] = convert<T>(values[i]);
    static_cast<Pack<T, E>*>(p)[pack] = x;
  });
}

template <class F, class C>
__device__ __forceinline__ C apply(const F& f, const C* x) {
  if constexpr (F::kArity == 1)
    return static_cast<C>(f.apply(x[0]));
  else if constexpr (F::kArity == 2)
    return static_cast<C>(f.apply(x[0], x[1]));
  else
    return static_cast<C>(f.apply(x[0], x[1], x[2]));
}

template <class C, int N>
struct Operands {
  const void* in[N];  // null: number[k]
  void* out;
  C number[N];
  DType in_dtype[N], out_dtype;
};

// Computes E elements, of which an input has a pack, or one if its bit of `single` is set.
// `offset`: one per operand, the output's last, in elements.
template <class F, class C, int N, int E>
__device__ __forceinline__ void compute(const Operands<C, N>& o, const F& f, const int64_t* offset,
                                        unsigned single) {
  C x[N][E], y[E];
#pragma unroll
  for (int k = 0; k < N; ++k) {
    if (o.in[k] != nullptr && !(single >> k & 1)) {
      load_pack<C, E>(o.in[k], o.in_dtype[k], offset[k] / E, x[k]);
      continue;
    }
    C one = o.number[k];
    if (o.in[k] != nullptr) load_pack<C, 1>(o.in[k], o.in_dtype[k], offset[k], &one);
#pragma unroll
    for (int i = 0; i < E; ++i) x[k][i] = one;
  }
#pragma unroll
  for (int i = 0; i < E; ++i) {
    C one[N];
#pragma unroll
    for (int k = 0; k < N; ++k) one[k] = x[k][i];
    y[i] = apply(f, one);
  }
  store_pack<C, E>(o.out, o.out_dtype, offset[N] / E, y);
}

template <class F, class C>
__global__ void __launch_bounds__(kBlock)
    flat(const Operands<C, F::kArity> o, const F f, const int64_t packs, const int64_t n) {
  constexpr int N = F::kArity, E = 16 / static_cast<int>(sizeof(C));
  const int64_t first = first_thread(), step = all_threads();
  const auto at = [&](int64_t i, auto elements) {
    int64_t offset[N + 1];
#pragma unroll
    for (int k = 0; k <= N; ++k) offset[k] = i;
    compute<F, C, N, decltype(elements)::value>(o, f, offset, 0);
  };
  for (int64_t pack = first; pack < packs; pack += step)
    at(pack * E, std::integral_constant<int, E>());
  const int64_t last = packs * E + first;  // the last n % E elements
  if (last < n) at(last, std::integral_constant<int, 1>());
}

template <int N>
struct Strides {
  int rank;
  bool wide;                 // more than 2^31 elements: 64-bit index arithmetic
  int64_t shape[kMaxRank];   // slowest axis first
  Divisor length[kMaxRank];  // shape, if not wide
  int64_t stride[N + 1][kMaxRank];
  unsigned single = 0;  // bit k: input k stays where it is along a pack
};

// Walks n packs of E elements along the last axis, whose length counts packs.
template <class F, class C, int E>
__global__ void __launch_bounds__(kBlock) strided(const Operands<C, F::kArity> o, const F f,
                                                  const Strides<F::kArity> w, const int64_t n) {
  constexpr int N = F::kArity;
  for (int64_t at = first_thread(); at < n; at += all_threads()) {
    int64_t offset[N + 1] = {}, rest = at;
    for (int a = w.rank - 1; a > 0; --a) {
      int64_t quotient;
      if (w.wide)
        quotient = rest / w.shape[a];
      else
        quotient = w.length[a].divide(static_cast<uint32_t>(rest));
      const int64_t index = rest - quotient * w.shape[a];
      rest = quotient;
#pragma unroll
      for (int k = 0; k <= N; ++k) offset[k] += index * w.stride[k][a];
    }
#pragma unroll
    for (int k = 0; k <= N; ++k) offset[k] += rest * w.stride[k][0];
    compute<F, C, N, E>(o, f, offset, w.single);
  }
}

// Whether packs of `elements` may be read or written at v.
inline bool aligned(const View& v, int elements) {
  return cuda::aligned(v.data, size_of(v.meta.dtype) * elements);
}

template <int N>
inline Strides<N> strides_of(const Walk<N + 1>& p, int64_t n) {
  Strides<N> w;
  w.rank = p.rank;
  w.wide = n >= (int64_t{1} << 31);
  for (int a = 0; a < p.rank; ++a) {
    w.shape[a] = p.shape[a];
    if (!w.wide) w.length[a] = Divisor(p.shape[a]);
    for (int k = 0; k <= N; ++k) w.stride[k][a] = p.stride[k][a];
  }
  return w;
}

// A number in dtype d.
template <class C>
C number(const Scalar& s, DType d) {
  if constexpr (kSame<C, float>) {
    if (d == f16) return convert<C>(formula::number<Half>(s));
    if (d == bf16) return convert<C>(formula::number<BFloat16>(s));
  }
  return formula::number<C>(s);
}

// Whether the last axis of a walk can be walked in packs of E: an input goes by 1 or stays.
template <int N>
bool takes_packs(const Walk<N + 1>& w, const View* const (&view)[N + 1], int E) {
  const int last = w.rank - 1;
  bool packs = w.shape[last] % E == 0 && w.stride[N][last] == 1;
  for (int k = 0; packs && k <= N; ++k) {
    const int64_t step = w.stride[k][last];
    packs = step == 0 || (step == 1 && aligned(*view[k], E));
    for (int a = 0; packs && step == 1 && a < last; ++a) packs = w.stride[k][a] % E == 0;
  }
  return packs;
}

enum class Way : uint8_t { flat, packs, elements };

// Fills in a call's operands and, unless they lie flat, strides.
template <class C, int N>
__attribute__((noinline)) Way arrange(const Call& call, bool predicate, Operands<C, N>& o,
                                      Strides<N>& strides) {
  constexpr int E = 16 / static_cast<int>(sizeof(C));
  const formula::Scalars numbers = formula::scalars<N>(call);
  const View& out = call.out[0];
  const View* view[N + 1];
  bool in_order = out.contiguous(), packs = aligned(out, E);
  for (int k = 0, next = 0; k < N; ++k) {
    if (numbers.scalar[k]) {
      const DType d = predicate ? call.in[0].meta.dtype : out.meta.dtype;
      view[k] = nullptr;
      o.in[k] = nullptr;
      o.number[k] = number<C>(*numbers.scalar[k], d);
      o.in_dtype[k] = d;
    } else {
      const View& v = call.in[next++];
      view[k] = &v;
      o.in[k] = v.data;
      o.number[k] = C(0);
      o.in_dtype[k] = v.meta.dtype;
      in_order = in_order && v.contiguous();
      packs = packs && aligned(v, E);
    }
  }
  view[N] = &out;
  o.out = out.data;
  o.out_dtype = out.meta.dtype;
  if (in_order && packs) return Way::flat;
  const int64_t n = out.meta.size();
  Walk<N + 1> walk;
  if (!in_order) {
    walk = walk_of<N + 1>(view);
    in_order = walk.rank == 1;
    for (int k = 0; in_order && k <= N; ++k)
      in_order = view[k] == nullptr || n == 1 || walk.stride[k][0] == 1;
    if (in_order && packs) return Way::flat;
  } else {
    walk.rank = 1;
    walk.shape[0] = n;
    for (int k = 0; k <= N; ++k) walk.stride[k][0] = 1;
  }
  if (N == 1 || walk.rank < 2 || !takes_packs<N>(walk, view, E)) {
    strides = strides_of<N>(walk, n);
    return Way::elements;
  }
  const int last = walk.rank - 1;
  unsigned single = 0;
  walk.shape[last] /= E;
  for (int k = 0; k <= N; ++k) {
    if (walk.stride[k][last] == 0) single |= 1u << k;
    walk.stride[k][last] *= E;
  }
  strides = strides_of<N>(walk, n);
  strides.single = single;
  return Way::packs;
}

template <class F, class C>
void launch(const Call& call) {
  constexpr int N = F::kArity, E = 16 / static_cast<int>(sizeof(C));
  const F f = formula::formula_of<F>(call.attributes<formula::AttrsOf<F>>());
  const int64_t n = call.out[0].meta.size();
  Operands<C, N> o;
  Strides<N> strides;
  const Way way = arrange(call, F::kPredicate, o, strides);
  if (way == Way::flat) return cuda::launch(call.stream, n / E, flat<F, C>, o, f, n / E, n);
  if constexpr (N > 1)
    if (way == Way::packs)
      return cuda::launch(call.stream, n / E, strided<F, C, E>, o, f, strides, n / E);
  cuda::launch(call.stream, n, strided<F, C, 1>, o, f, strides, n);
}

struct Engine {
  template <class F, DType D>
  static constexpr Kernel kernel() {
    if constexpr (D == f32 || D == f16 || D == bf16)
      return &launch<F, float>;
    else if constexpr (D == f64)
      return &launch<F, double>;
    else if constexpr (D == i64)
      return &launch<F, int64_t>;
    else
      return &launch<F, int32_t>;
  }
};

}  // namespace elementwise_engine

template <class L>
constexpr KernelList elementwise_kernels(L list) {
  return formula::kernels_of<elementwise_engine::Engine>(list);
}

}  // namespace locus::cuda
