// Walks the registry over each dtype's whole range. Results and gradients that fit the dtype are
// right, even if intermediate values do not fit.
#include <algorithm>
#include <cmath>
#include <functional>

#include <locus/core/memory/storage.h>
#include <locus/ops/create.h>
#include "tests/registry/walk.h"

namespace locus::test {
namespace {

constexpr DType kFloating[] = {f16, bf16, f32, f64};

// Exponents from the least to the largest number, including 0.
std::vector<int> exponents(DType d) {
  const Range r = range(d);
  const int step = d == f16 ? 3 : d == f64 ? 61 : 13;
  std::vector<int> all;
  for (int e = 0; e < r.high - 2; e += step) all.push_back(e);
  for (int e = -step; e > r.low; e -= step) all.push_back(e);
  all.push_back(r.high - 2);
  return all;
}

// A sample with one or all floating inputs times 2^exponent, and their names.
struct Scaled {
  Tensors in;
  std::string what;
};
std::vector<Scaled> scaled(const Sample& s, DType d, bool normal, int most) {
  std::vector<Scaled> all;
  const int n = static_cast<int>(s.inputs.size());
  for (int e : exponents(d)) {
    if (normal && std::ldexp(1., e) < 64 * range(d).normal) continue;
    if (std::abs(e) > most) continue;
    for (int only = n > 1 ? -1 : 0; only < n; ++only) {
      if (only >= 0 && !varies(s.inputs[static_cast<size_t>(only)])) continue;
      Scaled one{s.inputs, text_of("inputs times 2^", e)};
      if (n > 1 && only >= 0) one.what = text_of("input ", only, " times 2^", e);
      for (int i = 0; i < n; ++i) {
        Tensor& x = one.in[static_cast<size_t>(i)];
        if (!varies(x) || (only >= 0 && i != only)) continue;
        std::vector<double> v = values(x);
        for (double& each : v) each = std::ldexp(each, e);
        x = from_values(v, x.shape(), x.context(), x.dtype());
      }
      all.push_back(std::move(one));
    }
  }
  return all;
}

bool is_step(const Op& op) {
  return std::ranges::count(std::vector<std::string>{"floor", "ceil", "trunc", "round", "rint",
                                                     "around", "sign", "floor_divide", "heaviside"},
                            op.name) > 0;
}

// Ops that compute gradients are walked as gradients.
bool is_of_gradients(const Op& op) {
  const std::string_view name = op.name;
  return name.ends_with("_grad") || name.ends_with("_backward") || name.ends_with("_gather");
}
#define LOCUS_NEEDS_OP_OF_USERS() \
  if (is_of_gradients(op())) GTEST_SKIP() << op().name << " is walked as the gradient of its op"

class RegistryRange : public RegistryWalk {
 protected:
  template <class F>
  void each_scaled(bool gradients, F f) {
    bool any = false;
    for (Context c : kernel_contexts())
      for (DType d : kFloating) {
        if (!has(op(), device(c).kernels(), d)) continue;
        for (const Sample& s : op().samples(c, d)) {
          if (gradients && !s.differentiable) continue;
          if (std::ranges::none_of(s.inputs, varies)) continue;
          for (const Scaled& one : scaled(s, d, gradients, reference().most_exponent)) {
            any = true;
            SCOPED_TRACE(to_string(c) + " " + name(d) + ": " + one.what);
            f(c, d, s, one.in);
            if (HasFailure()) return;
          }
        }
      }
    if (!any) GTEST_SKIP() << op().name << " has no sample with a floating input";
    EXPECT_GT(compared_, 0) << "no value of " << op().name << " was compared";
  }

  // Whether results fit the dtype, and the terms of their sums, which may be larger than the sums.
  bool fits(const Arrays& results, DType d) const {
    return std::ranges::all_of(results, [&](const Array& a) {
      const DType own = a.dtype == f64 ? f64 : d;  // some have f64 statistics
      const double most = range(own).most / (reference().each_exact ? 2 : 64);
      return std::ranges::all_of(a.values, [most](Real v) { return !(std::fabs(v) > most); });
    });
  }
  // Rounding of subnormal numbers; f16 is computed in f32.
  static double slack(DType d) { return (d == f16 ? 2 : 64) * range(d).least; }

  // Compares gradients in f64, summed along a direction, with differences of the reference.
  void expect_sum(const Array& x, const Array& dx, const Slope& right, double head) {
    const std::vector<Real> direction = direction_of(x);
    Real sum = 0, size = 0;
    for (size_t i = 0; i < direction.size(); ++i) {
      sum += dx.values[i] * direction[i];
      size += std::fabs(dx.values[i] * direction[i]);
    }
    const Real wanted = head * right.value, doubt = head * right.doubt;
    // The reference is in doubt, or gradients do not fit.
    if (!std::isfinite(doubt) || std::fabs(wanted) < 10 * doubt) return;
    for (Real v : x.values)
      if (std::fabs(wanted) > std::fabs(v) * range(f64).most / 1024) return;
    ++compared_;
    EXPECT_LE(std::fabs(sum - wanted), doubt + 1e-8 * (size + std::fabs(wanted)))
        << "along a direction " << double(sum) << ", right: " << double(wanted);
  }
  static std::vector<Real> direction_of(const Array& x) {
    std::vector<Real> direction;
    for (double w : weights(x.size(), 5)) direction.push_back(w);
    for (size_t i = 0; i < direction.size(); ++i) direction[i] *= std::fabs(x.values[i]);
    return direction;
  }

  // Compares dx with the right gradients that are not NaN and at most `most`. `nudged` gives the
  // right gradients of inputs with other rounding: dx may be as far off.
  void expect_near(const Array& dx, Array right, double most, const Near& near,
                   const std::function<Array()>& nudged) {
    const auto skip = [&](auto told) {
      for (size_t i = 0; i < right.values.size(); ++i)
        if (!told(i, right.values[i])) right.values[i] = dx.values[i];
    };
    skip([&](size_t, Real r) {
      const bool told = std::fabs(r) <= most;
      compared_ += told;
      return told;
    });
    if (difference(dx, right, near).empty()) return;
    const Array off = nudged();
    skip([&](size_t i, Real r) {
      const Real by_rounding = 16 * std::fabs(r - off.values[i]);
      return by_rounding <= std::fabs(r) && std::fabs(dx.values[i] - r) > by_rounding;
    });
    EXPECT_EQ(difference(dx, right, near), "");
  }

  int64_t compared_ = 0;
};

TEST_P(RegistryRange, HoldsItsResults) {
  LOCUS_NEEDS_REFERENCE();
  LOCUS_NEEDS_OP_OF_USERS();
  each_scaled(false, [&](Context c, DType d, const Sample& s, const Tensors& in) {
    const Arrays right = reference().apply(arrays_of(in), s.attrs);
    if (!reference().each_exact && !fits(right, d)) return;
    Near near{tolerance(d), slack(d), 0, range(d).most};
    if (!reference().each_exact) near.of_most = tolerance(d);
    for (const Array& a : right) compared_ += a.size();
    expect_results(run(op(), in, s.attrs, c), right, near, "result");
  });
}

// Converts narrower floating dtypes to f64. f64 gradients are compared with the reference.
Tensors widened(const Tensors& in) {
  Tensors out;
  for (const Tensor& t : in) {
    out.push_back(allocate(cpu(), make_meta(varies(t) ? f64 : t.dtype(), t.shape())));
    t.copyto(out.back());
  }
  return out;
}

// Each element times 1 or 1 + epsilon, the effect of rounding an input.
Arrays nudged(Arrays in, DType d) {
  for (Array& a : in)
    for (size_t i = 0; is_floating(a.dtype) && i < a.values.size(); i += 1 + i % 3)
      a.values[i] *= 1 + Real{rounding_unit(d)};
  return in;
}
Tensors nudged(const Tensors& in, DType d) {
  Tensors out;
  for (const Array& a : nudged(arrays_of(in), d))
    out.push_back(from_values({a.values.begin(), a.values.end()}, in[out.size()].shape(), cpu(),
                              in[out.size()].dtype()));
  return out;
}

// The slopes times `head`; NaN if in doubt, or if their terms exceed `most`.
Array told(const Slopes& slopes, double head, double most) {
  Array right = slopes.values;
  for (size_t i = 0; i < right.values.size(); ++i) {
    const Real r = right.values[i], doubt = slopes.doubt.values[i], size = slopes.size.values[i];
    right.values[i] = 10 * doubt <= std::fabs(r) && !(head * size > most) ? head * r : kNaN;
  }
  return right;
}
Array times(Array a, double factor) {
  for (Real& v : a.values) v *= factor;
  return a;
}

TEST_P(RegistryRange, HoldsItsGradients) {
  LOCUS_NEEDS_GRADIENT();
  LOCUS_NEEDS_OP_OF_USERS();
  if (is_step(op())) GTEST_SKIP() << op().name << " has gradient 0, but for steps everywhere";
  each_scaled(true, [&](Context, DType d, const Sample& s, const Tensors& in) {
    const Arrays from = arrays_of(in);
    const double relative = d == f64 ? 1e-9 : d == f32 ? 1e-3 : .5;
    const double most = range(d).most / (1 + relative) / (reference().each_exact ? 1 : 64);
    if (!is_elementwise(op())) {
      const Arrays results = reference().apply(from, s.attrs);
      const auto is_normal = [](Real v) { return std::fabs(v) >= range(f64).normal; };
      if (!fits(results, d)) return;
      if (d == f64 && reference().slope_of_result &&
          !std::ranges::all_of(results[0].values, is_normal))
        return;
    }
    // Of head 1; gradients are proportional to the head.
    std::vector<Array> right(in.size()), nudged_right(in.size());
    std::vector<Slopes> terms(in.size());
    std::vector<Slope> along(in.size());
    const bool by_terms = is_elementwise(op()), by_sum = !by_terms && d == f64;
    const Tensors wide =
        by_terms || by_sum ? Tensors(in.size()) : gradients_of(op(), widened(in), s.attrs);
    const auto is_compared = [&](size_t k) { return varies(in[k]) && in[k].size() > 0; };
    for (size_t k = 0; k < in.size(); ++k) {
      if (!is_compared(k)) continue;
      if (by_sum) {
        along[k] = slope_along(op(), from, s.attrs, k, direction_of(from[k]), 1);
      } else if (by_terms) {
        terms[k] = slopes(op(), from, s.attrs, k, 1, most);
      } else if (wide[k].defined()) {
        right[k] = array_of(wide[k]);
        right[k].dtype = d;
      }
    }
    for (double head : {1., 1024., d == f16 ? 32768. : 65536.}) {
      SCOPED_TRACE(text_of("head ", head));
      const Tensors got = gradients_of(op(), in, s.attrs, head);
      Near near{relative, slack(d)};
      if (reference().slope_cancels) near.absolute += 16 * rounding_unit(d) * head;
      if (reference().slope_of_result)
        near.absolute += range(d).least * (d == f16 ? 1 : 128) * head;
      if (!by_terms) near.of_most = relative;
      for (size_t k = 0; k < in.size(); ++k) {
        if (!is_compared(k) || !got[k].defined()) continue;
        SCOPED_TRACE(text_of("gradient of input ", k));
        const Array dx = array_of(got[k]);
        if (by_sum) {
          expect_sum(from[k], dx, along[k], head);
          continue;
        }
        const Array wanted = by_terms ? told(terms[k], head, most) : times(right[k], head);
        if (!by_terms && !fits({wanted}, d)) continue;
        expect_near(dx, wanted, most, near, [&] {
          if (nudged_right[k].size() == 0)
            nudged_right[k] =
                by_terms ? slopes(op(), nudged(from, d), s.attrs, k, 1).values
                         : array_of(gradients_of(op(), nudged(widened(in), d), s.attrs)[k]);
          return times(nudged_right[k], head);
        });
        if (HasFailure()) return;
      }
    }
  });
}

// If slopes of the reference converge far out, the limit is the gradient at infinity.
TEST_P(RegistryRange, HasTheLimitsOfItsGradient) {
  LOCUS_NEEDS_GRADIENT();
  if (!is_elementwise(op()) || op().max_in != 1 || is_step(op()))
    GTEST_SKIP() << op().name << " is not a smooth function of one number";
  for (Context c : kernel_contexts())
    for (DType d : kFloating) {
      if (!has(op(), device(c).kernels(), d)) continue;
      for (const Sample& s : op().samples(c, d))
        for (double sign : {1., -1.}) {
          SCOPED_TRACE(to_string(c) + " " + name(d));
          const auto slope = [&](Real x) {
            const Slopes found = slopes(op(), {Array({1}, d, sign * x)}, s.attrs, 0, 1);
            return std::isnan(found.doubt.values[0]) ? kNaN : found.values.values[0];
          };
          const Real far = slope(1e1000L), further = slope(1e2000L);
          const bool grows = std::fabs(far) > 1e300L && std::fabs(further) >= std::fabs(far);
          if (!grows && !(std::fabs(far - further) <= 1e-6L * std::fabs(far) + 1e-300L)) continue;
          const Tensor x = from_values({sign * INFINITY}, {1}, c, d);
          const Array dx = array_of(gradients_of(op(), {x}, s.attrs)[0]);
          const Array right({1}, d, grows ? std::copysign(kInf, further) : further);
          EXPECT_EQ(difference(dx, right, {8 * tolerance(d), 1e-200}), "")
              << "at " << sign << " inf";
          if (HasFailure()) return;
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Ops, RegistryRange, testing::ValuesIn(every_op()),
                         [](const auto& p) { return p.param->name; });

}  // namespace
}  // namespace locus::test
