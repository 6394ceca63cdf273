// Kernels with gradient kernels: against differences and the ops of Locus, with broadcasts, numbers
// and raw inputs, and in the places where gradients are used.
#include <cmath>

#include <locus/core/autograd.h>
#include <locus/core/compile.h>
#include <locus/core/recompute.h>
#include <locus/ops/allclose.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/kernels.h>
#include <locus/ops/reduction_kernels.h>
#include <locus/ops/trigonometry.h>
#include <locus/ops/unary.h>
#include <locus/ops/view.h>

#include "tests/support/contexts.h"
#include "tests/support/expect_line.h"

namespace locus {
namespace {

using test::contexts;
using test::message_of;
using test::values;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

// z = x^2 y + w, differentiable as often as one likes.
ElementwiseKernel polynomial() {
  const ElementwiseKernel second("T x, T y, T dz, T ddx, T ddy", "T dx, T dy, T ddz",
                                 "dx = 2 * dz * (y * ddx + x * ddy); dy = 2 * x * dz * ddx;"
                                 "ddz = 2 * x * y * ddx + x * x * ddy;",
                                 "second");
  const ElementwiseKernel first("T x, T y, T dz", "T dx, T dy, T dw",
                                "dx = 2 * x * y * dz; dy = x * x * dz; dw = dz;", "first");
  return ElementwiseKernel("T x, T y, T w", "T z", "z = x * x * y + w;", "polynomial")
      .with_gradient(first);
}

TEST(KernelGradient, EqualsDifferences) {
  const ElementwiseKernel k = polynomial();
  for (Context c : contexts()) {
    const Tensor x = array({{0.5, -1.0}, {2.0, 1.5}}, {c, f64}),
                 y = array({{1.0, 2.0}, {-0.5, 3.0}}, {c, f64}), w = zeros({2, 2}, {c, f64});
    for (const Tensor& t : {x, y, w}) t.attach_grad();
    {
      const autograd::Record record;
      sum(sin(k(x, y, w))).backward();
    }
    for (const Tensor& t : {x, y, w})
      for (int i : {0, 1})
        for (int j : {0, 1}) {
          constexpr double h = 1e-5;
          const auto at = [&](double by) {
            t(i, j) += by;
            const double v = sum(sin(k(x, y, w))).item<double>();
            t(i, j) -= by;
            return v;
          };
          EXPECT_NEAR(t.grad()(i, j).item<double>(), (at(h) - at(-h)) / (2 * h), 1e-6);
        }
  }
}

TEST(KernelGradient, InputsThatBroadcastGetSums) {
  const ElementwiseKernel k = polynomial();
  for (Context c : contexts())
    for (DType d : {f32, f16}) {
      const Tensor x = arange(3, {c, d}) + 1, y = ones({2, 1}, {c, d}), w = full({}, 2, {c, d});
      for (const Tensor& t : {x, y, w}) t.attach_grad();
      const autograd::Record record;
      const Tensor z = k(x, y, w);
      EXPECT_EQ(z.shape(), Shape({2, 3}));
      z.backward();
      EXPECT_THAT(values(x.grad()), ElementsAre(4, 8, 12));
      EXPECT_THAT(values(y.grad()), ElementsAre(14, 14));
      EXPECT_EQ(y.grad().shape(), Shape({2, 1}));
      EXPECT_EQ(y.grad().dtype(), d);
      EXPECT_THAT(values(w.grad()), ElementsAre(6));
    }
}

TEST(KernelGradient, ReadsOutputsNumbersAndRawInputs) {
  const ElementwiseKernel gradient("T z, T dz, T scale, raw T table, int64 at, T dm", "T dx",
                                   "dx = scale * z * dz + table[at] * dm;", "of_exponential");
  const auto k = ElementwiseKernel("T x, T scale, raw T table, int64 at", "T z, T m",
                                   "z = exp(scale * x); m = table[at] * x;", "exponential")
                     .with_gradient(gradient);
  for (Context c : contexts()) {
    const Tensor x = array({0.0f, 1.0f}, c), table = array({3.0f, 5.0f}, c),
                 at = array({1, 0}, {c, i64});
    x.attach_grad();
    const autograd::Record record;
    const Tensors out = k.run({x, 0.5, table, at});
    const Tensors first = autograd::grad(out[0], {x}, {.retain_graph = true});
    EXPECT_NEAR(values(first[0])[1], .5 * std::exp(.5), 1e-6);
    EXPECT_THAT(values(autograd::grad(out[1], {x})[0]), ElementsAre(5, 3));
  }
}

TEST(KernelGradient, OfGradients) {
  const ElementwiseKernel second("T x, T dz, T ddx", "T dx, T ddz",
                                 "dx = 2 * dz * ddx; ddz = 2 * x * ddx;", "second_of_square");
  const auto first =
      ElementwiseKernel("T x, T dz", "T dx", "dx = 2 * x * dz;", "of_square").with_gradient(second);
  const auto square =
      ElementwiseKernel("T x", "T z", "z = x * x;", "my_square").with_gradient(first);
  for (Context c : contexts()) {
    const Tensor x = array({1.0f, 3.0f}, c);
    x.attach_grad();
    const autograd::Record record;
    const Tensor z = square(square(x));  // x^4
    const Tensor dx = autograd::grad(z, {x}, {.create_graph = true})[0];
    EXPECT_THAT(values(dx), ElementsAre(4, 108));
    EXPECT_THAT(values(autograd::grad(dx, {x})[0]), ElementsAre(12, 108));
  }
}

TEST(KernelGradient, AddsRecomputesAndCompiles) {
  const ElementwiseKernel k = polynomial();
  for (Context c : contexts()) {
    const Tensor x = array({1.0f, 2.0f}, c), y = array({3.0f, 4.0f}, c);
    x.attach_grad(GradReq::add);
    const auto part = [&](const Tensors& in) { return Tensors{k(in[0], y, 0) + in[0]}; };
    {
      const autograd::Record record;
      k(x, y, 1).backward();
      autograd::recompute(part, {x}, {})[0].backward();
    }
    EXPECT_THAT(values(x.grad()), ElementsAre(13, 33));
    Compiled f([&](const Tensors& in) {
      in[0].attach_grad();
      const autograd::Record record;
      return autograd::grad(k(in[0], y, 1), {in[0]});
    });
    for (float s : {1.0f, 2.0f, 3.0f})
      EXPECT_THAT(values(f({array({s, 2 * s}, c)})[0]), ElementsAre(6 * s, 16 * s));
  }
}

TEST(KernelGradient, OfReductions) {
  const ElementwiseKernel gradient(
      "T x, T y, T w, T dy", "T dx, T dw",
      "dx = y == 0 ? 0 : x * w / y * dy; dw = y == 0 ? 0 : x * x / (2 * y) * dy;",
      "of_weighted_norm");
  const auto k =
      ReductionKernel("T x, T w", "T y", "w * x * x", "a + b", "y = sqrt(a)", "0", "weighted_norm")
          .with_gradient(gradient);
  const auto total = ReductionKernel("T x", "T y", "x", "a + b", "y = a", "0", "total")
                         .with_gradient({"T dy", "T dx", "dx = dy;", "of_total"});
  for (Context c : contexts())
    for (const ReduceOptions& o :
         {ReduceOptions{}, {.axis = 0}, {.axis = {1, 2}}, {.axis = -1, .keepdims = true}}) {
      const Tensor x = arange(24, {c, f64}).reshape({2, 3, 4}),
                   w = array({1.0, 2.0, 0.5, 3.0}, {c, f64});
      Tensors dx, dw;
      for (bool user : {true, false}) {
        x.attach_grad();
        w.attach_grad();
        const autograd::Record record;
        const Tensor y = user ? k(x, w, o) : sqrt(sum(w * x * x, o)),
                     z = user ? total(x, o) : sum(x, o);
        const Tensor head = sum(y * y * y) + sum(z * y);
        head.backward();
        dx.push_back(x.grad().clone());
        dw.push_back(w.grad().clone());
      }
      EXPECT_TRUE(allclose(dx[0], dx[1]));
      EXPECT_TRUE(allclose(dw[0], dw[1]));
    }
}

TEST(KernelGradient, IntegersHaveNone) {
  const ElementwiseKernel gradient("U n1, T dz", "T dx, U dn1", "dx = n1 * dz; dn1 = 0;",
                                   "of_times");
  const auto k =
      ElementwiseKernel("T x, U n1", "T z", "z = x * n1;", "times").with_gradient(gradient);
  for (Context c : contexts()) {
    const Tensor x = ones({2}, c), n = array({3, 4}, {c, i32});
    x.attach_grad();
    const autograd::Record record;
    k(x, n).backward();
    EXPECT_THAT(values(x.grad()), ElementsAre(3, 4));
  }
}

TEST(KernelGradient, NamesThatDoNotMatch) {
  const ElementwiseKernel k("T x, raw T w", "T z", "z = x * w[0];", "k");
  const auto refused = [&](const char* in, const std::string& out) {
    const std::string body = "(void)" + out.substr(out.rfind(' ') + 1);
    return message_of<ValueError>(
        [&] { k.with_gradient(ElementwiseKernel(in, out, body, "gradient")); });
  };
  EXPECT_THAT(
      refused("T x, T dz", "T dy"),
      AllOf(StartsWith("k: the gradient kernel gradient: the output \"T dy\" is the gradient"),
            HasSubstr("expected d and the name of one of T x, raw T w")));
  EXPECT_THAT(refused("T x, T dz", "T dz2"), HasSubstr("is the gradient of no input"));
  EXPECT_THAT(refused("T y, T dz", "T dx"),
              HasSubstr("the input \"T y\" is neither an operand nor"));
  EXPECT_THAT(refused("T dx, T dz", "T x1"), HasSubstr("the input \"T dx\" is neither"));
  EXPECT_THAT(refused("T x", "T dx"), HasSubstr("has no gradient of an output among its inputs"));
  EXPECT_THAT(refused("T dz", "T dw"), HasSubstr("belongs to a raw input"));
  EXPECT_THAT(refused("raw T dz, T x", "T dx"), HasSubstr("the gradient \"raw T dz\" is raw"));
  EXPECT_THAT(refused("T dz", "raw T dx"), HasSubstr("an output is raw"));
  const ElementwiseKernel pointers("float* x", "x[i] = 0;", "pointers");
  EXPECT_THAT(message_of<ValueError>([&] { k.with_gradient(pointers); }),
              HasSubstr("kernels with one list of parameters have no roles"));
  EXPECT_NAMES_ITS_LINE(k.with_gradient(pointers));
}

TEST(KernelGradient, MissingGradientsAreErrors) {
  const ElementwiseKernel gradient("T y, T dz", "T dx", "dx = y * dz;", "of_x");
  const ElementwiseKernel plain("T x, T y", "T z", "z = x * y;", "product");
  const ElementwiseKernel k = plain.with_gradient(gradient);
  EXPECT_EQ(&k.name(), &plain.with_gradient(gradient).name());
  EXPECT_NE(&k.name(), &plain.name());
  const Tensor x = ones({2}), y = full({2}, 3);
  x.attach_grad();
  {
    const autograd::Record record;
    k(x, y).backward();
    EXPECT_THAT(values(x.grad()), ElementsAre(3, 3));
    EXPECT_THAT(message_of<Error>([&] { plain(x, y).backward(); }), HasSubstr("has no gradient"));
  }
  y.attach_grad();
  const autograd::Record record;
  EXPECT_THAT(
      message_of<Error>([&] { k(x, y).backward(); }),
      HasSubstr("product: y needs a gradient, and the gradient kernel of_x has no output dy"));
  EXPECT_THROW(k(x, y, zeros({2})), Error);
}

}  // namespace
}  // namespace locus
