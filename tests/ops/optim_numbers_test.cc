// Updates refuse numbers that would make every weight NaN, and change nothing.
#include <cmath>

#include <locus/ops/create.h>
#include <locus/ops/optim.h>
#include "tests/support/contexts.h"

namespace locus::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

TEST(OptimNumbers, ThatAreNotFiniteAreNamed) {
  for (const Context c : contexts()) {
    const Tensor w = ones({3}, c), g = ones({3}, c), mean = zeros({3}, c), var = zeros({3}, c);
    const auto expect = [&](const char* named, const AdamUpdate& numbers) {
      const auto refused =
          AllOf(StartsWith("adam_update: weight "), HasSubstr(named), HasSubstr("; expected a "));
      EXPECT_THAT(message_of<ValueError>([&] {
                    adam_update({w}, {g}, {{mean}, {var}}, numbers);
                  }),
                  refused);
      EXPECT_THAT(message_of<ValueError>([&] {
                    adam_update({w}, {g}, {{mean}, {var}}, [&] { return numbers; });
                  }),
                  refused);
    };
    for (const double bad : {double(NAN), double(INFINITY), -double(INFINITY)}) {
      expect("lr ", {.lr = bad});
      expect("wd ", {.wd = bad});
      expect("rescale_grad ", {.rescale_grad = bad});
    }
    expect("clip_gradient nan", {.clip_gradient = NAN});
    EXPECT_EQ(values(w), std::vector<double>(3, 1));
    EXPECT_EQ(values(mean), std::vector<double>(3, 0));
    adam_update({w}, {g}, {{mean}, {var}}, {.lr = -1, .clip_gradient = INFINITY});
    EXPECT_GT(values(w)[0], 1) << "a negative rate ascends";
  }
}

}  // namespace
}  // namespace locus::test
