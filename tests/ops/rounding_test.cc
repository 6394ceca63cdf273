// 16-bit products with a bias and normalizations are computed in f32 and rounded once.
#include <cmath>
#include <string>

#include <locus/ops/activation.h>
#include <locus/ops/convolution.h>
#include <locus/ops/copy.h>
#include <locus/ops/create.h>
#include <locus/ops/dense.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/norm.h>
#include <locus/ops/unary.h>
#include "tests/support/contexts.h"

namespace locus {
namespace {

using test::values;

// Half of the distance between two neighbours near v.
double half_unit(DType d, double v) {
  const int bits = d == f16 ? 11 : 8, least = d == f16 ? -14 : -126;
  const int exponent = v == 0 ? least : std::max(std::ilogb(v), least);
  return std::ldexp(1, exponent - bits);
}

// `exact` in f64; `terms`: the sums of absolute values, for f32's rounding.
void expect_one_rounding(const Tensor& y, const Tensor& exact, const Tensor& terms, int64_t length,
                         const std::string& what) {
  const std::vector<double> got = values(y), right = values(exact), sums = values(terms);
  for (size_t i = 0; i < got.size(); ++i) {
    const double of_f32 = std::ldexp(static_cast<double>(length + 2), -23) * sums[i];
    ASSERT_NEAR(got[i], right[i], half_unit(y.dtype(), std::fabs(right[i]) + of_f32) + of_f32)
        << what << ", element " << i;
  }
}

// Values in this dtype, and in f64 on the host.
struct Both {
  Both(Context c, DType d, const Shape& s, int variant, double high = 2)
      : here(sample_values(c, d, s, -high, high, variant)), exact(here.copyto(cpu()).astype(f64)) {}
  Tensor here, exact;
};

TEST(Rounding, OfDenseIsOne) {
  // The last three are split: few long sums, many long sums, many results.
  const int64_t shapes[][3] = {{2, 1, 7},       {1, 1, 1},      {3, 2, 5},       {4, 3, 9},
                               {7, 8, 16},      {16, 10, 33},   {33, 65, 31},    {64, 100, 10},
                               {128, 256, 64},  {1, 784, 10},   {200, 300, 150}, {2, 70001, 3},
                               {300, 66000, 2}, {33000, 2, 130}};
  for (Context c : test::contexts())
    for (DType d : {f16, bf16})
      for (const auto& [rows, inputs, units] : shapes) {
        if (rows * inputs * units > 5'000'000 && (is_host(c) || test::emulated_gpus()))
          continue;  // one way, whatever the size
        for (int variant : {0, 5}) {
          const double high = inputs > 1000 ? .25 : 2;  // f16 holds the sums
          const Both x(c, d, {rows, inputs}, variant, high),
              w(c, d, {units, inputs}, variant + 1, high), b(c, d, {units}, variant + 2);
          const Tensor terms = dense(abs(x.exact), abs(w.exact), abs(b.exact));
          for (FusedActivation a : {FusedActivation::none, FusedActivation::relu})
            expect_one_rounding(dense(x.here, w.here, b.here, a),
                                dense(x.exact, w.exact, b.exact, a), terms, inputs,
                                to_string(c) + " " + name(d) + " " +
                                    to_string(Shape{rows, inputs, units}) +
                                    (a == FusedActivation::relu ? " relu" : ""));
          if (::testing::Test::HasFatalFailure()) return;
        }
      }
}

TEST(Rounding, OfDeconvolutionsIsOne) {
  // images, channels in and out, groups, size, kernel, stride: gaps between kernels get the bias.
  const int64_t shapes[][7] = {{1, 1, 1, 1, 3, 1, 1},   {2, 3, 8, 1, 5, 3, 2},
                               {3, 8, 16, 1, 9, 2, 2},  {2, 6, 6, 6, 5, 3, 2},
                               {2, 16, 12, 2, 6, 1, 3}, {1, 4, 2, 2, 4, 3, 1}};
  for (Context c : test::contexts())
    for (DType d : {f16, bf16})
      for (const auto& [images, in, out, groups, size, kernel, stride] : shapes)
        for (const bool last : {false, true}) {
          const Shape data = last ? Shape{images, size, size, in} : Shape{images, in, size, size};
          const Shape weight = last ? Shape{in, kernel, kernel, out / groups}
                                    : Shape{in, out / groups, kernel, kernel};
          const Both x(c, d, data, 0), w(c, d, weight, 1), b(c, d, {out}, 2);
          const DeconvolutionOptions o{.strides = stride,
                                       .padding = kernel / 2,
                                       .adj = stride - 1,
                                       .groups = groups,
                                       .layout = last ? "NHWC" : "NCHW"};
          expect_one_rounding(
              deconvolution(x.here, w.here, b.here, o), deconvolution(x.exact, w.exact, b.exact, o),
              deconvolution(abs(x.exact), abs(w.exact), abs(b.exact), o), in * kernel * kernel,
              to_string(c) + " " + name(d) + " " + to_string(weight));
          if (::testing::Test::HasFatalFailure()) return;
        }
}

TEST(Rounding, OfNormalizationsIsOne) {
  for (Context c : test::contexts())
    for (DType d : {f16, bf16}) {
      const Both x(c, d, {6, 8, 33}, 0), gamma(c, f32, {8}, 1), beta(c, f32, {8}, 2);
      const auto check = [&](const Tensor& y, const Tensor& exact) {
        expect_one_rounding(y, exact, abs(exact) + 100, 1, to_string(c) + " " + name(d));
      };
      check(layer_norm(x.here, gamma.here, beta.here, {.axis = 1}),
            layer_norm(x.exact, gamma.exact, beta.exact, {.axis = 1}));
      check(group_norm(x.here, gamma.here, beta.here, {.num_groups = 4}),
            group_norm(x.exact, gamma.exact, beta.exact, {.num_groups = 4}));
      const Tensor mean = zeros({8}, c), var = ones({8}, c);
      check(batch_norm(x.here, gamma.here, beta.here, mean, var),
            batch_norm(x.exact, gamma.exact, beta.exact, zeros({8}, f64), ones({8}, f64)));
    }
}

TEST(Rounding, OfConvolutionsIsOne) {
  const int64_t shapes[][4] = {{1, 1, 1, 3}, {2, 3, 8, 5}, {3, 8, 16, 9}, {2, 16, 4, 12}};
  for (Context c : test::contexts())
    for (DType d : {f16, bf16})
      for (const auto& [images, in, out, size] : shapes)
        for (const int64_t kernel : {1, 3})
          for (const bool last : {false, true}) {
            const Shape data = last ? Shape{images, size, size, in} : Shape{images, in, size, size};
            const Shape weight =
                last ? Shape{out, kernel, kernel, in} : Shape{out, in, kernel, kernel};
            const Both x(c, d, data, 0), w(c, d, weight, 1), b(c, d, {out}, 2);
            ConvolutionOptions o{.padding = kernel / 2, .layout = last ? "NHWC" : "NCHW"};
            const Tensor terms = convolution(abs(x.exact), abs(w.exact), abs(b.exact), o);
            for (FusedActivation a : {FusedActivation::none, FusedActivation::relu}) {
              o.activation = a;
              expect_one_rounding(convolution(x.here, w.here, b.here, o),
                                  convolution(x.exact, w.exact, b.exact, o), terms,
                                  in * kernel * kernel,
                                  to_string(c) + " " + name(d) + " " + to_string(weight));
              if (::testing::Test::HasFatalFailure()) return;
            }
          }
}

}  // namespace
}  // namespace locus
