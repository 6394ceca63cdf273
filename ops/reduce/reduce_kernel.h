// The reductions, each written once for every device, and their lists.
#pragma once

#include <locus/ops/reduce/reduce_norm.h>

namespace locus::reduction {

struct Sum : Reduction<"sum", kAll> {
  bool divides = false;  // by n
  template <class T>
  using Out = Wide<T>;
  template <class V, class I>
  using Acc = Wide<V>;
  LOCUS_HD static auto combine(auto a, auto b) { return m::add(a, b); }
  template <class A>
  LOCUS_HD A result(A a, double n) const {
    return std::is_floating_point_v<A> && divides ? a / static_cast<A>(n) : a;
  }
  auto grad(auto&, auto&, auto& dy, auto&) const { return dy; }
};
struct Mean : Reduction<"mean", kFloats> {
  static void kernel(const auto& f) { f(Sum{{}, true}); }
  auto grad(auto&, auto&, auto& dy, auto& over) const { return over.share(dy); }
};

struct Prod : Reduction<"prod", kAll, kX> {
  template <class T>
  using Out = Wide<T>;
  template <class V, class I>
  using Acc = Wide<V>;
  LOCUS_HD static int init(auto) { return 1; }
  LOCUS_HD static auto combine(auto a, auto b) { return m::multiply(a, b); }
  // With exactly one 0 among the elements only that one has a gradient, with two none has. The
  // product of all may leave f64's range although that of the others does not: it is that of
  // mantissas, times a power of 2.
  auto grad(auto& x, auto&, auto& dy, auto& over) const {
    const auto is_zero = x == 0, zeros = over(Sum(), is_zero);
    const auto nonzero = where(is_zero, 1, x).astype(f64), e = exponents(nonzero.detach(), over),
               mantissa = ldexp(nonzero, -e), product = over(Prod(), mantissa),
               power = over(Sum(), e);
    const auto others = where(zeros == 0, ldexp(product / mantissa * dy, power - e), 0);
    return where(is_zero, where(zeros == 1, ldexp(product * dy, power), 0), others)
        .astype(dy.dtype());
  }

 private:
  // Whole numbers e for which x 2^-e is about 1, or 0 where so many mantissas may leave the range.
  static auto exponents(const auto& x, auto& over) {
    const auto size = log2(abs(x)), e = rint(size);
    return where(over(Sum(), abs(size - e)) < 1000, e, 0);
  }
};

template <Name Of, bool kMax>
struct Extreme : Reduction<Of, kAll, kX | kOut> {
  static constexpr bool kInRange = true;
  static constexpr bool needs_elements() { return true; }
  LOCUS_HD static auto init(auto a) { return kMax ? lowest(a) : highest(a); }
  LOCUS_HD static auto combine(auto a, auto b) {  // NaN wins
    return kMax ? m::max(b, a) : m::min(b, a);
  }
  template <class A>
  LOCUS_HD static A result(A a, double n) {
    return n > 0 ? a : A(!kMax);  // any and all of nothing
  }
  auto grad(auto& x, auto& y, auto& dy, auto&) const { return (x == y).astype(dy.dtype()) * dy; }
};
template <Name Of, class R>
struct Logical : Reduction<Of, kBool> {
  static constexpr const char* kNoGradient = "booleans have none";
  static void kernel(const auto& f) { f(R()); }
};
// Structs, not names for others: nvcc cannot spell a kernel's type that has a Name in it.
struct Max : Extreme<"max", true> {};
struct Min : Extreme<"min", false> {};
struct Any : Logical<"any", Max> {};
struct All : Logical<"all", Min> {};

// The first of the largest or smallest; NaN is larger and smaller than all. Without elements it is
// at 0 with the worst value there is: right as soon as there is an element.
template <Name Of, bool kMax>
struct Arg : Reduction<Of, kAll> {
  static constexpr const char* kNoGradient = "a position has none";
  static constexpr bool kOrdered = true;
  static constexpr bool needs_elements() { return true; }
  template <class T>
  using Out = int64_t;
  template <class V, class I>
  struct Acc {
    V value;
    I index;
  };
  LOCUS_HD static auto init(auto a) {
    return decltype(a){kMax ? lowest(a.value) : highest(a.value), 0};
  }
  // Bit operations: one comparison after another would be branches.
  LOCUS_HD static bool better(auto b, auto a) {
    if constexpr (std::is_integral_v<decltype(a)>) return kMax ? b > a : b < a;
    return (a == a) & !(kMax ? b <= a : b >= a);
  }
  LOCUS_HD static auto add(auto a, auto x, const auto& at) {
    const bool take = better(x, a.value);
    return decltype(a){take ? x : a.value, take ? at.index : a.index};
  }
  LOCUS_HD static auto combine(auto a, auto b) {
    const bool equal = (a.value == b.value) | ((a.value != a.value) & (b.value != b.value));
    const bool take = equal ? b.index < a.index : better(b.value, a.value);
    return decltype(a){take ? b.value : a.value, take ? b.index : a.index};
  }
  LOCUS_HD static auto moved(auto a, int64_t k) {
    return Acc<decltype(a.value), int64_t>{a.value, a.index + k};
  }
  LOCUS_HD static int64_t result(auto a, double) { return a.index; }
};
struct ArgMax : Arg<"argmax", true> {};
struct ArgMin : Arg<"argmin", false> {};

// Chan, Golub and LeVeque, "Algorithms for computing the sample variance" (1983), of the distances
// from element 0: their mean, and the sum of their squared distances from that.
template <class V>
struct Spread {
  V count, mean, squares;

  template <class W>
  LOCUS_HD operator Spread<W>() const {
    return {static_cast<W>(count), static_cast<W>(mean), static_cast<W>(squares)};
  }
  // Whether no square overflowed in f32, and those that vanished are too small to count.
  LOCUS_HD bool kept() const {
    // Bit operations: loops over columns become vector code.
    return ((squares > static_cast<V>(0x1p-100)) & (squares < m::infinity(squares))) |
           ((count <= 1) & (squares == 0));
  }
};

struct SpreadSum : Reduction<"var", kFloats, kX> {
  static constexpr bool kCentered = true;
  template <class V, class I>
  using Acc = Spread<V>;
  template <class V>
  LOCUS_HD static Spread<V> add(Spread<V> a, auto x, const auto& at) {
    const V n = static_cast<V>(at.count), y = static_cast<V>(x) - static_cast<V>(at.first),
            d = y - a.mean, mean = a.mean + d * (1 / n);
    return {n, mean, a.squares + d * (y - mean)};
  }
  template <class V>
  LOCUS_HD static Spread<V> combine(Spread<V> a, Spread<V> b) {
    const V n = a.count + b.count, d = b.mean - a.mean, part = n > 0 ? d * (b.count / n) : n;
    return {n, a.mean + part, a.squares + b.squares + d * (part * a.count)};
  }
  template <class V>
  LOCUS_HD static bool kept(const Spread<V>& a) {
    return a.kept();
  }
  LOCUS_HD static auto result(auto a, double) { return a.squares; }
};
struct Var : SpreadSum {
  double ddof = 0;
  bool root = false;

  // f32 holds the squares of most data, and f64 those of all f32.
  template <class V, class I>
  using Acc = Spread<double>;
  LOCUS_HD static SpreadSum simple() { return {}; }
  LOCUS_HD static auto from(auto sum, auto a) { return static_cast<decltype(a)>(sum); }
  LOCUS_HD auto result(auto a, double n) const {
    a.squares /= n > ddof ? n - ddof : 0;
    return root ? m::sqrt(a.squares) : a.squares;
  }
  auto grad(auto& x, auto&, auto& dy, auto& over) const {
    return over.centered(x) * over.share(dy, ddof) * 2;
  }
  void check(auto expect) const { expect(ddof == ddof, "ddof", ddof, "a number"); }
};
struct Std : Reduction<"std", kFloats, kX | kOut> {
  double ddof = 0;

  void kernel(const auto& f) const { f(Var{{}, ddof, true}); }
  auto grad(auto& x, auto& y, auto& dy, auto& over) const {
    return over.centered(x) / divisor(y) * over.share(dy * (y != 0), ddof);
  }
  void check(auto expect) const { expect(ddof == ddof, "ddof", ddof, "a number"); }
};

// top + log(sum): the sum is that of exp(x - top).
struct LogSumExp : Reduction<"logsumexp", kFloats, kX | kOut> {
  static constexpr bool kHeavy = true;
  template <class V, class I>
  struct Acc {
    V top, sum;
  };
  LOCUS_HD static auto init(auto a) { return decltype(a){lowest(a.top), 0}; }
  LOCUS_HD static auto add(auto a, auto x, const auto&) { return combine(a, decltype(a){x, 1}); }
  LOCUS_HD static auto combine(auto a, auto b) {  // b.top may be NaN, and sum is then
    const bool up = b.top > a.top;
    auto e = m::exp(-m::abs(b.top - a.top));
    e = b.top == a.top ? static_cast<decltype(e)>(1) : e;  // infinite ones too
    return decltype(a){up ? b.top : a.top, up ? a.sum * e + b.sum : a.sum + b.sum * e};
  }
  LOCUS_HD static auto result(auto a, double) { return a.top + m::log(a.sum); }
  // softmax: the sum takes out what y was rounded by. Infinity less itself is 0 here; of -inf alone
  // nothing is at the top.
  auto grad(auto& x, auto& y, auto& dy, auto& over) const {
    const auto top = where(y == -m::infinity(1.0), 0, y);
    const auto e = exp(where(x == top, 0, x - top));
    return e * (dy / divisor(over(Sum(), e)));
  }
};

// A list is compiled as one CUDA file: a new reduction goes where its kin is, unless that file
// takes long.
using Sums = List<Sum, Mean, Prod>;                // accumulators of one number
using Extremes = List<Max, Min, Any, All>;         // the same, of one element
using Positions = List<ArgMax, ArgMin>;            // integers
using Compound = List<Var, Std, LogSumExp, Norm>;  // structs, or attributes of their own

// Takes element x in.
template <class R, class A, class V, class I>
LOCUS_HD A added(const R& r, A acc, V x, const Position<V, I>& at) {
  if constexpr (requires { r.add(acc, x, at); })
    return r.add(acc, x, at);
  else
    return r.combine(acc, static_cast<A>(r.map(static_cast<A>(x))));
}

// Whether r.simple() is tried first: where it has accumulators of its own.
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

}  // namespace locus::reduction

namespace locus {

template <class Engine>
constexpr KernelList sum_to_kernels() {
  KernelList list;
  list.add_each("sum_to", DTypes<f32, f64, f16, bf16, i64>{},
                [](auto d) { return &Engine::template sum_to<d>; });
  return list;
}

}  // namespace locus
