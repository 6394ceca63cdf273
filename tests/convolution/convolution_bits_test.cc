// Convolutions give the same bits in each run, for any number of threads, and for chunks as for the
// whole.
#include "tests/support/contexts.h"

#include <locus/core/autograd.h>
#include <locus/devices/cpu.h>
#include <locus/ops/convolution.h>
#include <locus/ops/copy.h>
#include <locus/ops/create.h>
#include <locus/ops/index.h>
#include <locus/ops/view.h>
#include "tests/devices/cuda_support.h"
#include "tests/replay/captures.h"
#include "tests/tape/gradcheck.h"

namespace locus {
namespace {

using test::values;
using Values = std::vector<double>;

// The result and the gradients of data, weight and bias.
std::vector<Values> all_of(const Tensor& x, const Tensor& w, const ConvolutionOptions& options) {
  const Tensor b = sample_values(x.context(), x.dtype(), {w.shape()[0]}, -1, 1, 4);
  for (const Tensor& t : {x, w, b}) t.attach_grad();
  Tensor y;
  {
    const autograd::Record record;
    y = convolution(x, w, b, options);
  }
  y.backward({.head_gradient = sample_values(x.context(), x.dtype(), y.shape(), -1, 1, 3)});
  return {values(y), values(x.grad()), values(w.grad()), values(b.grad())};
}

TEST(ConvolutionBits, AreTheSameTwice) {
  for (Context c : test::contexts())
    for (DType d : {f32, f16, bf16})
      for (const int64_t groups : {1, 2, 8}) {
        const Tensor x = sample_values(c, d, {9, 8, 21, 19});
        const Tensor w = sample_values(c, d, {16, 8 / groups, 3, 3}, -2, 2, 1);
        const ConvolutionOptions options{.strides = {1, 2}, .padding = 1, .groups = groups};
        const auto once = all_of(x, w, options);
        test::churn(c);
        EXPECT_EQ(all_of(x, w, options), once) << c << " " << name(d) << ", groups " << groups;
      }
}

TEST(ConvolutionBits, ManyImagesGiveWhatTheirPartsGive) {
  for (Context c : test::contexts())
    for (DType d : {f32, bf16}) {
      SCOPED_TRACE(to_string(c) + " " + name(d));
      const int64_t n = 37, half = n / 2;  // a CPU adds up 16 chunks
      const Shape shape{n, 3, 11, 9};
      const Tensor x = sample_values(c, d, shape);
      const Tensor w = sample_values(c, d, {4, shape[1], 5, 5}, -1, 1, 1);
      const Tensor dy = sample_values(c, d, {n, 4, shape[2], shape[3]}, -1, 1, 3);
      const auto run = [&](const Slice& images) {
        const Tensor part = contiguous(x(images));
        part.attach_grad(), w.attach_grad();
        Tensor y;
        {
          const autograd::Record record;
          y = convolution(part, w, {}, {.padding = 2});
        }
        y.backward({.head_gradient = contiguous(dy(images))});
        return std::vector{values(y), values(part.grad()), values(w.grad())};
      };
      const auto whole = run(Slice());
      auto parts = run(Slice(0, half));
      const auto rest = run(Slice(half, n));
      for (const size_t i : {0, 1}) parts[i].insert(parts[i].end(), rest[i].begin(), rest[i].end());
      for (size_t i = 0; i < parts[2].size(); ++i) parts[2][i] += rest[2][i];
      for (size_t i = 0; i < 3; ++i) {
        double largest = 1;
        for (const double v : whole[i]) largest = std::max(largest, std::fabs(v));
        test::expect_near(whole[i], parts[i], (d == f32 ? 1e-5 : 2e-2) * largest, "part");
      }
    }
}

// Chunks of images that 32-bit indices reach.
TEST(ConvolutionBits, MoreThan32BitsCountAreConvolvedOnAGpu) {
  LOCUS_NEEDS_GPUS(1);
  const Context c = gpu(0);
  const int64_t n = (int64_t{1} << 21) + 5;
  const Tensor x = full({n, 2, 32, 16}, 0.5, {c, bf16}), w = ones({1, 2, 1, 1}, {c, bf16});
  x(Slice(n - 3, n)) = 2;
  x.attach_grad(), w.attach_grad();
  Tensor y;
  {
    const autograd::Record record;
    y = convolution(x, w);
  }
  y.backward({.head_gradient = full(y.shape(), 0x1p-20, {c, bf16})});
  EXPECT_EQ(y(n - 4, 0, 0, 0).item<double>(), 1);
  EXPECT_EQ(y(n - 3, 0, 0, 0).item<double>(), 4);
  EXPECT_EQ(y(n - 1, 0, 31, 15).item<double>(), 4);
  EXPECT_EQ(x.grad()(n - 1, 1, 31, 15).item<double>(), 0x1p-20);
  const double sum = w.grad()(0, 0, 0, 0).item<double>();
  EXPECT_NEAR(sum, 0.5 * 512 * 2, 8);
}

TEST(ConvolutionBits, AreTheSameForAnyNumberOfThreads) {
  const Tensor x = sample_values(cpu(), f32, {7, 6, 30, 31}),
               w = sample_values(cpu(), f32, {20, 3, 5, 5});
  const auto all = [&](int threads) {
    const int before = num_threads();
    set_num_threads(threads);
    x.attach_grad(), w.attach_grad();
    Tensor y;
    {
      const autograd::Record record;
      y = convolution(x, w, {}, {.strides = 2, .padding = 2, .groups = 2});
    }
    y.backward();
    set_num_threads(before);
    return std::vector{y.to_vector<float>(), x.grad().to_vector<float>(),
                       w.grad().to_vector<float>()};
  };
  const auto alone = all(1);
  EXPECT_EQ(all(2), alone);
  EXPECT_EQ(all(5), alone);
  EXPECT_EQ(all(2), all(2));
}

TEST(ConvolutionBits, AreTheSameHoweverThreadsShareOneLargeImage) {
  const Tensor x = sample_values(cpu(), f32, {1, 5, 61, 67}),
               w = sample_values(cpu(), f32, {9, 5, 3, 3});
  const int before = num_threads();
  std::vector<std::vector<float>> y, dx, dw;
  for (int threads : {1, 2, 3, 8}) {
    set_num_threads(threads);
    y.push_back(convolution(x, w, {}, {.padding = 1}).to_vector<float>());
    const Tensor dy = sample_values(cpu(), f32, {1, 9, 61, 67}, -2, 2, 3);
    dx.push_back(deconvolution(dy, w, {}, {.padding = 1}).to_vector<float>());
    dw.push_back(convolution_weight_grad(x, dy, 3, {.padding = 1}).to_vector<float>());
  }
  set_num_threads(before);
  for (size_t i = 1; i < y.size(); ++i) {
    EXPECT_EQ(y[i], y[0]);
    EXPECT_EQ(dx[i], dx[0]);
    EXPECT_EQ(dw[i], dw[0]);
  }
}

}  // namespace
}  // namespace locus
