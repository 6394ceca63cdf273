// What every reduction defines. A reduction is a struct whose members are the op's attributes. Its
// base has the op's name, the dtypes it has kernels for (others become f64, or bool) and what its
// gradient reads.
//
// Elements reach an accumulator in rising order. On the CPU, blocks of at most 4096 elements (down
// columns: 256) are accumulated in Acc<V>, and the blocks' results in Acc<Widest<V>, int64_t>: f64
// for f32.
#pragma once

#include <locus/ops/elementwise/form.h>

namespace locus::reduction {

using formula::kAll, formula::kBool, formula::kFloats, formula::kNothing, formula::kOut,
    formula::kX, formula::List, formula::Name;

template <class V, class I>
struct Position {
  I index;  // among the elements of the result; on the CPU, of the block
  I count;  // elements in the accumulator, this one counted
  V first;  // element 0 of the result, if the reduction is kCentered
};

// Sums and products of integers are i64, as in NumPy on 64-bit systems.
template <class T>
using Wide = If<kInteger<T> || kSame<T, bool>, int64_t, T>;
template <class V>
using Widest = If<kFloating<V>, double, int64_t>;

template <class A>
LOCUS_HD A highest(A a) {  // infinity, or the largest integer
  if constexpr (kFloating<A>)
    return m::infinity(a);
  else
    return static_cast<A>(~uint64_t{0} >> (sizeof(A) == 8 ? 1 : 33));
}
template <class A>
LOCUS_HD A lowest(A a) {
  return -highest(a) - A(1);
}

// What the registry and the gradients read. Kernels that NVRTC compiles need none of it (form.h).
#ifdef __CUDACC_RTC__
template <Name, unsigned, unsigned>
struct Constants {};
#else
template <Name Of, unsigned Kinds, unsigned Reads>
struct Constants {
  static constexpr const char* name = Of.text;
  static constexpr unsigned kKinds = Kinds, kReads = Reads;
  static constexpr const char* kNoGradient = nullptr;  // why there is none
  static constexpr bool kOrdered = false;              // positions are row-major; one axis, or all
  static constexpr bool kCentered = false;             // uses Position::first
  static constexpr bool kHeavy = false;                // large code, unrolled less
  static constexpr bool kInRange = Reads == kNothing;
};
#endif

// The base. A reduction defines combine() and replaces what does not fit. V: the type that elements
// are computed in.
//   combine(a, b)      joins the accumulators of two sets of elements; associative up to rounding.
//                      The members of b may be narrower than those of a
//   Out<T>             the type of the result; T: the stored type
//   Acc<V, I>          the accumulator, trivially copyable; I: an integer for counts. Its
//                      members are as wide as V on the CPU, so that loops vectorize
//   init(zeros)        the accumulator of no elements
//   add(acc, x, at)    adds an element at a Position; default: combine(acc, map(x))
//   result(acc, n)     the result of n elements
//   grad(x, y, dy, over)  the gradient, of ops on Tensors; y and dy have the reduced axes, with
//                      length 1. over(R(), x) is another reduction over the same elements
// Further members are under Details.
template <Name Of, unsigned Kinds, unsigned Reads = kNothing>
struct Reduction : Constants<Of, Kinds, Reads> {
  static constexpr bool needs_elements() { return false; }
  static void check(auto) {}

  template <class T>
  using Element = Promoted<T>;
  template <class T>
  using Out = T;
  template <class V, class I>
  using Acc = V;
  LOCUS_HD static auto init(auto zeros) { return zeros; }
  LOCUS_HD static auto map(auto x) { return x; }
  LOCUS_HD static auto result(auto acc, double) { return acc; }
  LOCUS_HD static auto moved(auto acc, int64_t) { return acc; }
};

// Adds element x.
template <class R, class A, class V, class I>
LOCUS_HD A added(const R& r, A acc, V x, const Position<V, I>& at) {
  if constexpr (requires { r.add(acc, x, at); })
    return r.add(acc, x, at);
  else
    return r.combine(acc, static_cast<A>(r.map(static_cast<A>(x))));
}

// Whether r.simple() is tried first: if its accumulators have another type.
template <class R, class V, class I>
constexpr bool tries_simple() {
  if constexpr (requires(R r) { r.simple(); }) {
    using Simple = decltype(R().simple());
    return !kSame<typename Simple::template Acc<V, I>, typename R::template Acc<V, I>>;
  }
  return false;
}

// Calls f with the reduction whose kernel computes r.
template <class R, class F>
void for_kernel(const R& r, const F& f) {
  if constexpr (requires { r.kernel(f); })
    r.kernel(f);
  else
    f(r);
}

// y, or 1 where y is 0.
auto divisor(const auto& y) { return where(y == 0, 1, y); }

// --- Details ---
//
//   Element<T>         V on the CPU, for the stored type T
//   moved(acc, k)      acc with k added to the positions in it
//   kernel(f)          calls f with the reduction that computes this one
//   kInRange           every step of the gradient is exact or of the size of the gradient. Other
//                      gradients are computed in f32 for f16 and bf16
//   simple()           a faster reduction, tried first if its accumulators have another type. If
//                      its kept(acc) is true, from(acc, zeros) is the accumulator; else the
//                      elements are added again
//   check(expect)      checks the attributes, as in formulas

}  // namespace locus::reduction
