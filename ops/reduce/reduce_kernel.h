// The reductions, each written once for every device, and the list of their kernels.
//
// A reduction is an object; its attributes are its members. It names its op (`name`), the type of
// its result (Out<T>, T: what is stored), and what it accumulates in: Acc<V, I>, V the type that
// elements are computed in, I an integer that counts them. Acc is any trivially copyable type; the
// CPU keeps an aggregate of up to three members member by member, so that its lanes are vectors.
//   init<A>()          of no elements
//   add(acc, x, at)    takes one element in, at a Position; where it is missing,
//                      combine(acc, map(x)) does it
//   combine(a, b)      of two that took different elements in; associative up to rounding
//   result(acc, n)     of n elements
//   shift(acc, k)      adds k to the positions in it, if it has any
// Elements reach an accumulator in rising order. On the CPU blocks of at most 4096 (down columns:
// 256) meet in Acc<V>, and the blocks' results in Acc<Widest<V>, int64_t>, in f64 for f32.
#pragma once

#include <cmath>
#include <type_traits>

#include <locus/core/dtype.h>
#include <locus/core/kernel_list.h>
#include <locus/ops/kernel/cast.h>
#include <locus/ops/kernel/math.h>
#include <locus/ops/reduce/reduce_plan.h>

namespace locus::reduction {

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
LOCUS_HD A highest() {  // infinity, or the largest integer
  if constexpr (std::is_floating_point_v<A>)
    return m::infinity(A());
  else
    return sizeof(A) == 8 ? static_cast<A>(INT64_MAX) : static_cast<A>(INT32_MAX);
}
template <class A>
LOCUS_HD A lowest() {
  return std::is_floating_point_v<A> ? -highest<A>() : -highest<A>() - A(1);
}

enum class Takes : uint8_t { any, floating, boolean };  // what others become first: f64, bool

// What a reduction is unless it says otherwise.
struct Reduction {
  static constexpr Takes kTakes = Takes::any;
  static constexpr bool kOrdered = false;   // positions are row-major; one axis, or all
  static constexpr bool kCentered = false;  // uses Position::first
  static constexpr bool kHeavy = false;     // costs more code than is worth repeating
  static constexpr bool needs_elements() { return false; }

  template <class T>
  using Out = T;
  template <class V, class I>
  using Acc = V;
  template <class A>
  LOCUS_HD static A init() {
    return A();
  }
  LOCUS_HD static auto map(auto x) { return x; }
  LOCUS_HD static auto result(auto acc, double) { return acc; }
};

struct Sum : Reduction {
  static constexpr const char* name = "sum";
  bool divides = false;  // by n
  template <class T>
  using Out = Wide<T>;
  template <class V, class I>
  using Acc = Wide<V>;
  LOCUS_HD static auto combine(auto a, auto b) { return m::add(a, b); }
  template <class A>
  LOCUS_HD A result(A a, double n) const {
    if constexpr (std::is_floating_point_v<A>) return divides ? a / static_cast<A>(n) : a;
    return a;
  }
};
struct Mean : Reduction {
  static constexpr const char* name = "mean";
  static constexpr Takes kTakes = Takes::floating;
  static Sum kernel() { return {{}, true}; }
};

struct Prod : Reduction {
  static constexpr const char* name = "prod";
  template <class T>
  using Out = Wide<T>;
  template <class V, class I>
  using Acc = Wide<V>;
  template <class A>
  LOCUS_HD static A init() {
    return 1;
  }
  LOCUS_HD static auto combine(auto a, auto b) { return m::multiply(a, b); }
};

struct Max : Reduction {
  static constexpr const char* name = "max";
  static constexpr bool needs_elements() { return true; }
  template <class A>
  LOCUS_HD static A init() {
    return lowest<A>();
  }
  LOCUS_HD static auto combine(auto a, auto b) { return m::max(b, a); }  // NaN wins
};

struct Min : Max {
  static constexpr const char* name = "min";
  template <class A>
  LOCUS_HD static A init() {
    return highest<A>();
  }
  LOCUS_HD static auto combine(auto a, auto b) { return m::min(b, a); }
};

// On booleans; unlike Max and Min they have a result for no elements.
struct Any : Max {
  static constexpr const char* name = "any";
  static constexpr Takes kTakes = Takes::boolean;
  static constexpr bool needs_elements() { return false; }
  template <class A>
  LOCUS_HD static A init() {
    return 0;
  }
};
struct All : Min {
  static constexpr const char* name = "all";
  static constexpr Takes kTakes = Takes::boolean;
  static constexpr bool needs_elements() { return false; }
  template <class A>
  LOCUS_HD static A init() {
    return 1;
  }
};

template <class V, class I>
struct Best {
  V value;
  I index;
};
// The first of the largest or smallest; NaN is larger and smaller than all. Without elements it is
// at 0 with the worst value there is: right as soon as there is an element.
template <bool kMax>
struct Arg : Reduction {
  static constexpr const char* name = kMax ? "argmax" : "argmin";
  static constexpr bool kOrdered = true;
  static constexpr bool needs_elements() { return true; }
  template <class T>
  using Out = int64_t;
  template <class V, class I>
  using Acc = Best<V, I>;
  template <class A>
  LOCUS_HD static A init() {
    using V = decltype(A::value);
    return {kMax ? lowest<V>() : highest<V>(), 0};
  }
  // Bit operations: one comparison after another would be branches.
  template <class V>
  LOCUS_HD static bool better(V b, V a) {
    if constexpr (std::is_integral_v<V>) return kMax ? b > a : b < a;
    return (a == a) & !(kMax ? b <= a : b >= a);
  }
  template <class A, class V, class I>
  LOCUS_HD static A add(A a, V x, const Position<V, I>& at) {
    const bool take = better(x, a.value);
    return {take ? x : a.value, take ? at.index : a.index};
  }
  template <class A>
  LOCUS_HD static A combine(A a, A b) {
    const bool equal = (a.value == b.value) | ((a.value != a.value) & (b.value != b.value));
    const bool take = equal ? b.index < a.index : better(b.value, a.value);
    return {take ? b.value : a.value, take ? b.index : a.index};
  }
  LOCUS_HD static void shift(auto& a, int64_t k) { a.index += k; }
  LOCUS_HD static int64_t result(auto a, double) { return a.index; }
};

// Chan, Golub and LeVeque, "Algorithms for computing the sample variance" (1983), of the distances
// from element 0: their mean, and the sum of their squared distances from that.
template <class V>
struct Moments {
  V count, mean, squares;
};
struct Var : Reduction {
  static constexpr const char* name = "var";
  static constexpr Takes kTakes = Takes::floating;
  static constexpr bool kCentered = true;
  double ddof = 0;
  bool root = false;

  template <class V, class I>
  using Acc = Moments<V>;
  template <class A, class V, class I>
  LOCUS_HD static A add(A a, V x, const Position<V, I>& at) {
    const V n = static_cast<V>(at.count), y = x - at.first, d = y - a.mean;
    const V mean = a.mean + d * (V(1) / n);
    return {n, mean, a.squares + d * (y - mean)};
  }
  template <class A>
  LOCUS_HD static A combine(A a, A b) {
    const auto n = a.count + b.count, d = b.mean - a.mean, part = n > 0 ? d * (b.count / n) : n;
    return {n, a.mean + part, a.squares + b.squares + d * (part * a.count)};
  }
  template <class V>
  LOCUS_HD V result(Moments<V> a, double n) const {
    const V variance = a.squares / static_cast<V>(n > ddof ? n - ddof : 0);
    return root ? m::sqrt(variance) : variance;
  }
};
struct Std : Reduction {
  static constexpr const char* name = "std";
  static constexpr Takes kTakes = Takes::floating;
  double ddof = 0;
  Var kernel() const { return {{}, ddof, true}; }
};

// top + log(sum): the sum is that of exp(x - top).
template <class V>
struct Scaled {
  V top, sum;
};
struct LogSumExp : Reduction {
  static constexpr const char* name = "logsumexp";
  static constexpr bool kHeavy = true;
  static constexpr Takes kTakes = Takes::floating;
  template <class V, class I>
  using Acc = Scaled<V>;
  template <class A>
  LOCUS_HD static A init() {
    return {lowest<decltype(A::top)>(), 0};
  }
  LOCUS_HD static auto add(auto a, auto x, const auto&) { return combine(a, decltype(a){x, 1}); }
  template <class A>
  LOCUS_HD static A combine(A a, A b) {  // b.top may be NaN, and sum is then
    const bool up = b.top > a.top;
    auto e = m::exp(-m::abs(b.top - a.top));
    e = b.top == a.top ? static_cast<decltype(e)>(1) : e;  // infinite ones too
    return {up ? b.top : a.top, up ? a.sum * e + b.sum : a.sum + b.sum * e};
  }
  LOCUS_HD static auto result(auto a, double) { return a.top + m::log(a.sum); }
};

// Squares and powers of f32 would overflow in f32.
struct Norm : Reduction {
  static constexpr const char* name = "norm";
  static constexpr bool kHeavy = true;
  static constexpr Takes kTakes = Takes::floating;
  double ord = 2;

  bool needs_elements() const { return greatest() || least(); }
  LOCUS_HD bool greatest() const { return ord == m::infinity(ord); }
  LOCUS_HD bool least() const { return ord == -m::infinity(ord); }
  template <class V, class I>
  using Acc = double;
  template <class A>
  LOCUS_HD A init() const {
    return least() ? -lowest<A>() : A(0);
  }
  LOCUS_HD double map(double x) const {
    const double a = m::abs(x);
    if (ord == 1 || greatest() || least()) return a;
    return ord == 0 ? static_cast<double>(a != 0) : m::pow(a, ord);
  }
  LOCUS_HD double combine(double a, double b) const {
    if (greatest()) return m::max(b, a);
    return least() ? m::min(b, a) : a + b;
  }
  LOCUS_HD double result(double a, double) const {
    return ord == 0 || greatest() || least() ? a : m::pow(a, 1 / ord);
  }
  // The norm that most ask for; its sum runs at the speed of memory.
  struct Euclidean : Reduction {
    template <class V, class I>
    using Acc = double;
    template <class V, class I>
    LOCUS_HD static double add(double a, V x, const Position<V, I>&) {
      const double y = x;
#ifdef __FMA__
      if constexpr (std::is_same_v<V, float>) return __builtin_fma(y, y, a);  // y * y is exact
#endif
      return a + y * y;
    }
    LOCUS_HD static double combine(double a, double b) { return a + b; }
    LOCUS_HD static double result(double a, double) { return m::sqrt(a); }
  };
};

// Takes element x in.
template <class R, class A, class V, class I>
LOCUS_HD A added(const R& r, A acc, V x, const Position<V, I>& at) {
  if constexpr (requires { r.add(acc, x, at); })
    return r.add(acc, x, at);
  else
    return r.combine(acc, static_cast<A>(r.map(static_cast<A>(x))));
}

// Calls f with the reduction whose kernel computes r.
template <class F>
void for_kernel(const auto& r, const F& f) {
  if constexpr (requires { r.kernel(); })
    f(r.kernel());
  else
    f(r);
}
template <class F>
void for_kernel(const Norm& r, const F& f) {
  if (r.ord == 2)
    f(Norm::Euclidean());
  else
    f(r);
}

}  // namespace locus::reduction

namespace locus {

// Backend::reduce<R, D> is the kernel of R for dtype D.
template <class Backend, class R>
constexpr void add_reduction(KernelList& list, auto dtypes, const char* op = R::name) {
  list.add_each(op, dtypes, [](auto d) { return Backend::template reduce<R, d>; });
}
template <class Backend>
constexpr KernelList reduce_kernels() {
  using namespace reduction;
  KernelList list;
  add_reduction<Backend, Sum>(list, kAllDTypes);
  add_reduction<Backend, Prod>(list, kAllDTypes);
  add_reduction<Backend, Max>(list, kNumberDTypes);
  add_reduction<Backend, Min>(list, kNumberDTypes);
  add_reduction<Backend, Any>(list, DTypes<bool_>{}, "max");
  add_reduction<Backend, All>(list, DTypes<bool_>{}, "min");
  add_reduction<Backend, Any>(list, DTypes<bool_>{});
  add_reduction<Backend, All>(list, DTypes<bool_>{});
  add_reduction<Backend, Mean>(list, kFloatDTypes);
  list.add_each("sum_to", DTypes<f32, f64, f16, bf16, i64>{},
                [](auto d) { return Backend::template sum_to<d>; });
  return list;
}
template <class Backend>
constexpr KernelList reduce_arg_kernels() {
  KernelList list;
  add_reduction<Backend, reduction::Arg<true>>(list, kAllDTypes);
  add_reduction<Backend, reduction::Arg<false>>(list, kAllDTypes);
  return list;
}
template <class Backend>
constexpr KernelList reduce_compound_kernels() {
  using namespace reduction;
  KernelList list;
  add_reduction<Backend, Var>(list, kFloatDTypes);
  add_reduction<Backend, Std>(list, kFloatDTypes);
  add_reduction<Backend, LogSumExp>(list, kFloatDTypes);
  add_reduction<Backend, Norm>(list, kFloatDTypes);
  return list;
}

}  // namespace locus
