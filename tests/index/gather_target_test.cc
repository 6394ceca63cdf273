// What calls that fail leave in their targets.
#include <locus/ops/gather.h>

#include <locus/core/stream.h>
#include <locus/ops/create.h>
#include <locus/ops/index.h>
#include "tests/support/contexts.h"

namespace locus::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Their results come by way of new memory.
TEST(Gather, ABadIndexLosesNothingOfAStridedTarget) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor x = array({1., 2., 3., 4.}, {c, f64})(Slice(0, 4, 2)), ids = array({0, 9}, c);
    const auto expect_kept = [&] {  // a GPU may have written to the good index
      EXPECT_THAT(values(x)[0], testing::AnyOf(1, 7));
      EXPECT_EQ(values(x)[1], 3);
    };
    EXPECT_THROW(
        {
          put_along_axis(x, ids, 7., 0);
          wait_all();
        },
        IndexError);
    expect_kept();
    EXPECT_THROW(
        {
          index_put(x, {ids}, 7., {.out = x});
          wait_all();
        },
        IndexError);
    expect_kept();
  }
}

TEST(Gather, IntegersAreAddedAWholeNumberOfTimes) {
  const Tensor x = array({1, 2}), ids = array({0, 1});
  EXPECT_THAT(values(index_add(x, 0, ids, x, {.alpha = 2})), ElementsAre(3, 6));
  EXPECT_THAT(message_of<ValueError>([&] { index_add(x, 0, ids, x, {.alpha = 2.5}); }),
              HasSubstr("index_add: alpha 2.5 for data cpu(0) (2,) i64: expected an integer"));
}

}  // namespace
}  // namespace locus::test
