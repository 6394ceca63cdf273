// Windows far larger than their data.
#include <cmath>

#include <locus/core/autograd.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/pooling.h>
#include "tests/support/contexts.h"
#include "tests/tape/gradcheck.h"

namespace locus {
namespace {

using test::values;
using testing::DoubleNear;
using testing::Pointwise;
using Values = std::vector<double>;

TEST(Pooling, WindowsMayBeFarLargerThanTheData) {
  constexpr int64_t kFar = int64_t{1} << 30;
  const PoolingOptions far{.strides = kFar, .padding = kFar};
  for (Context c : test::contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor x = test::from_values({1, 2, 3, 4, 5, 6}, {1, 1, 1, 2, 3}, c, f64);
    x.attach_grad();
    Tensor largest, mean;
    {
      const autograd::Record record;
      largest = max_pool(x, kFar + 1, far);
    }
    largest.backward();
    EXPECT_EQ(values(largest), Values({1, 3, 4, 6, 1, 3, 4, 6}));
    EXPECT_EQ(values(x.grad()), Values({2, 0, 2, 2, 0, 2}));
    const double places = std::pow(static_cast<double>(kFar + 1), 3);
    {
      const autograd::Record record;
      mean = avg_pool(x, kFar + 1, far) * places;
    }
    mean.backward();
    EXPECT_THAT(values(mean), Pointwise(DoubleNear(1e-9), {1, 6, 5, 21, 1, 6, 5, 21}));
    EXPECT_THAT(values(x.grad()), Pointwise(DoubleNear(1e-9), {8, 4, 4, 4, 2, 2}));
  }
}

}  // namespace
}  // namespace locus
