// The reductions, each written once for every device, and their lists.
//
// A reduction is a struct whose members are the op's attributes. Beside its base, which has the
// op's name, the dtypes it has kernels for (others become f64, or bool) and what its gradient
// reads, it says, for V, the type that elements are computed in:
//   combine(a, b)      the accumulators of two sets of elements as one; associative up to rounding.
//                      The members of b may be narrower than those of a, if they have any
// and where the base's answer is not the right one
//   Out<T>             the type of the result, T: what is stored
//   Acc<V, I>          the accumulator, any trivially copyable type; I: an integer for counts. On
//                      the CPU its members are as wide as V, and loops over them vector code
//   init(zeros)        the accumulator of no elements
//   add(acc, x, at)    takes one element in, at a Position; where it is missing,
//                      combine(acc, map(x)) does it
//   result(acc, n)     of n elements
//   moved(acc, k)      acc with k added to the positions in it
//   kernel(f)          calls f with the reduction that computes this one
//   kInRange           every step of the gradient is exact or of the size of the gradient. The
//   others
//                      are computed in f32 for f16 and bf16
//   Simple, kept(acc)  a faster reduction for blocks on the CPU whose f64 accumulators convert to
//                      those of this one; whether it lost nothing
//   grad(x, y, dy, over)  its gradient, of ops on Tensors; y and dy have the reduced axes, with
//                      length 1. over(R(), x) is another reduction over the same elements
//   check(expect)      what the attributes must satisfy, as in formulas
// Elements reach an accumulator in rising order. On the CPU blocks of at most 4096 (down columns:
// 256) meet in Acc<V>, and the blocks' results in Acc<Widest<V>, int64_t>, in f64 for f32.
#pragma once

#include <type_traits>

#include <locus/core/dtype.h>
#include <locus/ops/elementwise/kernels.h>
#include <locus/ops/reduce/reduce_plan.h>

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
using Wide = std::conditional_t<std::is_integral_v<T>, int64_t, T>;
template <class V>
using Widest = std::conditional_t<std::is_integral_v<V>, int64_t, double>;

template <class A>
LOCUS_HD A highest(A a) {  // infinity, or the largest integer
  if constexpr (std::is_floating_point_v<A>)
    return m::infinity(a);
  else
    return sizeof(A) == 8 ? static_cast<A>(INT64_MAX) : static_cast<A>(INT32_MAX);
}
template <class A>
LOCUS_HD A lowest(A a) {
  return -highest(a) - A(1);
}

template <Name Of, unsigned Kinds, unsigned Reads = kNothing>
struct Reduction {
  static constexpr const char* name = Of.text;
  static constexpr unsigned kKinds = Kinds, kReads = Reads;
  static constexpr const char* kNoGradient = nullptr;  // why there is none
  static constexpr bool kOrdered = false;              // positions are row-major; one axis, or all
  static constexpr bool kCentered = false;             // uses Position::first
  static constexpr bool kHeavy = false;                // costs more code than is worth repeating
  static constexpr bool kInRange = Reads == kNothing;
  static constexpr bool needs_elements() { return false; }
  static void check(auto) {}

  template <class T>
  using Out = T;
  template <class V, class I>
  using Acc = V;
  LOCUS_HD static auto init(auto zeros) { return zeros; }
  LOCUS_HD static auto map(auto x) { return x; }
  LOCUS_HD static auto result(auto acc, double) { return acc; }
  LOCUS_HD static auto moved(auto acc, int64_t) { return acc; }
};

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
  // With exactly one 0 among the elements only that one has a gradient, with two none has.
  auto grad(auto& x, auto&, auto& dy, auto& over) const {
    const auto is_zero = x == 0, nonzero = where(is_zero, 1, x), zeros = over(Sum(), is_zero);
    const auto product = over(Prod(), nonzero);
    const auto others = where(zeros == 0, product / nonzero * dy, 0);
    return where(is_zero, where(zeros == 1, product * dy, 0), others);
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

// y, and 1 where that is 0.
auto divisor(const auto& y) { return where(y == 0, 1, y); }

// Chan, Golub and LeVeque, "Algorithms for computing the sample variance" (1983), of the distances
// from element 0: their mean, and the sum of their squared distances from that.
struct Var : Reduction<"var", kFloats, kX> {
  static constexpr bool kCentered = true;
  double ddof = 0;
  bool root = false;

  template <class V, class I>
  struct Acc {
    V count, mean, squares;
  };
  LOCUS_HD static auto add(auto a, auto x, const auto& at) {
    const auto n = static_cast<decltype(x)>(at.count), y = x - at.first, d = y - a.mean;
    const auto mean = a.mean + d * (1 / n);
    return decltype(a){n, mean, a.squares + d * (y - mean)};
  }
  LOCUS_HD static auto combine(auto a, auto b) {
    const auto n = a.count + b.count, d = b.mean - a.mean, part = n > 0 ? d * (b.count / n) : n;
    return decltype(a){n, a.mean + part, a.squares + b.squares + d * (part * a.count)};
  }
  LOCUS_HD auto result(auto a, double n) const {
    a.squares /= static_cast<decltype(a.mean)>(n > ddof ? n - ddof : 0);
    return root ? m::sqrt(a.squares) : a.squares;
  }
  auto grad(auto& x, auto&, auto& dy, auto& over) const {
    return (x - over(Mean(), x)) * over.share(dy, ddof) * 2;
  }
  void check(auto expect) const { expect(ddof == ddof, "ddof", ddof, "a number"); }
};
struct Std : Reduction<"std", kFloats, kX | kOut> {
  double ddof = 0;

  void kernel(const auto& f) const { f(Var{{}, ddof, true}); }
  auto grad(auto& x, auto& y, auto& dy, auto& over) const {
    return (x - over(Mean(), x)) / divisor(y) * over.share(dy * (y != 0), ddof);
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
  // Infinity less itself is 0 here; of -inf alone nothing is at the top.
  auto grad(auto& x, auto& y, auto& dy, auto&) const {
    const auto top = where(y == -m::infinity(1.0), 0, y);
    return exp(where(x == top, 0, x - top)) * dy;
  }
};

// Powers would overflow and vanish where the norm does not: they are those of x / top, for the x
// whose power is greatest.
struct Norm : Reduction<"norm", kFloats, kX | kOut> {
  static constexpr bool kHeavy = true;
  double ord = 2;

  bool needs_elements() const { return greatest() || least(); }
  LOCUS_HD bool greatest() const { return ord == m::infinity(ord); }
  LOCUS_HD bool least() const { return ord == -m::infinity(ord); }
  LOCUS_HD bool powers() const { return !(ord == 0 || ord == 1 || greatest() || least()); }
  template <class V, class I>
  struct Acc {
    double top, sum;
  };
  LOCUS_HD auto init(auto a) const {
    const double infinite = m::infinity(ord);
    return decltype(a){powers() && ord < 0 ? infinite : 0., least() ? infinite : 0.};
  }
  template <class A>
  LOCUS_HD A add(A a, auto x, const auto&) const {
    const double v = m::abs(static_cast<double>(x));
    if (powers()) {
      if (ord > 0 ? v > a.top : v < a.top) return {v, a.sum * m::pow(a.top / v, ord) + 1};
      return {a.top, a.sum + (v == a.top ? 1 : m::pow(v / a.top, ord))};
    }
    return combine(a, A{0, ord == 0 ? static_cast<double>(v != 0) : v});
  }
  LOCUS_HD auto combine(auto a, auto b) const {
    using A = decltype(a);
    if (greatest()) return A{0, m::max(b.sum, a.sum)};
    if (least()) return A{0, m::min(b.sum, a.sum)};
    if (!powers()) return A{0, a.sum + b.sum};
    const bool up = ord > 0 ? b.top > a.top : b.top < a.top;
    const double power = m::pow(up ? a.top / b.top : b.top / a.top, ord);
    const double e = a.top == b.top ? 1 : power;  // infinities and zeros, too
    return up ? A{b.top, a.sum * e + b.sum} : A{a.top, a.sum + b.sum * e};
  }
  LOCUS_HD double result(auto a, double) const {
    return powers() ? a.top * m::pow(a.sum, 1 / ord) : a.sum;
  }
  // The norm that most ask for; its sum runs at the speed of memory.
  struct Squares : Reduction<"norm", kFloats> {
    template <class V, class I>
    using Acc = double;
    LOCUS_HD static double add(double a, auto x, const auto&) {
      const double y = x;
#ifdef __FMA__
      if constexpr (kSame<decltype(x), float>) return __builtin_fma(y, y, a);  // y * y is exact
#endif
      return a + y * y;
    }
    LOCUS_HD static double combine(double a, double b) { return a + b; }
    LOCUS_HD static double result(double a, double) { return m::sqrt(a); }
  };
  // f64 has sums for the elements whose squares are too large or too small for it: those squares
  // are scaled.
  struct Euclidean : Squares {
    struct Sums {
      double middle, large, small;
      Sums() = default;
      LOCUS_HD Sums(double m, double l = 0, double s = 0) : middle(m), large(l), small(s) {}
    };
    template <class V, class I>
    using Acc = If<kSame<V, double>, Sums, double>;
    using Squares::add, Squares::combine, Squares::result;
    LOCUS_HD static Sums add(Sums a, double x, const auto&) {
      const double v = m::abs(x);
      const bool large = v > 0x1p480, small = v < 0x1p-480;
      const double scaled = v * (large ? 0x1p-600 : small ? 0x1p600 : 1.), y = scaled * scaled;
      return {a.middle + (large || small ? 0. : y), a.large + (large ? y : 0.),
              a.small + (small ? y : 0.)};
    }
    LOCUS_HD static Sums combine(Sums a, Sums b) {
      return {a.middle + b.middle, a.large + b.large, a.small + b.small};
    }
    LOCUS_HD static double result(Sums a, double) {
      if (a.large != 0) return m::sqrt(a.large + a.middle * 0x1p-600 * 0x1p-600) * 0x1p600;
      if (a.middle == 0) return m::sqrt(a.small) * 0x1p-600;
      return m::sqrt(a.middle + a.small * 0x1p-600 * 0x1p-600);
    }
    using Simple = Squares;
    static bool kept(double sum) { return sum > 0x1p-900 && sum < 0x1p1000; }
  };
  void kernel(const auto& f) const {
    if (ord == 2)
      f(Euclidean());
    else
      f(*this);
  }
  // x / y first: 1 / y may be infinite.
  auto grad(auto& x, auto& y, auto& dy, auto&) const {
    if (ord == 2) return x / divisor(y) * dy;
    auto slope = sign(x) * dy;
    if (ord == 1) return slope;
    if (ord == 0) return slope * 0;
    if (greatest() || least()) return slope * (abs(x) == y);
    const auto part = where(logical_or(x == 0, y == 0), 1, x / divisor(y));
    return slope * (y != 0) * pow(abs(part), ord - 1);
  }
  void check(auto expect) const { expect(ord == ord, "ord", ord, "a number"); }
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
