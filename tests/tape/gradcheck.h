// Compares gradients with finite differences, for any op or function of tensors.
#pragma once

#include <cmath>
#include <functional>

#include <locus/core/autograd.h>
#include <locus/core/op.h>
#include <locus/core/tape/tape.h>
#include "tests/support/contexts.h"

namespace locus::test {

using Function = std::function<Tensors(const Tensors&)>;

inline Tensor from_values(const std::vector<double>& v, const Shape& shape, Context c,
                          DType dtype) {
  Tensor host = allocate(cpu(), make_meta(f64, shape));
  std::copy(v.begin(), v.end(), static_cast<double*>(host.data_ptr()));
  Tensor there = allocate(c, make_meta(dtype, shape));
  host.copyto(there);
  return there;
}

// Fixed irregular weights, so that a wrong permutation of gradients does not cancel.
inline std::vector<double> weights(int64_t n, int variant) {
  std::vector<double> w(static_cast<size_t>(n));
  for (size_t i = 0; i < w.size(); ++i)
    w[i] = std::sin(1.7 * static_cast<double>(i) + variant) + 0.3;
  return w;
}

inline double weighted_sum(const Tensors& outputs) {
  double sum = 0;
  for (size_t k = 0; k < outputs.size(); ++k) {
    if (!outputs[k].defined() || !is_floating(outputs[k].dtype())) continue;
    const std::vector<double> v = values(outputs[k]), w = weights(outputs[k].size(), int(k));
    for (size_t i = 0; i < v.size(); ++i) sum += v[i] * w[i];
  }
  return sum;
}

inline bool varies(const Tensor& x) { return is_floating(x.dtype()); }

// The gradients of scale * weighted_sum(f(x)) with respect to the floating inputs, by autograd;
// undefined if f does not depend on the input.
inline Tensors gradients(const Function& f, const Tensors& x, bool create_graph = false,
                         double scale = 1) {
  Tensors variables, heads;
  autograd::GradOptions options;
  options.create_graph = create_graph;
  {
    const autograd::Record record;
    Tensors inputs = x;
    for (Tensor& t : inputs) {
      if (!varies(t)) continue;
      if (!create_graph || !t.has_grad()) t.attach_grad();
      variables.push_back(t);
    }
    int k = -1;
    for (const Tensor& out : f(inputs)) {
      ++k;
      if (!out.defined() || !is_floating(out.dtype()) || !needs_grad(out.impl())) continue;
      std::vector<double> head = weights(out.size(), k);
      for (double& h : head) h *= scale;
      options.head_gradients.push_back(from_values(head, out.shape(), out.context(), out.dtype()));
      heads.push_back(out);
    }
  }
  options.allow_unused = true;
  if (heads.empty()) return Tensors(variables.size());
  return autograd::grad(heads, variables, options);
}

// Central differences of g(x) with respect to every element of x[k].
inline std::vector<double> differences(const std::function<double(const Tensors&)>& g,
                                       const Tensors& x, size_t k, double step = 1e-5) {
  std::vector<double> base = values(x[k]), slope(base.size());
  for (size_t i = 0; i < base.size(); ++i) {
    const auto at = [&](double v) {
      std::vector<double> moved = base;
      moved[i] = v;
      Tensors inputs = x;
      inputs[k] = from_values(moved, x[k].shape(), x[k].context(), x[k].dtype());
      return g(inputs);
    };
    slope[i] = (at(base[i] + step) - at(base[i] - step)) / (2 * step);
  }
  return slope;
}

inline void expect_near(const std::vector<double>& got, const std::vector<double>& wanted,
                        double tolerance, const std::string& what) {
  ASSERT_EQ(got.size(), wanted.size()) << what;
  for (size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(wanted[i]) || std::isinf(wanted[i])) {
      EXPECT_TRUE(std::isnan(wanted[i]) ? std::isnan(got[i]) : got[i] == wanted[i])
          << what << "[" << i << "]: " << got[i] << ", expected " << wanted[i];
    } else {
      EXPECT_NEAR(got[i], wanted[i], tolerance * (1 + std::abs(wanted[i])))
          << what << "[" << i << "]";
    }
    if (::testing::Test::HasFailure()) return;
  }
}

// Compares f's gradients and, if `second`, the gradients of its gradients with finite differences.
// Inputs are f64.
inline void check_gradients(const Function& f, const Tensors& x, bool second = true,
                            double tolerance = 1e-6) {
  const auto check = [&](const Function& g, const Tensors& got, double tol, const char* what) {
    size_t k = 0;
    for (size_t i = 0; i < x.size() && !::testing::Test::HasFailure(); ++i) {
      if (!varies(x[i])) continue;
      const Tensor& dx = got[k++];
      expect_near(dx.defined() ? values(dx) : std::vector<double>(size_t(x[i].size()), 0.0),
                  differences([&](const Tensors& in) { return weighted_sum(g(in)); }, x, i), tol,
                  what + std::to_string(i));
    }
  };
  check(f, gradients(f, x), tolerance, "gradient of input ");
  if (!second) return;
  const Function recorded = [&f](const Tensors& in) { return gradients(f, in, true); };
  const Function plain = [&f](const Tensors& in) { return gradients(f, in); };
  check(plain, gradients(recorded, x), 20 * tolerance, "second gradient of input ");
}

}  // namespace locus::test
