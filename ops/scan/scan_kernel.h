// Scans made from reductions, for the kernels of both back ends. A scan is a struct:
//
//   Scan<"cumsum", Sum>   its base: the op's name and the reduction, whose accumulator, combine()
//                         and result() it takes
//   element(x, i)         the accumulator of one element at position i
//
// kIn counts the operands. If kOut is 2, the accumulator is an extreme element, and its index is a
// second result.
#pragma once

#include <locus/core/dtype.h>
#include <locus/core/kernel_list.h>
#include <locus/ops/reduce/logsumexp.h>
#include <locus/ops/reduce/sum.h>

namespace locus {

struct ScanAttrs {
  int32_t axis = 0;  // not negative
};
struct ExtremeAttrs {
  int32_t axis = 0;
  uint8_t smallest = 0;  // instead of the largest
};

namespace scan {

using formula::List, formula::Name;
using reduction::LogSumExp, reduction::Prod, reduction::Sum;

template <Name Of, class R>
struct Scan {
  using Reduction = R;
  using Attrs = ScanAttrs;
  static constexpr const char* name = Of.text;
  static constexpr unsigned kKinds = R::kKinds;
  static constexpr int kIn = 1, kOut = 1;
  static constexpr bool kRounds = true;   // the host accumulates in wider types
  static constexpr bool kDouble = false;  // GPUs accumulate in f64
  template <class A>
  LOCUS_HD static A element(auto x, int64_t) {
    return static_cast<A>(x);
  }
};

struct CumSum : Scan<"cumsum", Sum> {};
struct CumProd : Scan<"cumprod", Prod> {};
struct LogCumSumExp : Scan<"logcumsumexp", LogSumExp> {
  template <class A>
  LOCUS_HD static A element(auto x, int64_t) {
    return {x, 1};
  }
};

// The largest element, and of equal ones the last. NaN is larger than all numbers.
struct LastLargest : reduction::Reduction<"", formula::kAll> {
  template <class V, class I>
  struct Acc {
    V value;
    I index;
  };
  LOCUS_HD static auto init(auto a) { return decltype(a){reduction::lowest(a.value), -1}; }
  LOCUS_HD static auto combine(auto a, auto b) {
    const bool take =
        (b.index >= 0) & !(b.value < a.value) & ((a.value == a.value) | (b.value != b.value));
    return decltype(a){take ? b.value : a.value, m::choose(take, b.index, a.index)};
  }
  LOCUS_HD static auto result(auto a, double) { return a.value; }
};
struct CumExtreme : Scan<"cum_extreme", LastLargest> {
  using Attrs = ExtremeAttrs;
  static constexpr int kOut = 2;
  static constexpr bool kRounds = false;
  template <class A>
  LOCUS_HD static A element(auto x, int64_t i) {
    return {x, i};
  }
};

// x, or if `turns` a value that is large where x is small, so that the largest one is that of the
// smallest x. The value of the value is x. NaN stays NaN.
template <class W>
LOCUS_HD W turned(W x, bool turns) {
  using Bits = If<sizeof(W) == 1, uint8_t, If<sizeof(W) == 4, uint32_t, uint64_t>>;
  const Bits all = kSame<W, bool> ? Bits{1}
                   : kFloating<W> ? static_cast<Bits>(Bits{1} << (8 * sizeof(W) - 1))
                                  : static_cast<Bits>(~Bits{0});
  const Bits mask = turns ? all : Bits{0};
  return __builtin_bit_cast(W, static_cast<Bits>(__builtin_bit_cast(Bits, x) ^ mask));
}

// sum over j <= i of v[j] exp(t[j] + u[i]), for operands v, t, u: the gradients of logcumsumexp. No
// step overflows if t[j] + u[i] <= 0.
struct CumSumExp : Scan<"cumsum_exp", LogSumExp> {
  static constexpr int kIn = 3;
  static constexpr bool kDouble = true;  // v may be denormal
};

// y[i] = a[i] y[i - 1] + b[i], for operands a and b, where y[-1] is 0: the gradients of cumprod.
// The accumulator of neighbouring elements makes y at the last one of y before the first one: it
// is scale y + shift.
struct LinearMap : reduction::Reduction<"", formula::kFloats> {
  template <class V, class>
  struct Acc {
    V scale, shift;
  };
  LOCUS_HD static auto init(auto a) { return decltype(a){1, 0}; }
  LOCUS_HD static auto combine(auto a, auto b) {
    return decltype(a){a.scale * b.scale, b.scale * a.shift + b.shift};
  }
  LOCUS_HD static auto result(auto a, double) { return a.shift; }
};
struct Recurrence : Scan<"linear_recurrence", LinearMap> {
  static constexpr int kIn = 2;
};

using Scans = List<CumSum, CumProd, LogCumSumExp, CumExtreme, CumSumExp, Recurrence>;

// Operands and results in memory. S: a scan. T: the stored type. W: the type that its accumulators
// are made of.
template <class S, class T, class W>
struct Data {
  using R = typename S::Reduction;
  using A = typename R::template Acc<W, int64_t>;
  using Out = typename R::template Out<T>;
  static constexpr int kOut = S::kOut;

  const T* in[S::kIn];
  Out* out;
  int64_t* index;
  bool turns;  // to find the smallest element

  // The element at offset `at`, position i of its row.
  LOCUS_HD A element(int64_t at, int64_t i) const {
    if constexpr (S::kIn == 3)
      return {convert<W>(in[1][at]), convert<W>(in[0][at])};
    else if constexpr (S::kIn == 2)
      return {convert<W>(in[0][at]), convert<W>(in[1][at])};
    else if constexpr (S::kOut == 2)
      return S::template element<A>(turned(convert<W>(in[0][at]), turns), i);
    else
      return S::template element<A>(convert<W>(in[0][at]), i);
  }
  LOCUS_HD static A combine(const A& a, const A& b) { return R::combine(a, b); }
  LOCUS_HD void store(int64_t at, const A& a) const {
    if constexpr (S::kIn == 3) {
      out[at] = convert<Out>(a.sum * m::exp(a.top + convert<W>(in[2][at])));
    } else if constexpr (S::kOut == 2) {
      out[at] = convert<Out>(turned(a.value, turns));
      index[at] = a.index;
    } else {
      out[at] = convert<Out>(R().result(a, 1.0));
    }
  }
  LOCUS_HD Data moved(int64_t by) const {
    Data d = *this;
    for (auto*& p : d.in) p += by;
    d.out += by;
    if constexpr (S::kOut == 2) d.index += by;
    return d;
  }
};
template <class D, class T>
D data_of(const View* in, const View* out, const auto& attrs) {
  D d{};
  for (auto*& p : d.in) p = (in++)->as<const T>();
  d.out = out[0].as<typename D::Out>();
  if constexpr (D::kOut == 2) {
    d.index = out[1].as<int64_t>();
    d.turns = attrs.smallest;
  }
  return d;
}

template <class Backend, class S>
constexpr void add_scan(KernelList& list) {
  constexpr auto kernel = [](auto d) { return Backend::template run<S, d>; };
  if constexpr (S::kIn > 1)  // of gradients, which are f32 or f64
    list.add_each(S::name, DTypes<f32, f64>(), kernel);
  else if constexpr (S::kKinds == formula::kFloats)
    list.add_each(S::name, kFloatDTypes, kernel);
  else
    list.add_each(S::name, kAllDTypes, kernel);
}
template <class Backend, class... S>
constexpr KernelList kernels(List<S...>) {
  KernelList list;
  (add_scan<Backend, S>(list), ...);
  return list;
}

}  // namespace scan
}  // namespace locus
