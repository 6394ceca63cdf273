// 16-bit gradients of several steps equal those of f64, although the steps leave the range of f16.
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include <locus/core/autograd.h>
#include <locus/core/op.h>
#include <locus/ops/activation.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/reduce.h>
#include <locus/ops/softmax.h>
#include <locus/ops/softmax/softmax_kernel.h>
#include <locus/ops/trigonometry.h>
#include "tests/tape/gradcheck.h"

namespace locus::test {
namespace {

using Function = std::function<Tensor(const Tensors&)>;

// The gradients of f at `in` with head gradients `head`.
Tensors slopes(const Function& f, const Tensors& in, double head) {
  for (const Tensor& t : in) t.attach_grad();
  Tensor y;
  {
    const autograd::Record record;
    y = f(in);
  }
  y.backward({.head_gradient = full(y.shape(), head, {y.context(), y.dtype()})});
  Tensors all;
  for (const Tensor& t : in) all.push_back(t.grad());
  return all;
}

void expect_as_in_f64(const char* what, const Function& f, const Tensors& in, double head) {
  for (DType d : {f16, bf16}) {
    SCOPED_TRACE(std::string(what) + " " + name(d));
    Tensors narrow, wide;
    for (const Tensor& t : in) {
      narrow.push_back(t.astype(d));
      wide.push_back(narrow.back().astype(f64));
    }
    const Tensors got = slopes(f, narrow, head), right = slopes(f, wide, head);
    for (size_t i = 0; i < in.size(); ++i) {
      const std::vector<double> is = values(got[i]), wanted = values(right[i]);
      for (size_t k = 0; k < is.size(); ++k)
        EXPECT_NEAR(is[k], wanted[k], (d == f16 ? .01 : .04) * std::abs(wanted[k]) + 1e-7) << k;
    }
  }
}

TEST(GradientSteps, OfReductionsAreThoseOfF64) {
  const auto row = [](std::vector<double> v) {
    return Tensors{array(v, {static_cast<int64_t>(v.size())}, f64)};
  };
  const auto of = [](Tensor (*f)(const Tensor&, const VarOptions&, Caller)) {
    return [f](const Tensors& in) { return f(in[0], {}, Caller::here()); };
  };
  expect_as_in_f64("var", of(var), row({1, 2, 4, 1}), 40000);
  expect_as_in_f64("var of close numbers", of(var), row({100, 101, 100, 100}), 1024);
  expect_as_in_f64("std", of(locus::std), row({40000, -40000, -40000, 40000}), 1024);
  const auto prod_of = [](const Tensors& in) { return prod(in[0]); };
  expect_as_in_f64("prod", prod_of, row({100, 200, 2}), 2);
  const auto sum_of = [](const Tensors& in) { return logsumexp(in[0]); };
  expect_as_in_f64("logsumexp", sum_of, row({0, -18, -20}), 32768);
  for (double ord : {2., 3.})
    expect_as_in_f64(
        "norm", [ord](const Tensors& in) { return norm(in[0], {.ord = ord}); },
        row({.0009765625, 16384, -2}), 32768);
}

TEST(GradientSteps, OfSoftmaxAreThoseOfF64) {
  const auto gradient = [](const char* op) {
    return [op](const Tensors& in) {
      return invoke(get_op(op), {in[0], in[1]}, SoftmaxAttrs{0, 1});
    };
  };
  const Tensor dy = array({300., 0.}, f64);
  expect_as_in_f64("softmax", gradient("softmax_grad"), {array({.25, .75}, f64), dy}, 300);
  expect_as_in_f64("log_softmax", gradient("log_softmax_grad"),
                   {array({-18., -.7}, f64), array({16., 0.}, f64)}, 2048);
}

TEST(GradientSteps, OfSecondOrderAreThoseOfF64) {
  const auto second = [](Tensor (*f)(const Tensor&, Caller)) {
    return [f](const Tensors& in) {
      return autograd::grad(f(in[0], Caller::here()), {in[0]}, {.create_graph = true})[0];
    };
  };
  const Tensors x{array({-9., -4., .125, 2., 300., 40000.}, f64)};
  expect_as_in_f64("arcsinh", second(arcsinh), x, 32768);
  expect_as_in_f64("arctan", second(arctan), x, 32768);
  expect_as_in_f64("softsign", second(softsign), x, 32768);
}

}  // namespace
}  // namespace locus::test
