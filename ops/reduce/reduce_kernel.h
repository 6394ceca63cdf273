// What the kernels of the reductions share on every device: which elements meet in which result
// (ReducePlan), and the reductions themselves, each written once.
#pragma once

#include <cmath>
#include <type_traits>

#include <locus/core/dtype.h>
#include <locus/core/kernel_list.h>
#include <locus/ops/kernel/cast.h>

namespace locus {

struct ReduceAttrs {
  uint32_t axes = 0;  // bit i: axis i is reduced
  bool keepdims = false;
};

// A reduction of strided memory as two groups of axes, innermost (smallest stride) first, length-1
// axes dropped and adjacent ones merged; each group has at least one axis. Result number o adds the
// elements k = 0 .. count - 1. The results are row-major in the order of the input's axes.
struct ReducePlan {
  struct Axis {
    int64_t size, in, out;  // out: stride of the result, unused on a reduced axis
  };
  int n_keep = 0, n_reduce = 0;
  Axis keep[kMaxRank], reduce[kMaxRank];
  int64_t outputs = 1, count = 1;

  // `ordered`: element k is the k-th in row-major order (argmax needs it); else any fixed order.
  LOCUS_HD ReducePlan(const View& v, uint32_t axes, bool ordered) {
    int64_t out = 1;
    for (int i = v.meta.rank - 1; i >= 0; --i) {
      const int64_t n = v.meta.shape[i];
      if (axes >> i & 1) {
        count *= n;
        if (n != 1) reduce[n_reduce++] = {n, v.stride[i], 0};
      } else {
        outputs *= n;
        if (n != 1) keep[n_keep++] = {n, v.stride[i], out};
        out *= n;
      }
    }
    tidy(keep, n_keep, true);
    tidy(reduce, n_reduce, !ordered);
  }

 private:
  LOCUS_HD static int64_t magnitude(int64_t n) { return n < 0 ? -n : n; }
  LOCUS_HD static void tidy(Axis* a, int& n, bool sort) {
    for (int i = 1; sort && i < n; ++i)
      for (int j = i; j > 0 && magnitude(a[j].in) < magnitude(a[j - 1].in); --j) {
        const Axis t = a[j];
        a[j] = a[j - 1];
        a[j - 1] = t;
      }
    int used = 0;
    for (int i = 0; i < n; ++i) {
      if (used > 0 && a[i].in == a[used - 1].in * a[used - 1].size &&
          a[i].out == a[used - 1].out * a[used - 1].size) {
        a[used - 1].size *= a[i].size;
      } else {
        a[used++] = a[i];
      }
    }
    if (used == 0) a[used++] = {1, 0, 0};
    n = used;
  }
};

// The axes along which `target` was broadcast to `shape`.
LOCUS_HD uint32_t broadcast_axes(const Meta& shape, const Meta& target) {
  const int shift = shape.rank - target.rank;
  uint32_t axes = 0;
  for (int i = 0; i < shape.rank; ++i)
    if (i < shift || target.shape[i - shift] != shape.shape[i]) axes |= 1u << i;
  return axes;
}

namespace reduction {

template <class T>
using ComputeType = Promoted<T>;

// Sums and products of integers are i64, as in NumPy on 64-bit systems.
template <class T>
using Wide = std::conditional_t<std::is_integral_v<T>, int64_t, T>;

template <class T>
LOCUS_HD T infinity() {  // or the largest integer
  if constexpr (std::is_same_v<T, float>)
    return bits_float(0x7f800000u);
  else if constexpr (std::is_same_v<T, double>)
    return static_cast<double>(bits_float(0x7f800000u));
  else if constexpr (sizeof(T) == 8)
    return INT64_MAX;
  else
    return INT32_MAX;
}

// A reduction names the type it accumulates in (Acc), its result's type (Out), and three functions:
// map(x), combine(a, b), which is associative up to rounding, and identity(). kTotalInDouble: f32
// partial results of blocks meet in f64 on the CPU.
struct Sum {
  static constexpr bool kTotalInDouble = true;
  template <class T>
  using Acc = Wide<ComputeType<T>>;
  template <class T>
  using Out = Wide<T>;
  template <class A>
  LOCUS_HD static A identity() {
    return A(0);
  }
  template <class A>
  LOCUS_HD static A map(A x) {
    return x;
  }
  template <class A>
  LOCUS_HD static A combine(A a, A b) {
    if constexpr (std::is_same_v<A, int64_t>)  // wraps
      return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
    else
      return a + b;
  }
  template <class A>
  LOCUS_HD static A finish(A a) {
    return a;
  }
};

struct Norm : Sum {
  template <class A>
  LOCUS_HD static A map(A x) {
    return x * x;
  }
  template <class A>
  LOCUS_HD static A finish(A a) {
    if constexpr (std::is_same_v<A, float>)
      return sqrtf(a);
    else
      return sqrt(a);
  }
};

struct Prod : Sum {
  template <class A>
  LOCUS_HD static A identity() {
    return A(1);
  }
  template <class A>
  LOCUS_HD static A combine(A a, A b) {
    if constexpr (std::is_same_v<A, int64_t>)
      return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
    else
      return a * b;
  }
};

struct Max {
  static constexpr bool kTotalInDouble = false;
  template <class T>
  using Acc = ComputeType<T>;
  template <class T>
  using Out = T;
  template <class A>
  LOCUS_HD static A identity() {
    if constexpr (std::is_floating_point_v<A>)
      return -infinity<A>();
    else
      return -infinity<A>() - 1;
  }
  template <class A>
  LOCUS_HD static A map(A x) {
    return x;
  }
  template <class A>
  LOCUS_HD static A combine(A a, A b) {  // NaN wins
    return b > a || b != b ? b : a;
  }
  template <class A>
  LOCUS_HD static A finish(A a) {
    return a;
  }
};

struct Min : Max {
  template <class A>
  LOCUS_HD static A identity() {
    return infinity<A>();
  }
  template <class A>
  LOCUS_HD static A combine(A a, A b) {
    return b < a || b != b ? b : a;
  }
};

// On booleans; unlike Max and Min they have a result for no elements.
struct Any : Max {
  template <class A>
  LOCUS_HD static A identity() {
    return A(0);
  }
};
struct All : Min {
  template <class A>
  LOCUS_HD static A identity() {
    return A(1);
  }
};

// Whether `b` takes the place of `a` in max (kMax) or min: strictly better, or the first NaN.
template <bool kMax, class A>
LOCUS_HD bool better(A b, A a) {
  if (a != a) return false;
  return b != b || (kMax ? b > a : b < a);
}

}  // namespace reduction

template <class Backend>
constexpr KernelList reduce_kernels() {
  using namespace reduction;
  KernelList list;
  const auto add = [&]<class R>(const char* op, auto dtypes, R) {
    list.add_each(op, dtypes, [](auto d) { return Backend::template along_axes<R, d>; });
  };
  add("sum", kAllDTypes, Sum{});
  add("prod", kAllDTypes, Prod{});
  add("max", kNumberDTypes, Max{});
  add("max", DTypes<bool_>{}, Any{});
  add("min", kNumberDTypes, Min{});
  add("min", DTypes<bool_>{}, All{});
  add("any", DTypes<bool_>{}, Any{});
  add("all", DTypes<bool_>{}, All{});
  add("norm", kFloatDTypes, Norm{});
  list.add_each("mean", kFloatDTypes, [](auto d) { return Backend::template mean<d>; });
  list.add_each("sum_to", DTypes<f32, f64, f16, bf16, i64>{},
                [](auto d) { return Backend::template sum_to<d>; });
  return list;
}
template <class Backend>
constexpr KernelList reduce_arg_kernels() {
  KernelList list;
  list.add_each("argmax", kAllDTypes, [](auto d) { return Backend::template along_axes<true, d>; });
  list.add_each("argmin", kAllDTypes,
                [](auto d) { return Backend::template along_axes<false, d>; });
  return list;
}

}  // namespace locus
