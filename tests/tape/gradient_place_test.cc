// Gradients in memory that the program chose: x.attach_grad(place).
#include <locus/core/autograd.h>
#include <locus/core/memory/storage.h>
#include <locus/ops/activation.h>
#include <locus/ops/create.h>
#include <locus/ops/dense.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/matmul.h>
#include <locus/ops/reduce.h>
#include <locus/ops/view.h>
#include "tests/support/contexts.h"
#include "tests/support/launches.h"

namespace locus::test {
namespace {

std::vector<float> floats(const Tensor& x) { return x.to_vector<float>(); }

template <class F>
Tensor recorded(F f) {
  const autograd::Record record;
  return f();
}

TEST(GradientPlace, IsWrittenStepAfterStep) {
  for (Context c : contexts()) {
    const Tensor bucket = full({6}, 9, c), x = array({1.f, 2.f}, c), y = array({3.f, 4.f}, c);
    const Tensor place = bucket(Slice(2, 4));
    x.attach_grad(place);
    y.attach_grad(bucket(Slice(4, 6)));
    EXPECT_TRUE(x.grad().is(place));
    EXPECT_EQ(floats(x.grad()), (std::vector<float>{9, 9}));
    void* const at = x.grad().data_ptr();
    for (int step = 1; step < 4; ++step) {
      recorded([&] { return x * y * step; }).backward();
      EXPECT_TRUE(x.grad().is(place));
      EXPECT_EQ(x.grad().data_ptr(), at);
      EXPECT_TRUE(x.grad().shares_memory_with(bucket));
      const float s = static_cast<float>(step);
      EXPECT_EQ(floats(bucket), (std::vector<float>{9, 9, 3 * s, 4 * s, s, 2 * s}));
      EXPECT_TRUE(autograd::fresh_grad(x));
      autograd::mark_used(x);
    }
    x.zero_grad();
    EXPECT_EQ(floats(bucket)[2], 0);
  }
}

TEST(GradientPlace, TakesTheSumOfSeveralContributions) {
  const Tensor bucket = zeros({4}), x = array({1.f, 2.f});
  x.attach_grad(bucket(Slice(1, 3)));
  recorded([&] { return x * x + x * 3; }).backward();
  EXPECT_EQ(floats(bucket), (std::vector<float>{0, 5, 7, 0}));
  recorded([&] { return dot(x.reshape({1, 2}), x.reshape({2, 1})); }).backward();
  EXPECT_EQ(floats(bucket), (std::vector<float>{0, 2, 4, 0}));
}

TEST(GradientPlace, AddsToWhatIsThere) {
  const Tensor bucket = full({4}, 1), x = array({1.f, 2.f});
  x.attach_grad(bucket(Slice(0, 2)), GradReq::add);
  for (int i = 0; i < 2; ++i) recorded([&] { return x * x; }).backward();
  EXPECT_EQ(floats(bucket), (std::vector<float>{5, 9, 1, 1}));
}

TEST(GradientPlace, MayBeStrided) {
  for (Context c : contexts()) {
    const Tensor wide = zeros({3, 4}, c), x = ones({3, 2}, c), w = ones({2, 5}, c);
    x.attach_grad(wide(Slice(), Slice(0, 4, 2)));
    recorded([&] { return dot(x, w); }).backward();
    const std::vector<float> rows{5, 0, 5, 0, 5, 0, 5, 0, 5, 0, 5, 0};
    EXPECT_EQ(floats(wide), rows);
    recorded([&] { return dense(w.T(), x) * 2; }).backward();
    EXPECT_EQ(floats(wide)[2], 10);
    EXPECT_EQ(floats(wide)[1], 0);
  }
}

TEST(GradientPlace, IsWrittenByTheKernelThatMakesTheGradient) {
  const Tensor bucket = zeros({64}), x = ones({4, 3}), w = ones({2, 3}), b = ones({2});
  w.attach_grad(bucket(Slice(0, 6)).reshape({2, 3}));
  b.attach_grad(bucket(Slice(6, 8)));
  const Tensor a = ones({2, 3}), m = ones({3, 4}), row = ones({4});
  a.attach_grad(bucket(Slice(8, 14)).reshape({2, 3}));
  m.attach_grad(bucket(Slice(14, 26)).reshape({3, 4}));
  row.attach_grad(bucket(Slice(26, 30)));
  const auto layer = [&] { return dense(x, w, b, FusedActivation::relu); };
  const auto product = [&] { return matmul(a, m) + row; };
  const Tensor y = recorded(layer), z = recorded(product);
  const Launches<0> copies("copy");
  const Launches<1> backward("dense_backward");
  y.backward();
  z.backward();
  EXPECT_EQ(copies(), 0);
  EXPECT_EQ(backward(), 1);
  std::vector<float> expected(64);
  std::fill_n(expected.begin(), 8, 4.f);        // w, b: four rows
  std::fill_n(expected.begin() + 8, 6, 4.f);    // a: four columns
  std::fill_n(expected.begin() + 14, 16, 2.f);  // m, row: two rows
  EXPECT_EQ(floats(bucket), expected);
}

TEST(GradientPlace, IsNotOverwrittenWhileItIsTheHeadGradient) {
  const Tensor bucket = zeros({4}), a = ones({2, 2}), b = ones({2, 2});
  a.attach_grad(bucket.reshape({2, 2}));
  b.attach_grad();
  const Tensor w = full({2, 2}, 2), y = recorded([&] { return dot(a, w) + dot(b, w); });
  Tensor head = a.grad();
  head += 1;
  y.backward({.head_gradient = head});
  EXPECT_EQ(floats(a.grad()), (std::vector<float>(4, 4)));
  EXPECT_EQ(floats(b.grad()), (std::vector<float>(4, 4)));
}

TEST(GradientPlace, FitsItsTensor) {
  const Tensor x = ones({2, 3});
  EXPECT_THROW(x.attach_grad(zeros({6})), ShapeError);
  EXPECT_THROW(x.attach_grad(zeros({2, 3}, f64)), DTypeError);
  EXPECT_THROW(x.attach_grad(zeros({2, 3}, cpu(1))), ContextMismatch);
  const Tensor y = ones({2, 3});
  y.attach_grad();
  EXPECT_THROW(x.attach_grad(y), Error);
  EXPECT_THROW(array({1, 2}).attach_grad(array({1, 2})), DTypeError);
  EXPECT_THROW(x.attach_grad(x), Error);
  EXPECT_THROW(x.attach_grad(flip(x, 0)), Error);
  EXPECT_THROW(x.attach_grad(broadcast_to(zeros({3}), {2, 3})), Error);
  EXPECT_FALSE(x.has_grad());
  const Tensor both = ones({5, 3});
  EXPECT_THROW(both(Slice(0, 2)).attach_grad(both(Slice(2, 4))), Error);
  x.attach_grad(zeros({2, 3}), GradReq::null);
  EXPECT_FALSE(x.has_grad());
}

}  // namespace
}  // namespace locus::test
