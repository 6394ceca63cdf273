// Shared by the kernels of normalisations on all devices.
//
// Memory is (outer, channels, inner). Batch normalisation has statistics per channel, the others
// per row of (channels / groups * inner) contiguous elements. Statistics are the mean and the
// biased variance, or the mean square. They are f64: f32 cannot hold the mean of numbers closer
// together than its last digit.
#pragma once

#include <locus/core/dtype.h>
#include <locus/core/kernel_list.h>
#include <locus/ops/kernel/walk.h>
#include <locus/ops/reduce/squares.h>

namespace locus {

struct NormAttrs {
  int32_t axis = 1;    // of the channels, not negative
  int32_t groups = 1;  // of the channels; 1 for batch_norm
  double epsilon = 1e-5;
};
struct NormGradAttrs : NormAttrs {
  bool data = true, gamma = true, beta = true;  // which gradients are computed
  bool given = false;                           // the statistics do not depend on the data
};
struct BatchNormAttrs : NormAttrs {
  double momentum = .9;
};

// Rows with statistics. Row r's channels begin at r % groups * each.
struct NormRows {
  int64_t rows, n, groups, each, inner;

  LOCUS_HD NormRows(const Meta& m, const NormAttrs& a) : groups(a.groups) {
    const Along s(m, a.axis);
    each = s.n / groups;
    inner = s.inner;
    rows = s.outer * groups;
    n = each * inner;
  }
};

// Moments of elements. `mean` is relative to element 0 until widened().
template <class V>
using Moments = reduction::Spread<V>;

LOCUS_HD Moments<double> widened(double first, Moments<double> m) {
  return {m.count, first + m.mean, m.squares};
}
// The saved statistics: 0 without elements; both NaN if an element is not finite.
LOCUS_HD double variance(const Moments<double>& m) { return m.count > 0 ? m.squares / m.count : 0; }
LOCUS_HD double mean(const Moments<double>& m) {
  return m.squares == m.squares ? m.mean : m.squares;
}

// The sums of dy and of dy times the normalised x.
struct NormSums {
  double dy, hat;
};
LOCUS_HD NormSums combine(NormSums a, NormSums b) { return {a.dy + b.dy, a.hat + b.hat}; }
LOCUS_HD Moments<double> combine(Moments<double> a, Moments<double> b) {
  return reduction::SpreadSum::combine(a, b);
}

// The statistics for an element, in its compute type. The mean is high + low. The gradient
// subtracts mean_dy + mean_hat times the normalised x from dy gamma.
template <class A>
struct NormStat {
  A high, low, rstd, mean_dy, mean_hat;

  LOCUS_HD static NormStat of(double mean, double variance, double epsilon) {
    const A high = static_cast<A>(mean);
    return {high, static_cast<A>(mean - static_cast<double>(high)),
            static_cast<A>(1 / m::sqrt(variance + epsilon)), 0, 0};
  }
  LOCUS_HD A centred(A x) const { return (x - high) - low; }
  LOCUS_HD A hat(A x) const { return centred(x) * rstd; }
  LOCUS_HD A apply(A x, A gamma, A beta) const { return hat(x) * gamma + beta; }
  // For given statistics: apply() on dy gives dx.
  LOCUS_HD NormStat given() const { return {0, 0, rstd, 0, 0}; }
  LOCUS_HD A slope(A dy, A x, A gamma) const {
    return rstd * (dy * gamma - mean_dy - hat(x) * mean_hat);
  }
  // Sets the means from sums over n elements.
  LOCUS_HD void share(NormSums sums, double n) {
    mean_dy = static_cast<A>(sums.dy / n);
    mean_hat = static_cast<A>(sums.hat / n);
  }
};

// The update of batch_norm's running statistics, for numbers and tensors.
template <class V, class T>
LOCUS_HD V running_average(const V& before, const V& now, T momentum) {
  return momentum * before + (T(1) - momentum) * now;
}

// Running statistics and their new values, which may share memory.
struct Running {
  const void *mean, *var;
  void *next_mean, *next_var;
  bool wide;  // f64, else f32
  double momentum;

  // For a call with `count` elements per channel; 0 leaves the statistics unchanged.
  Running(const Call& call, int64_t count)
      : mean(call.in[3].data),
        var(call.in[4].data),
        next_mean(call.out[3].data),
        next_var(call.out[4].data),
        wide(call.in[3].meta.dtype == f64),
        momentum(count > 0 ? call.attributes<BatchNormAttrs>().momentum : 1) {}

  LOCUS_HD void step(int64_t c, double mean_now, double var_now) const {
    if (wide)
      step_as<double>(c, mean_now, var_now);
    else
      step_as<float>(c, mean_now, var_now);
  }

 private:
  template <class T>
  LOCUS_HD void step_as(int64_t c, double mean_now, double var_now) const {
    const auto average = [m = static_cast<T>(momentum)](T before, double now) {
      return running_average(before, static_cast<T>(now), m);
    };
    static_cast<T*>(next_mean)[c] = average(static_cast<const T*>(mean)[c], mean_now);
    static_cast<T*>(next_var)[c] = average(static_cast<const T*>(var)[c], var_now);
  }
};

template <class Backend>
constexpr KernelList row_norm_kernels() {
  KernelList list;
  for (const char* op : {"layer_norm", "group_norm", "instance_norm"})
    list.add_each(op, kFloatDTypes,
                  [](auto d) { return Backend::template forward<true, CppTypeOf<d>>; });
  list.add_each("rms_norm", kFloatDTypes,
                [](auto d) { return Backend::template forward<false, CppTypeOf<d>>; });
  list.add_each("layer_norm_grad", kFloatDTypes,
                [](auto d) { return Backend::template backward<true, CppTypeOf<d>>; });
  list.add_each("rms_norm_grad", kFloatDTypes,
                [](auto d) { return Backend::template backward<false, CppTypeOf<d>>; });
  return list;
}

template <class Backend>
constexpr KernelList batch_norm_kernels() {
  KernelList list;
  list.add_each("batch_norm", kFloatDTypes,
                [](auto d) { return Backend::template forward<CppTypeOf<d>>; });
  list.add_each("batch_norm_statistics", kFloatDTypes,
                [](auto d) { return Backend::template statistics<CppTypeOf<d>>; });
  list.add_each("batch_norm_inference", kFloatDTypes,
                [](auto d) { return Backend::template inference<CppTypeOf<d>>; });
  list.add_each("batch_norm_grad", kFloatDTypes,
                [](auto d) { return Backend::template backward<CppTypeOf<d>>; });
  return list;
}

}  // namespace locus
