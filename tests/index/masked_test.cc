// argwhere, compress and sequence_mask.
#include <locus/ops/gather.h>

#include <cmath>

#include <locus/core/autograd.h>
#include <locus/ops/compare.h>
#include <locus/ops/copy.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/view.h>
#include "tests/support/contexts.h"
#include "tests/tape/gradcheck.h"

namespace locus::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Argwhere, GivesOneRowForEachOne) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor x = array({{0.f, 2.f, NAN}, {-0.f, 0.f, 1.f}}, c);
    EXPECT_EQ(argwhere(x).dtype(), i64);
    EXPECT_THAT(values(argwhere(x)), ElementsAre(0, 1, 0, 2, 1, 2));
    EXPECT_THAT(values(argwhere(x.T())), ElementsAre(1, 0, 2, 0, 2, 1));
    EXPECT_EQ(argwhere(zeros({0, 3}, c)).shape(), (Shape{0, 2}));
    EXPECT_EQ(argwhere(full({}, 5, c)).shape(), (Shape{1, 0}));
    EXPECT_EQ(argwhere(full({}, 0, c)).shape(), (Shape{0, 0}));
  }
}

TEST(Compress, TakesEntriesWhereTheConditionHolds) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor x = arange(6, c).reshape({2, 3});
    EXPECT_THAT(values(compress(array({0, 1}, c), x, {.axis = 0})), ElementsAre(3, 4, 5));
    EXPECT_THAT(values(compress(array({true, false, true}, c), x, {.axis = 1})),
                ElementsAre(0, 2, 3, 5));
    // A short condition, flattened and along an axis; a long one whose tail is 0.
    EXPECT_THAT(values(compress(array({0.5f, 0.f, 0.f, -1.f}, c), x)), ElementsAre(0, 3));
    EXPECT_THAT(values(compress(array({1, 1}, c), x, {.axis = -1})), ElementsAre(0, 1, 3, 4));
    EXPECT_THAT(values(compress(array({0, 1, 0, 0}, c), x, {.axis = 0})), ElementsAre(3, 4, 5));
    EXPECT_THAT(message_of<IndexError>([&] {
                  compress(array({0, 0, 1}, c), x, {.axis = 0});
                }),
                HasSubstr("past axis 0 with size 2"));
    EXPECT_EQ(compress(zeros({0}, c), x, {.axis = 1}).shape(), (Shape{2, 0}));
    const Tensor out = zeros({1}, c);
    compress(array({0, 0, 1}, c), x, {.out = out});
    EXPECT_THAT(values(out), ElementsAre(2));
    check_gradients(
        [&](const Tensors& t) -> Tensors {
          return {compress(array({1, 0, 1}, c), t[0], {.axis = 1}),
                  compress(array({0, 1}, c), t[0])};
        },
        {sample_values(c, f64, {2, 3})});
  }
  EXPECT_THROW(compress(ones({1, 2}), ones({2})), ShapeError);
}

TEST(SequenceMask, ReplacesWhatLiesBehindEachSequence) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor x = ones({3, 2, 2}, c), lengths = array({1.9f, 7.f}, c);
    EXPECT_THAT(values(sequence_mask(x, lengths, {.value = -1})),
                ElementsAre(1, 1, 1, 1, -1, -1, 1, 1, -1, -1, 1, 1));
    const Tensor y = ones({2, 3}, {c, i32});
    EXPECT_THAT(values(sequence_mask(y, array({2, -1}, c), {.axis = 1})),
                ElementsAre(1, 1, 0, 0, 0, 0));
    EXPECT_THAT(values(sequence_mask(y)), testing::Each(1));
    check_gradients(
        [&](const Tensors& t) -> Tensors {
          return {sequence_mask(t[0], array({0, 2}, c))};
        },
        {sample_values(c, f64, {3, 2})});
  }
  EXPECT_THROW(sequence_mask(ones({3, 2}), ones({3})), ShapeError);
  EXPECT_THROW(sequence_mask(ones({3, 2}), ones({2}), {.axis = 2}), ValueError);
}

}  // namespace
}  // namespace locus::test
