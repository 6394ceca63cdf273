// Gradients of fused functions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <locus/core/amp.h>
#include <locus/core/autograd.h>
#include <locus/core/error.h>
#include <locus/ops/activation.h>
#include <locus/ops/compare.h>
#include <locus/ops/copy.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/fuse.h>
#include <locus/ops/random.h>
#include <locus/ops/reduce.h>
#include <locus/ops/trigonometry.h>
#include <locus/ops/unary.h>
#include <locus/ops/view.h>

#include "tests/fuse/same.h"
#include "tests/support/contexts.h"

namespace locus {
namespace {

using random::uniform;
using test::expect_close;
using test::expect_same;
using test::kernel_contexts;
using test::message_of;
using testing::HasSubstr;

// The gradients of sum(weights * f(in)) for all inputs.
template <class F>
Tensors gradients(const F& f, const Tensors& in, const Tensor& weights) {
  Tensors leaves;
  for (const Tensor& t : in) {
    leaves.push_back(t.copyto(t.context()));
    leaves.back().attach_grad();
  }
  Tensor loss;
  {
    const autograd::Record record;
    loss = f(leaves);
  }
  autograd::backward({loss}, {.head_gradients = {weights}});
  Tensors all;
  for (const Tensor& t : leaves) all.push_back(t.grad());
  return all;
}

template <class F>
auto expect_same_gradients(const F& plain, const Tensors& in, const Tensor& weights,
                           void (*expect)(const Tensor&, const Tensor&) = &expect_same) {
  const Fused f = fuse(plain);
  const Tensors got = gradients(f, in, weights), wanted = gradients(plain, in, weights);
  for (size_t i = 0; i < in.size(); ++i) expect(got[i], wanted[i]);
  return f;
}

TEST(FuseGradient, HasTheBitsOfTheOpsGradients) {
  for (const Context c : kernel_contexts())
    for (const DType d : {f32, f64, f16, bf16}) {
      const auto plain = [](const Tensors& in) {
        const Tensor &x = in[0], &y = in[1];
        return tanh(x * y) + exp(x) / (y + 4) + where(x > y, x * 2, sigmoid(y)) + gelu(x);
      };
      const auto draw = [&](double low, double high) {
        return uniform(low, high, {50, 7}, c).astype(d);
      };
      const Fused f = expect_same_gradients(plain, {draw(-2, 2), draw(-1, 3)}, draw(-1, 1));
      EXPECT_THAT(f.describe(), HasSubstr("gradient: "));
      EXPECT_THAT(f.describe(), testing::Not(HasSubstr("not fused"))) << f.describe();
      EXPECT_EQ(f.stats().kernels, 1u);
    }
}

TEST(FuseGradient, OfArgumentsThatAreBroadcastAlongColumnsIsSummedByAnOp) {
  for (const Context c : kernel_contexts()) {
    const auto plain = [](const Tensors& in) { return relu(in[0] * in[1] + in[2]) * in[0]; };
    const Tensors in = {uniform(-1, 1, {20, 6}, c), uniform(-1, 1, {6}, c),
                        uniform(-1, 1, {20, 1}, c)};
    // A kernel sums the one along rows.
    const Fused f = expect_same_gradients(plain, in, uniform(-1, 1, {20, 6}, c), &expect_close);
    EXPECT_THAT(f.describe(), HasSubstr("op sum_to, not fused"));
  }
}

TEST(FuseGradient, IsThatOfTheArgumentsThatNeedOne) {
  const Fused f = fuse([](const Tensor& x, const Tensor& y) { return x * y * y; });
  const Tensor x = arange(4) + 1, y = arange(4) + 2;
  y.attach_grad();
  {
    const autograd::Record record;
    const Tensor z = f(x, y);
    (z + y).backward();
  }
  expect_same(y.grad(), x * y + x * y + 1);
  EXPECT_FALSE(x.has_grad());
  expect_same(f(x, y), x * y * y);  // without a graph
  EXPECT_EQ(f.stats().traces, 2u);
}

TEST(FuseGradient, OfSomeResultsOnly) {
  const auto plain = [](const Tensor& x) {
    return std::tuple(exp(x), x > 0, x + 1, x.detach() * 2);
  };
  const Fused f = fuse(plain);
  const Tensor x = arange(5) - 2;
  x.attach_grad();
  for (int i = 0; i < 2; ++i) {
    const autograd::Record record;
    const auto [e, positive, more, apart] = f(x);
    EXPECT_EQ(positive.dtype(), bool_);
    if (i == 0)
      e.backward();
    else
      more.backward();
    expect_same(x.grad(), i == 0 ? exp(x.detach()) : ones({5}));
    EXPECT_THROW(apart.backward(), Error);
  }
}

TEST(FuseGradient, FlowsThroughChainsOfFusedFunctions) {
  const auto plain = [](const Tensor& x) { return sin(x) * x; };
  const Fused f = fuse(plain);
  const auto chain = [](const auto& g) {
    const Tensor x = arange(6) * .1;
    x.attach_grad();
    Tensor y;
    {
      const autograd::Record record;
      y = g(g(x) * 2);
    }
    y.backward();
    return x.grad();
  };
  expect_same(chain(f), chain(plain));
}

TEST(FuseGradient, OfAFunctionThatIsNotFusedIsThePlainOne) {
  const auto plain = [](const Tensors& in) { return in[0] * in[0].sum({.axis = 0}); };
  const Fused f = expect_same_gradients(plain, {uniform(-1, 1, {2, 6})}, uniform(-1, 1, {2, 6}));
  EXPECT_THAT(f.describe(), HasSubstr("needs a gradient, which would compute other ops again"));
  const Tensor w = arange(3) + 1;
  w.attach_grad();
  const Fused g = fuse([&](const Tensor& x) { return x * w; });
  {
    const autograd::Record record;
    g(arange(3)).backward();
  }
  expect_same(w.grad(), arange(3));
}

TEST(FuseGradient, HasNoGradientItself) {
  const Fused f = fuse([](const Tensor& x) { return x * x * x; }, "cube");
  const Tensor x = arange(3);
  x.attach_grad();
  const autograd::Record record;
  const Tensor y = f(x);
  EXPECT_THAT(message_of<Error>([&] { autograd::grad(y, {x}, {.create_graph = true}); }),
              HasSubstr("cube has no gradient itself"));
}

TEST(FuseGradient, InAScopeOfAmpIsThePlainOne) {
  const auto plain = [](const Tensors& in) { return exp(in[0]) * in[0]; };
  const Fused f = fuse(plain);
  const amp::Scope scope(f16);
  const Tensor x = uniform(-1, 1, {9}).astype(f16);
  expect_same(f({x}), plain({x}));
  EXPECT_EQ(f.stats().kernels, 1u);
  expect_same(gradients(f, {x}, ones({9}))[0], gradients(plain, {x}, ones({9}))[0]);
  EXPECT_THAT(f.describe(), HasSubstr("amp::Scope"));
}

}  // namespace
}  // namespace locus
