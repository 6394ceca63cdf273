#include "tests/support/contexts.h"

#include <random>

#include <locus/core/autograd.h>
#include <locus/core/base/text.h>
#include <locus/core/op.h>
#include <locus/ops/convolution.h>
#include <locus/ops/copy.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/reduce.h>
#include <locus/ops/view.h>
#include "tests/tape/gradcheck.h"

namespace locus {
namespace {

using test::values;
using testing::HasSubstr;
using Values = std::vector<double>;

// A convolution of three spatial axes, channels first, one multiplication at a time.
struct Naive {
  int64_t n, groups, in, out;  // channels per group
  int64_t data[3], kernel[3], stride[3], padding[3], dilation[3];
  int64_t result[3];

  // each(x, w, y): flat indices of the elements of one multiplication.
  template <class F>
  void each(const F& f) const {
    for (int64_t i = 0; i < n; ++i)
      for (int64_t o = 0; o < groups * out; ++o)
        for (int64_t c = 0; c < in; ++c)
          for (int64_t y = 0; y < product(result); ++y)
            for (int64_t w = 0; w < product(kernel); ++w) {
              const int64_t at[3] = {y / (result[1] * result[2]), y / result[2] % result[1],
                                     y % result[2]};
              const int64_t tap[3] = {w / (kernel[1] * kernel[2]), w / kernel[2] % kernel[1],
                                      w % kernel[2]};
              int64_t x = 0;
              bool inside = true;
              for (int a = 0; a < 3; ++a) {
                const int64_t p = at[a] * stride[a] - padding[a] + tap[a] * dilation[a];
                inside = inside && p >= 0 && p < data[a];
                x = x * data[a] + p;
              }
              const int64_t channel = o / out * in + c;
              if (inside)
                f(static_cast<size_t>((i * groups * in + channel) * product(data) + x),
                  static_cast<size_t>((o * in + c) * product(kernel) + w),
                  static_cast<size_t>((i * groups * out + o) * product(result) + y));
            }
  }
  static int64_t product(const int64_t (&v)[3]) { return v[0] * v[1] * v[2]; }
};

// A random layer. The naive operands have channels first.
struct Case {
  int axes;
  bool last;
  Naive naive;
  Tensor x, w, b, dy;
  ConvolutionOptions options;

  static Tensor moved(const Tensor& t, bool to_last) {
    std::vector<int> axes{0};
    for (int a = 1; a < t.ndim(); ++a) axes.push_back(a);
    std::rotate(axes.begin() + 1, to_last ? axes.begin() + 2 : axes.end() - 1, axes.end());
    return contiguous(transpose(t, axes));
  }
  Values first(const Tensor& t) const { return values(last ? moved(t, false) : t); }
};

Extent extent(const int64_t (&v)[3], int axes) {
  const int64_t* p = v + 3 - axes;
  return axes == 1 ? Extent{p[0]} : axes == 2 ? Extent{p[0], p[1]} : Extent{p[0], p[1], p[2]};
}

// `image`: a typical convolution of images, with rows in fours.
Case draw(std::mt19937& random, Context c, DType d, bool image = false) {
  const auto pick = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  Case k;
  k.axes = static_cast<int>(pick(1, 3));
  k.last = pick(0, 1) == 1;
  Naive& v = k.naive;
  v.n = pick(1, 3);
  v.groups = pick(0, 2) == 0 ? pick(2, 4) : 1;
  v.in = pick(0, 3) == 0 ? 1 : pick(1, 5);
  v.out = pick(0, 3) == 0 ? 1 : pick(1, 14);
  for (int a = 0; a < 3; ++a) {
    const bool there = a >= 3 - k.axes;
    v.kernel[a] = there ? pick(1, 4) : 1;
    v.stride[a] = there && pick(0, 1) == 1 ? pick(1, 5) : 1;
    v.dilation[a] = there && pick(0, 2) == 0 ? pick(2, 3) : 1;
    v.padding[a] = there && pick(0, 1) == 1 ? pick(0, v.kernel[a] + 1) : 0;
    const int64_t span = (v.kernel[a] - 1) * v.dilation[a] + 1;
    const int64_t least = std::max<int64_t>(1, span - 2 * v.padding[a]);
    v.data[a] = there ? least + pick(0, k.axes == 3 ? 4 : k.axes == 2 ? 12 : 60) : 1;
    v.result[a] = (v.data[a] + 2 * v.padding[a] - span) / v.stride[a] + 1;
  }
  if (image) {
    k.axes = 2;
    k.last = false;
    v.n = pick(1, 6);
    v.in = pick(1, 6);
    v.out = pick(1, 25);
    v.data[0] = v.kernel[0] = v.stride[0] = v.dilation[0] = v.result[0] = 1, v.padding[0] = 0;
    for (int a = 1; a < 3; ++a) {
      v.kernel[a] = pick(1, 2) * 2 + 1;
      v.padding[a] = pick(0, v.kernel[a] / 2);
      v.dilation[a] = 1;
      v.stride[a] = pick(0, 2) == 0 ? pick(2, 6) : 1;
      v.result[a] = a == 1 ? pick(3, 12) : 4 * pick(2, 6);
      v.data[a] = (v.result[a] - 1) * v.stride[a] + v.kernel[a] - 2 * v.padding[a];
    }
  }
  const auto shape = [&](int64_t first, int64_t second, const int64_t(&rest)[3]) {
    std::vector<int64_t> dims{first, second};
    dims.insert(dims.end(), rest + 3 - k.axes, rest + 3);
    return Shape(dims);
  };
  const auto tensor = [&](const Shape& s, int variant) {
    const Tensor t = sample_values(c, d, s, -2, 2, variant);
    return k.last ? Case::moved(t, true) : t;
  };
  k.x = tensor(shape(v.n, v.groups * v.in, v.data), 0);
  k.w = tensor(shape(v.groups * v.out, v.in, v.kernel), 1);
  k.dy = tensor(shape(v.n, v.groups * v.out, v.result), 3);
  if (pick(0, 1) == 1) k.b = sample_values(c, d, {v.groups * v.out}, -2, 2, 2);
  static constexpr std::string_view kLayouts[3][2] = {
      {"NCW", "NWC"}, {"NCHW", "NHWC"}, {"NCDHW", "NDHWC"}};
  k.options = {extent(v.stride, k.axes),
               extent(v.padding, k.axes),
               extent(v.dilation, k.axes),
               v.groups,
               kLayouts[k.axes - 1][k.last],
               pick(0, 1) == 1 ? FusedActivation::relu : FusedActivation::none};
  return k;
}

double tolerance(DType d) { return d == f64 ? 1e-12 : d == f32 ? 1e-5 : d == f16 ? 4e-3 : 3e-2; }

void expect_close(const Values& got, const Values& wanted, DType d, const char* what) {
  ASSERT_EQ(got.size(), wanted.size()) << what;
  double largest = 1;
  for (double v : wanted) largest = std::max(largest, std::fabs(v));
  for (size_t i = 0; i < got.size(); ++i)
    ASSERT_NEAR(got[i], wanted[i], tolerance(d) * largest) << what << " at " << i;
}

// Compares the result and all gradients with the loops.
void check_case(const Case& k, DType d) {
  const Naive& v = k.naive;
  const Values x = k.first(k.x), w = k.first(k.w), dy = k.first(k.dy);
  const bool relu = k.options.activation == FusedActivation::relu;
  Values y(dy.size()), dx(x.size()), dw(w.size()), db(static_cast<size_t>(v.groups * v.out)), z;
  const auto channel = [&](size_t i) {
    return i / static_cast<size_t>(Naive::product(v.result)) % db.size();
  };
  if (k.b.defined()) {
    const Values b = values(k.b);
    for (size_t i = 0; i < y.size(); ++i) y[i] = b[channel(i)];
  }
  v.each([&](size_t xi, size_t wi, size_t yi) { y[yi] += x[xi] * w[wi]; });
  if (relu)
    for (double& e : y) e = std::max(e, 0.0);

  const Tensors variables = k.b.defined() ? Tensors{k.x, k.w, k.b} : Tensors{k.x, k.w};
  for (const Tensor& t : variables) t.attach_grad();
  Tensor out;
  {
    const autograd::Record record;
    out = convolution(k.x, k.w, k.b, k.options);
  }
  ASSERT_EQ(out.shape(), k.dy.shape());
  EXPECT_EQ(out.dtype(), d);
  expect_close(k.first(out), y, d, "y");

  z = dy;  // masked by the rounded result
  const Values mask = k.first(out);
  for (size_t i = 0; i < z.size(); ++i) z[i] = relu && mask[i] <= 0 ? 0 : dy[i];
  v.each([&](size_t xi, size_t wi, size_t yi) {
    dx[xi] += z[yi] * w[wi];
    dw[wi] += z[yi] * x[xi];
  });
  for (size_t i = 0; i < z.size(); ++i) db[channel(i)] += z[i];
  out.backward({.head_gradient = k.dy, .retain_graph = true});
  expect_close(k.first(k.x.grad()), dx, d, "dx");
  expect_close(k.first(k.w.grad()), dw, d, "dw");
  if (k.b.defined()) expect_close(values(k.b.grad()), db, d, "db");
  // With create_graph: ops that have gradients themselves.
  const Tensors composed =
      autograd::grad({out}, variables, {.head_gradients = {k.dy}, .create_graph = true});
  expect_close(k.first(composed[0]), dx, d, "composed dx");
  expect_close(k.first(composed[1]), dw, d, "composed dw");
  if (k.b.defined()) expect_close(values(composed[2]), db, d, "composed db");
}

TEST(Convolution, AgreesWithLoopsOverItsFormula) {
  std::mt19937 random(7);
  for (Context c : test::contexts())
    for (DType d : {f32, f64, f16, bf16})
      for (int i = 0; i < (d == f64 ? 60 : 20); ++i) {
        const Case k = draw(random, c, d);
        std::ostringstream text;
        text << c << " " << name(d) << " x " << k.x.shape() << " w " << k.w.shape() << " case "
             << i;
        SCOPED_TRACE(text.str());
        check_case(k, d);
        if (HasFatalFailure()) return;
      }
}

TEST(Convolution, OfImagesAgreesWithLoopsOverItsFormula) {
  std::mt19937 random(8);
  for (Context c : test::contexts())
    for (int i = 0; i < 30; ++i) {
      const Case k = draw(random, c, f32, true);
      SCOPED_TRACE(text_of(c, " x ", k.x.shape(), " w ", k.w.shape(), " case ", i));
      check_case(k, f32);
      if (HasFatalFailure()) return;
    }
}

// A 16-bit result is the sum of products exact in f32, rounded once.
TEST(Convolution, SixteenBitsAreRoundedOnce) {
  std::mt19937 random(11);
  for (Context c : test::contexts())
    for (DType d : {f16, bf16})
      for (int i = 0; i < 20; ++i) {
        Case k = draw(random, c, d);
        k.options.activation = FusedActivation::none;
        k.x.attach_grad(), k.w.attach_grad();
        Tensor out;
        {
          const autograd::Record record;
          out = convolution(k.x, k.w, {}, k.options);
        }
        out.backward({.head_gradient = k.dy});
        const Values x = k.first(k.x), w = k.first(k.w), dy = k.first(k.dy);
        // The sum, the sum of absolute values, and the number of terms.
        struct Sum {
          double value = 0, size = 0, terms = 0;
          void add(double v) { value += v, size += std::fabs(v), ++terms; }
        };
        std::vector<Sum> y(dy.size()), dx(x.size()), dw(w.size());
        k.naive.each([&](size_t xi, size_t wi, size_t yi) {
          y[yi].add(x[xi] * w[wi]);
          dx[xi].add(dy[yi] * w[wi]);
          dw[wi].add(dy[yi] * x[xi]);
        });
        // A GPU also rounds each tap's part of dx.
        const double half_ulp = d == f16 ? 0x1p-11 : 0x1p-8;
        const double parts = is_host(c) || context_info(c).emulated ? 0 : half_ulp;
        const auto check = [&](const Tensor& t, const std::vector<Sum>& sums, double more,
                               const char* what) {
          const Values got = k.first(t);
          for (size_t j = 0; j < got.size(); ++j) {
            const Sum& s = sums[j];
            const double sum_error = (s.terms * 0x1p-24 + more) * s.size;
            ASSERT_NEAR(got[j], s.value,
                        half_ulp * (std::fabs(s.value) + sum_error) + sum_error + 0x1p-25)
                << c << " " << name(d) << " " << what << " at " << j << ", case " << i;
          }
        };
        check(out, y, 0, "y");
        check(k.x.grad(), dx, parts, "dx");
        check(k.w.grad(), dw, 0, "dw");
      }
}

TEST(Convolution, LongSumsAreAsExactAsShortOnes) {
  // 0.1 and 1e-4 of a million: a running f32 sum would be off by some 1e-3.
  const Tensor x = full({64, 1, 128, 128}, 0.1), dy = full({64, 1, 128, 128}, 1e-4);
  const double got = convolution_weight_grad(x, dy, 1).item<float>();
  EXPECT_NEAR(got, 64 * 128 * 128 * 0.1 * 1e-4, 1e-5 * got);
  const Tensor deep = convolution(full({1, 20000, 3}, 0.1), full({1, 20000, 3}, 0.1));
  EXPECT_NEAR(deep.item<float>(), 600, 6e-4);
}

TEST(Convolution, TakesAnEmptyBatchAndGivesZeroGradients) {
  for (Context c : test::contexts()) {
    const Tensor x = zeros({0, 3, 5, 5}, c), w = ones({4, 3, 3, 3}, c), b = ones({4}, c);
    w.attach_grad(), b.attach_grad();
    Tensor y;
    {
      const autograd::Record record;
      y = convolution(x, w, b, {.activation = FusedActivation::relu});
    }
    EXPECT_EQ(y.shape(), (Shape{0, 4, 3, 3}));
    y.backward();
    EXPECT_EQ(values(w.grad()), Values(108, 0));
    EXPECT_EQ(values(b.grad()), Values(4, 0));
  }
}

TEST(Convolution, WhatLiesBeyondTheDataCountsAsZeros) {
  for (Context c : test::contexts()) {
    const Tensor y = convolution(
        ones({1, 1, 3}, c), array({1.f, 0.f, INFINITY}, c).reshape({1, 1, 3}), {}, {.padding = 1});
    EXPECT_TRUE(std::isinf(values(y)[0]));
    const double beyond = values(y)[2];  // 0 times infinity: unspecified
    EXPECT_TRUE(std::isnan(beyond) || beyond == 1) << beyond;
  }
}

TEST(Convolution, OperandsArePromotedAsInNumPy) {
  const Tensor y = convolution(ones({1, 1, 3}, f16), ones({1, 1, 2}, f32));
  EXPECT_EQ(y.dtype(), f32);
  EXPECT_EQ(values(y), (Values{2, 2}));
}

TEST(Convolution, ErrorsNameTheAxisAndWhatWasExpected) {
  const Tensor x = zeros({2, 3, 8, 8}), w = zeros({4, 3, 5, 5});
  const auto text = [](const auto& f) { return test::message_of<Error>(f); };
  EXPECT_THAT(text([&] {
                convolution(x, zeros({4, 2, 5, 5}));
              }),
              HasSubstr("expected axis 1 of weight to be 3: data's 3 channels"));
  EXPECT_THAT(text([&] { convolution(x, w, zeros({3})); }), HasSubstr("expected bias (4,)"));
  EXPECT_THAT(
      text([&] { convolution(x, w, {}, {.dilation = 2}); }),
      HasSubstr("axis 2 of the data, 8 long with 0 of padding on both sides, to be at least "
                "the 9 that the kernel spans"));
  EXPECT_THAT(text([&] { convolution(x, w, {}, {.groups = 2}); }),
              HasSubstr("multiple of groups 2"));
  EXPECT_THAT(text([&] { convolution(x, w, {}, {.layout = "CHWN"}); }),
              HasSubstr("convolution: layout \"CHWN\"; expected NCHW or NHWC"));
  EXPECT_THAT(text([&] {
                convolution(x, w, {}, {.strides = {1, 2, 3}});
              }),
              HasSubstr("convolution: strides: expected a number or 2 of them"));
  EXPECT_THAT(text([&] { convolution(x, w, {}, {.strides = 0}); }),
              HasSubstr("a stride of at least 1"));
  EXPECT_THAT(text([&] { convolution(x, zeros({4, 3, 5})); }), HasSubstr("of the same rank"));
  EXPECT_THAT(text([&] { convolution(zeros({3, 8}), w); }), HasSubstr("rank 3 to 5, got rank 2"));
  EXPECT_THAT(text([&] { deconvolution(x, w); }), HasSubstr("axis 0 of weight to be 3"));
  EXPECT_THAT(text([&] {
                deconvolution(x, zeros({3, 4, 5, 5}), zeros({4}), {.groups = INT64_MAX});
              }),
              HasSubstr("a multiple of groups 9223372036854775807"));
  EXPECT_THAT(text([&] {
                deconvolution(x, zeros({3, 4, 5, 5}), {}, {.adj = 1});
              }),
              HasSubstr("0 <= adj < stride 1"));
  EXPECT_THAT(text([&] {
                deconvolution(zeros({1, 1, 1}), zeros({1, 1, 2}), {}, {.padding = 1});
              }),
              HasSubstr("a result of at least 1 along axis 2"));
  EXPECT_THROW(convolution(x, w, {}, {.strides = 0}), ValueError);
}

TEST(Deconvolution, IsTheTransposeAndAddsItsBias) {
  for (Context c : test::contexts())
    for (const std::string_view layout : {"NCHW", "NHWC"}) {
      const bool last = layout == "NHWC";
      const Tensor x = sample_values(c, f64, last ? Shape{2, 4, 3, 4} : Shape{2, 4, 4, 3});
      const Tensor w =
          sample_values(c, f64, last ? Shape{4, 3, 2, 5} : Shape{4, 5, 3, 2}, -2, 2, 1);
      const Tensor b = sample_values(c, f64, {10}, -2, 2, 2);
      const DeconvolutionOptions options{
          .strides = {3, 2}, .padding = 1, .adj = {2, 1}, .groups = 2, .layout = layout};
      const Tensor y = deconvolution(x, w, {}, options);
      EXPECT_EQ(y.shape(), last ? (Shape{2, 12, 5, 10}) : (Shape{2, 10, 12, 5}));
      const Tensor z = sample_values(c, f64, y.shape(), -2, 2, 3);
      const Tensor back =
          convolution(z, w, {}, {.strides = {3, 2}, .padding = 1, .groups = 2, .layout = layout});
      EXPECT_NEAR(sum(back * x).item<double>(), sum(y * z).item<double>(), 1e-9);
      const Tensor biased = deconvolution(x, w, b, options) - y;
      test::expect_near(values(last ? biased(0, 0, 0) : biased(0, Slice(), 0, 0)), values(b), 1e-12,
                        "bias");
    }
}

TEST(Deconvolution, RefusesABiasOfAnotherLength) {
  const Tensor x = ones({1, 2, 4, 4}), w = ones({2, 3, 3, 3});
  EXPECT_NO_THROW(deconvolution(x, w, ones({3})));
  EXPECT_THROW(deconvolution(x, w, ones({1})), ShapeError);
  EXPECT_THROW(deconvolution(x, w, ones({3, 1})), ShapeError);
}

}  // namespace
}  // namespace locus
