// 16-bit products with a bias are added up in f32 and rounded once.
#include <cmath>
#include <string>

#include <locus/ops/convolution.h>
#include <locus/ops/copy.h>
#include <locus/ops/create.h>
#include <locus/ops/dense.h>
#include <locus/ops/unary.h>
#include "tests/contexts.h"

namespace locus {
namespace {

using test::values;

// Half of the distance between two neighbours near v.
double half_unit(DType d, double v) {
  const int bits = d == f16 ? 11 : 8, least = d == f16 ? -14 : -126;
  const int exponent = v == 0 ? least : std::max(std::ilogb(v), least);
  return std::ldexp(1, exponent - bits);
}

// `exact` in f64, and `terms`, the sums of the terms' absolute values: what f32 rounds of.
void expect_one_rounding(const Tensor& y, const Tensor& exact, const Tensor& terms, int64_t length,
                         const std::string& what) {
  const std::vector<double> got = values(y), right = values(exact), sums = values(terms);
  for (size_t i = 0; i < got.size(); ++i) {
    const double of_f32 = std::ldexp(static_cast<double>(length + 2), -23) * sums[i];
    ASSERT_NEAR(got[i], right[i], half_unit(y.dtype(), std::fabs(right[i]) + of_f32) + of_f32)
        << what << ", element " << i;
  }
}

// Values of this dtype, and in f64 on the host.
struct Both {
  Both(Context c, DType d, const Shape& s, int variant, double high = 2)
      : here(sample_values(c, d, s, -high, high, variant)), exact(here.copyto(cpu()).astype(f64)) {}
  Tensor here, exact;
};

TEST(Rounding, OfDenseIsOne) {
  // The last three are cut: few results of long sums, many results of long sums, many results.
  const int64_t shapes[][3] = {{2, 1, 7},       {1, 1, 1},      {3, 2, 5},       {4, 3, 9},
                               {7, 8, 16},      {16, 10, 33},   {33, 65, 31},    {64, 100, 10},
                               {128, 256, 64},  {1, 784, 10},   {200, 300, 150}, {2, 70001, 3},
                               {300, 66000, 2}, {33000, 2, 130}};
  for (Context c : test::contexts())
    for (DType d : {f16, bf16})
      for (const auto& [rows, inputs, units] : shapes) {
        if (rows * inputs * units > 5'000'000 && is_host(c))
          continue;  // one way, whatever the size
        for (int variant : {0, 5}) {
          const double high = inputs > 1000 ? .25 : 2;  // f16 holds the sums
          const Both x(c, d, {rows, inputs}, variant, high),
              w(c, d, {units, inputs}, variant + 1, high), b(c, d, {units}, variant + 2);
          const Tensor terms = dense(abs(x.exact), abs(w.exact), abs(b.exact));
          for (Activation a : {Activation::none, Activation::relu})
            expect_one_rounding(dense(x.here, w.here, b.here, a),
                                dense(x.exact, w.exact, b.exact, a), terms, inputs,
                                to_string(c) + " " + name(d) + " " +
                                    to_string(Shape{rows, inputs, units}) +
                                    (a == Activation::relu ? " relu" : ""));
          if (::testing::Test::HasFatalFailure()) return;
        }
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
            for (Activation a : {Activation::none, Activation::relu}) {
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
