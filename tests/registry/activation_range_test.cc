// Activations at infinities and at the largest finite numbers: values and two orders of gradients.
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <locus/core/autograd.h>
#include <locus/nn/activation_layers.h>
#include <locus/ops/activation.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/trigonometry.h>
#include <locus/ops/unary.h>
#include "tests/support/contexts.h"

namespace locus::test {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

// Values and slopes at -inf (low) and inf (high).
struct Case {
  const char* name;
  Tensor (*op)(const Tensor&);
  double low, high, low_slope, high_slope;
  bool bends = true;  // the gradient depends on x
};
const Case kCases[] = {
    {"gelu", [](const Tensor& x) { return gelu(x); }, 0, kInf, 0, 1},
    {"silu", [](const Tensor& x) { return silu(x); }, 0, kInf, 0, 1},
    {"swish", [](const Tensor& x) { return swish(x, 2); }, 0, kInf, 0, 1},
    {"swish, beta -.5", [](const Tensor& x) { return swish(x, -.5); }, -kInf, 0, 1, 0},
    {"swish, beta 0", [](const Tensor& x) { return swish(x, 0); }, -kInf, kInf, .5, .5, false},
    {"mish", [](const Tensor& x) { return mish(x); }, 0, kInf, 0, 1},
    {"relu", [](const Tensor& x) { return relu(x); }, 0, kInf, 0, 1, false},
    {"sigmoid", [](const Tensor& x) { return sigmoid(x); }, 0, 1, 0, 0},
    {"tanh", [](const Tensor& x) { return tanh(x); }, -1, 1, 0, 0},
    {"softplus", [](const Tensor& x) { return softplus(x); }, 0, kInf, 0, 1},
    {"log_sigmoid", [](const Tensor& x) { return nn::log_sigmoid(x); }, -kInf, 0, 1, 0},
    {"softsign", [](const Tensor& x) { return softsign(x); }, -1, 1, 0, 0},
    {"erf", [](const Tensor& x) { return erf(x); }, -1, 1, 0, 0},
    {"leaky_relu", [](const Tensor& x) { return leaky_relu(x, .25); }, -kInf, kInf, .25, 1, false},
    {"elu", [](const Tensor& x) { return elu(x); }, -1, kInf, 0, 1},
    {"hard_sigmoid", [](const Tensor& x) { return hard_sigmoid(x); }, 0, 1, 0, 0, false},
    {"hard_swish", [](const Tensor& x) { return hard_swish(x); }, 0, kInf, 0, 1},
    {"smooth_l1", [](const Tensor& x) { return smooth_l1(x); }, kInf, kInf, -1, 1},
    {"clip", [](const Tensor& x) { return clip(x, -1, 6); }, -1, 6, 0, 0, false},
    {"softcap", [](const Tensor& x) { return softcap(x, 30); }, -30, 30, 0, 0},
    {"arctan", [](const Tensor& x) { return arctan(x); }, -std::acos(0.), std::acos(0.), 0, 0},
    {"arcsinh", [](const Tensor& x) { return arcsinh(x); }, -kInf, kInf, 0, 0},
};

void expect_at_ends(DType d, Context c, double end) {
  for (const Case& one : kCases) {
    SCOPED_TRACE(to_string(c) + " " + name(d) + " " + one.name + " at " + std::to_string(end));
    const Tensor x = array({-end, end}, {c, d});
    x.attach_grad();
    Tensor y, first, second;
    {
      const autograd::Record record;
      y = one.op(x);
      first = autograd::grad(y, {x}, {.create_graph = true})[0];
      second = one.bends ? autograd::grad(first.sum(), {x})[0] : zeros_like(x);
    }
    const std::vector<double> v = values(y), slope = values(first), bend = values(second);
    const double near = d == f64 ? 1e-15 : d == f32 ? 1e-6 : 1e-2;
    const double wanted[] = {one.low, one.high}, slopes[] = {one.low_slope, one.high_slope};
    for (size_t i = 0; i < 2; ++i) {
      if (std::isinf(end)) {
        EXPECT_TRUE(v[i] == wanted[i] || std::abs(v[i] - wanted[i]) < 60 * near);
      }
      EXPECT_FALSE(std::isnan(v[i]));
      EXPECT_NEAR(slope[i], slopes[i], near);
      EXPECT_NEAR(bend[i], 0, near);
    }
  }
}

TEST(Activations, HaveTheirLimitsAtInfinityAndTheLargestNumbers) {
  for (Context c : kernel_contexts()) {
    expect_at_ends(f64, c, std::numeric_limits<double>::max());
    expect_at_ends(f32, c, double{std::numeric_limits<float>::max()});
    expect_at_ends(f16, c, 65504);
    expect_at_ends(bf16, c, 0x1.fep127);
    for (DType d : {f64, f32, f16, bf16}) expect_at_ends(d, c, kInf);
  }
}

TEST(Activations, BendAsTheirSlopesChange) {
  const std::vector<double> at{-2.3, -.71, .44, 1.9, 7.};
  constexpr double kStep = 1e-5;
  for (Context c : kernel_contexts()) {
    for (const Case& one : kCases) {
      if (!one.bends) continue;
      SCOPED_TRACE(to_string(c) + " " + one.name);
      const auto slopes = [&](double shift) {
        std::vector<double> moved = at;
        for (double& v : moved) v += shift;
        const Tensor x = array(moved, {5}, {c, f64});
        x.attach_grad();
        const autograd::Record record;
        return values(autograd::grad(one.op(x), {x})[0]);
      };
      const Tensor x = array(at, {5}, {c, f64});
      x.attach_grad();
      const autograd::Record record;
      const Tensor first = autograd::grad(one.op(x), {x}, {.create_graph = true})[0];
      const std::vector<double> got = values(autograd::grad(first.sum(), {x})[0]),
                                below = slopes(-kStep), above = slopes(kStep);
      for (size_t i = 0; i < at.size(); ++i)
        EXPECT_NEAR(got[i], (above[i] - below[i]) / (2 * kStep), 1e-8) << at[i];
    }
  }
}

TEST(Activations, RefuseAttributesThatAreNotFinite) {
  const Tensor x = ones({2});
  for (double bad : {std::nan(""), kInf}) {
    EXPECT_THROW(swish(x, bad), ValueError);
    EXPECT_THROW(hard_sigmoid(x, bad, .5), ValueError);
    EXPECT_THROW(hard_sigmoid(x, .2, bad), ValueError);
    EXPECT_THROW(leaky_relu(x, bad), ValueError);
    EXPECT_THROW(elu(x, bad), ValueError);
    EXPECT_THROW(softcap(x, bad), ValueError);
    EXPECT_THROW(smooth_l1(x, bad), ValueError);
  }
}

TEST(Activations, TheLayerSwishIsItsFormula) {
  for (Context c : kernel_contexts())
    EXPECT_THAT(values(nn::Swish(2)(array({-kInf, -1., 0., 1e308, kInf}, {c, f64}))),
                testing::ElementsAre(0, testing::DoubleEq(-1 / (1 + std::exp(2))), 0, 1e308, kInf));
}

}  // namespace
}  // namespace locus::test
