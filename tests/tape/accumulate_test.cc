// Gradients of several backward passes that add up.
#include <locus/core/accumulate.h>
#include <locus/core/autograd.h>

#include <locus/core/parallel.h>
#include <locus/devices/pool.h>
#include <locus/ops/dense.h>
#include <locus/ops/softmax.h>
#include "tests/replay/captures.h"
#include "tests/train/training.h"

namespace locus {
namespace {

using test::values;
using Values = std::vector<double>;

// d(k x)/dx.
void backward_of(const Tensor& x, double k) {
  Tensor y;
  {
    const autograd::Record record;
    y = x * k;
  }
  y.backward();
}

TEST(Accumulate, TheFirstBackwardOverwritesAndOthersAdd) {
  for (const Context c : test::contexts()) {
    const Tensor x = ones({2}, c), later = ones({2}, c);
    x.attach_grad();
    later.attach_grad();
    backward_of(x, 5);
    for (int step = 0; step < 2; ++step) {  // a scope ignores earlier scopes
      const autograd::Accumulate accumulate;
      backward_of(x, 1);
      backward_of(x, 2);
      backward_of(later, 7);  // first reached by the third pass
      backward_of(x, 3);
      EXPECT_EQ(values(x.grad()), Values(2, 6));
      EXPECT_EQ(values(later.grad()), Values(2, 7));
    }
    backward_of(x, 4);
    EXPECT_EQ(values(x.grad()), Values(2, 4));
  }
}

TEST(Accumulate, AScopeInsideIsPartOfTheOuterOne) {
  const Tensor x = ones({1});
  x.attach_grad();
  const autograd::Accumulate outer;
  backward_of(x, 1);
  {
    const autograd::Accumulate inner;
    backward_of(x, 2);
  }
  backward_of(x, 4);
  EXPECT_EQ(values(x.grad()), Values{7});
}

TEST(Accumulate, AGradientThatIsToStayIsAddedToInItsPlace) {
  const Tensor w = ones({3, 2}), place = zeros({3, 2}), x = ones({4, 2});
  w.attach_grad(place);
  const auto pass = [&] {
    Tensor y;
    {
      const autograd::Record record;
      y = dense(x, w);
    }
    y.backward();
  };
  const autograd::Accumulate accumulate;
  pass();
  pass();
  EXPECT_EQ(values(place), Values(6, 8));
}

TEST(Accumulate, ThreadsOfAParallelTakePart) {
  const Contexts two{cpu(0), cpu(1)};
  const Tensors x{ones({1}, cpu(0)), ones({1}, cpu(1))};
  for (const Tensor& t : x) t.attach_grad();
  const autograd::Accumulate accumulate;
  for (const double k : {1., 2., 4.})
    parallel(two, [&](int i) { backward_of(x[static_cast<size_t>(i)], k * (i + 1)); });
  EXPECT_EQ(values(x[0].grad()), Values{7});
  EXPECT_EQ(values(x[1].grad()), Values{14});
}

TEST(Accumulate, GradReqAddAddsWithoutAScopeAndWithOne) {
  const Tensor x = ones({1});
  x.attach_grad(GradReq::add);
  backward_of(x, 1);
  {
    const autograd::Accumulate accumulate;
    backward_of(x, 2);
    backward_of(x, 4);
  }
  EXPECT_EQ(values(x.grad()), Values{7});
}

TEST(Accumulate, AGradientWithoutMemoryIsWrittenAnew) {
  LOCUS_NEEDS_POOL();
  const Tensor x = zeros({10 << 20});
  x.attach_grad();
  const auto recorded = [&](const std::function<Tensor()>& f) {
    const autograd::Record record;
    return f();
  };
  recorded([&] { return (5 * x).sum(); }).backward();
  const autograd::Accumulate all;
  // The gradient of labels is 0.
  const Tensor loss = recorded([&] { return softmax_cross_entropy(ones({1, 2}), x(Slice(0, 1))); });
  {
    const test::Shortage shortage(cpu(0), size_t{1} << 20);
    EXPECT_THROW(loss.backward(), OutOfMemory);
  }
  recorded([&] { return (2 * x).sum(); }).backward();
  EXPECT_EQ(x.grad()[0].item<double>(), 2);
}

}  // namespace
}  // namespace locus
