#include <cmath>
#include <string>

#include <locus/core/op.h>
#include <locus/ops/compare.h>
#include <locus/ops/create.h>
#include <locus/ops/dense.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/view.h>
#include "tests/support/contexts.h"
#include "tests/tape/gradcheck.h"

namespace locus {
namespace {

using test::values;

struct Layer {
  Layer(Context c, DType d, int64_t rows, int64_t inputs, int64_t units)
      : x(sample_values(c, d, {rows, inputs})),
        w(sample_values(c, d, {units, inputs}, -2, 2, 1)),
        b(sample_values(c, d, {units}, -2, 2, 2)) {}
  Tensor x, w, b;
};

std::vector<double> reference(const Tensor& x, const Tensor& w, const Tensor& b, bool relu) {
  const int64_t rows = x.shape()[0], inputs = x.shape()[1], units = w.shape()[0];
  const std::vector<double> xs = values(x), ws = values(w);
  const std::vector<double> bs =
      b.defined() ? values(b) : std::vector<double>(static_cast<size_t>(units));
  std::vector<double> y;
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < units; ++j) {
      double sum = bs[static_cast<size_t>(j)];
      for (int64_t k = 0; k < inputs; ++k)
        sum += xs[static_cast<size_t>(i * inputs + k)] * ws[static_cast<size_t>(j * inputs + k)];
      y.push_back(relu && sum < 0 ? 0 : sum);
    }
  return y;
}

double tolerance(DType d, int64_t inputs) {
  const double unit = d == f64 ? 1e-13 : d == f32 ? 1e-6 : d == f16 ? 1e-3 : 8e-3;
  return unit * (4 + static_cast<double>(inputs));
}

TEST(DenseTest, IsAProductWithBiasAndRelu) {
  const int64_t shapes[][3] = {{1, 1, 1},     {5, 3, 2},     {64, 784, 256}, {64, 256, 128},
                               {64, 128, 10}, {33, 65, 127}, {2, 0, 3},      {300, 20, 50}};
  for (Context c : test::contexts())
    for (DType d : {f32, f64, f16, bf16})
      for (const auto& [rows, inputs, units] : shapes) {
        SCOPED_TRACE(to_string(c) + " " + name(d) + to_string(Shape{rows, inputs, units}));
        const Layer l(c, d, rows, inputs, units);
        for (bool bias : {false, true})
          for (bool relu : {false, true}) {
            const Tensor b = bias ? l.b : Tensor();
            const Tensor y =
                dense(l.x, l.w, b, relu ? FusedActivation::relu : FusedActivation::none);
            EXPECT_EQ(y.shape(), (Shape{rows, units}));
            EXPECT_EQ(y.dtype(), d);
            test::expect_near(values(y), reference(l.x, l.w, b, relu), tolerance(d, inputs), "y");
          }
      }
}

TEST(DenseTest, FlattensOrKeepsLeadingAxes) {
  for (Context c : test::contexts()) {
    const Tensor x = sample_values(c, f64, {4, 2, 3});
    const Tensor wide = sample_values(c, f64, {5, 6}), narrow = sample_values(c, f64, {5, 3});
    const Tensor flat = dense(x, wide);
    EXPECT_EQ(flat.shape(), (Shape{4, 5}));
    EXPECT_EQ(values(flat), values(dense(x.reshape({4, 6}), wide)));
    const Tensor last = dense(x, narrow, {}, FusedActivation::none, false);
    EXPECT_EQ(last.shape(), (Shape{4, 2, 5}));
    EXPECT_EQ(values(last), values(dense(x.reshape({8, 3}), narrow)));
    EXPECT_EQ(dense(x(0, 0), narrow, {}, FusedActivation::none, false).shape(), (Shape{5}));
  }
}

TEST(DenseTest, ReadsTransposedOperands) {
  for (Context c : test::contexts()) {
    const Tensor x = sample_values(c, f32, {7, 6}).T(), w = sample_values(c, f32, {7, 3}).T();
    test::expect_near(values(dense(x, w)), reference(x, w, {}, false), 1e-5, "y");
  }
}

TEST(DenseTest, RefusesIntegers) {
  const Tensor w = ones({3, 2}), images = ones({4, 2}).astype(u8);
  EXPECT_THAT(
      test::message_of<DTypeError>([&] { dense(images, w); }),
      testing::StartsWith("dense: data cpu(0) (4,2) u8, weight cpu(0) (3,2) f32: expected "
                          "floating operands, got data of u8; cast it: data.astype(f32), or "
                          "images with data::transforms::ToTensor()"));
  EXPECT_THROW(dense(ones({4, 2}), w, ones({3}).astype(i32)), DTypeError);
}

TEST(DenseTest, NanPassesRelu) {
  for (Context c : test::contexts()) {
    const Tensor x = array({{std::nan("")}, {-1.0}, {2.0}}, {c, f32});
    const std::vector<double> y = values(dense(x, ones({1, 1}, c), {}, FusedActivation::relu));
    EXPECT_TRUE(std::isnan(y[0]));
    EXPECT_EQ(y[1], 0);
    EXPECT_EQ(y[2], 2);
  }
}

TEST(DenseTest, OnlyReluKeepsItsResult) {
  const Tensor x = ones({2, 3}), w = ones({4, 3});
  w.attach_grad();
  for (const FusedActivation activation : {FusedActivation::none, FusedActivation::relu}) {
    Tensor y;
    {
      const autograd::Record record;
      y = dense(x, w, Tensor(), activation);
    }
    y += 1;
    if (activation == FusedActivation::relu)
      EXPECT_THROW(y.backward(), Error);
    else
      EXPECT_NO_THROW(y.backward());
  }
}

// As the relu op does, by each algorithm.
TEST(DenseTest, TheGradientPassesNanInRelu) {
  for (Context c : test::contexts())
    for (DType d : {f32, f64, f16})
      for (int64_t units : {1, 700})
        for (bool create_graph : {false, true}) {
          const Tensor x = array({{std::nan("")}, {-1.0}, {2.0}}, {c, d}),
                       b = zeros({units}, {c, d});
          b.attach_grad();
          autograd::GradOptions options;
          options.create_graph = create_graph;
          {
            const autograd::Record record;
            const Tensor y = dense(x, ones({units, 1}, {c, d}), b, FusedActivation::relu);
            const Tensor dy = array({{1.0}, {10.0}, {100.0}}, {c, d});
            options.head_gradients = {dy * ones({units}, {c, d})};
            const Tensor g = autograd::grad(y, {b}, options)[0];
            EXPECT_EQ(values(g), std::vector<double>(static_cast<size_t>(units), 101));
          }
        }
}

// The fused backward op against the formulas, on shapes for each of its paths.
TEST(DenseTest, BackwardIsThreeSumsOfTheMaskedGradient) {
  const int64_t shapes[][3] = {{1, 1, 1}, {64, 128, 10}, {64, 256, 128}, {33, 65, 127},
                               {0, 3, 2}, {3, 0, 2},     {700, 9, 5},    {5000, 40, 600}};
  for (Context c : test::contexts())
    for (DType d : {f32, f64, f16})
      for (const auto& [rows, inputs, units] : shapes) {
        if (rows == 5000 && d != f32) continue;
        SCOPED_TRACE(to_string(c) + " " + name(d) + to_string(Shape{rows, inputs, units}));
        const Layer l(c, d, rows, inputs, units);
        const Tensor dy = sample_values(c, d, {rows, units}, -1, 1, 3);
        const Tensor y = sample_values(c, d, {rows, units}, -1, 1, 4);
        for (bool relu : {false, true}) {
          const Ref in[] = {dy, l.x, l.w, y};
          const DenseBackwardAttrs attrs{relu, true, true, true};
          const Tensors got =
              invoke_all(get_op("dense_backward"), std::span(in, relu ? 4 : 3), attrs);
          const Tensor dz = relu ? dy * (y > 0).astype(d) : dy;
          const auto wide = [](const Tensor& x) { return x.astype(f64); };
          const Tensor dx = dot(wide(dz), wide(l.w)), dw = dot(wide(dz).T(), wide(l.x));
          const Tensor db = dot(ones({rows}, {c, f64}), wide(dz));
          test::expect_near(values(got[0]), values(dx), tolerance(d, units), "dx");
          test::expect_near(values(got[1]), values(dw), tolerance(d, rows), "dw");
          test::expect_near(values(got[2]), values(db), tolerance(d, rows), "db");
        }
      }
}

TEST(DenseTest, BackwardComputesWhatIsAskedFor) {
  for (Context c : test::contexts())
    for (DType d : {f32, f64}) {
      const Layer l(c, d, 6, 5, 4);
      const Tensor dy = sample_values(c, d, {6, 4}, -1, 1, 3),
                   y = sample_values(c, d, {6, 4}, -1, 1, 4);
      const Ref in[] = {dy, l.x, l.w, y};
      const auto run = [&](DenseBackwardAttrs attrs) {
        return invoke_all(get_op("dense_backward"), std::span(in, 4), attrs);
      };
      const Tensors all = run({true, true, true, true});
      for (int asked = 0; asked < 8; ++asked) {
        const bool want[] = {(asked & 1) != 0, (asked & 2) != 0, (asked & 4) != 0};
        const Tensors got = run({true, want[0], want[1], want[2]});
        for (size_t i = 0; i < 3; ++i) {
          if (want[i])
            test::expect_near(values(got[i]), values(all[i]), 1e-6, "output " + std::to_string(i));
          else
            EXPECT_EQ(got[i].size(), 0);
        }
      }
    }
}

TEST(DenseTest, GradientsOfBothOrders) {
  for (Context c : test::contexts()) {
    SCOPED_TRACE(to_string(c));
    const Layer l(c, f64, 3, 4, 2);
    for (FusedActivation activation : {FusedActivation::none, FusedActivation::relu}) {
      const auto layer = [activation](const Tensors& in) {
        return Tensors{dense(in[0], in[1], in.size() > 2 ? in[2] : Tensor(), activation)};
      };
      test::check_gradients(layer, {l.x, l.w, l.b});
      test::check_gradients(layer, {l.x, l.w});
      test::check_gradients(
          [&](const Tensors& in) {
            return layer({in[0].reshape({3, 2, 2}), in[1], in[2]});
          },
          {l.x, l.w, l.b});
    }
  }
}

TEST(DenseTest, GradientsOfSomeOperandsOnly) {
  for (Context c : test::contexts()) {
    const Layer l(c, f32, 8, 5, 3);
    l.w.attach_grad();
    Tensor y;
    {
      const autograd::Record record;
      y = dense(l.x, l.w, l.b, FusedActivation::relu);
    }
    y.backward();
    const Tensor mask = (y > 0).astype(f32);
    test::expect_near(values(l.w.grad()), values(dot(mask.T(), l.x)), 1e-5, "dw");
    EXPECT_FALSE(l.b.has_grad());
  }
}

TEST(DenseTest, ErrorsNameTheShapes) {
  const Tensor x = zeros({2, 3}), w = zeros({4, 5});
  const std::string text = test::message_of<ShapeError>([&] { dense(x, w); });
  EXPECT_THAT(text, testing::HasSubstr("(4,5)"));
  EXPECT_THAT(text, testing::HasSubstr("(2,3)"));
  EXPECT_THROW(dense(x, zeros({4, 3}), zeros({3})), ShapeError);
  EXPECT_THROW(dense(zeros({3}), zeros({4, 3})), ShapeError);
  EXPECT_THROW(dense(zeros({2, 3}, i32), zeros({4, 3}, i32)), DTypeError);
  EXPECT_THROW(dense(x, zeros({4, 3}, cpu(1))), ContextMismatch);
}

}  // namespace
}  // namespace locus
