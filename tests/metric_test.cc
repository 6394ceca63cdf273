#include "tests/contexts.h"

#include <cmath>

#include <locus/locus.h>

namespace locus {
namespace {

TEST(Accuracy, CountsOverBatchesAndContexts) {
  metric::Accuracy accuracy;
  EXPECT_EQ(accuracy.get().first, "accuracy");
  EXPECT_TRUE(std::isnan(accuracy.get().second));
  double right = 0, all = 0;
  for (Context c : test::distinct_contexts()) {
    const Tensor scores = array({{0.1f, 0.9f}, {0.8f, 0.2f}, {0.3f, 0.7f}}, c);
    accuracy.update(array({1, 1, 1}, c), scores);
    accuracy.update(array({1}, {c, i32}), array({1}, {c, i32}));  // class numbers
    right += 3;
    all += 4;
    EXPECT_DOUBLE_EQ(accuracy.get().second, right / all);
  }
  accuracy.reset();
  EXPECT_TRUE(std::isnan(accuracy.get().second));
}

TEST(Accuracy, TakesOneOfEachPerContext) {
  metric::Accuracy accuracy;
  const Tensor scores = array({{0.1f, 0.9f}});
  accuracy.update(Tensors{array({1}), array({0}, cpu(1))},
                  Tensors{scores, scores.as_in_context(cpu(1))});
  EXPECT_DOUBLE_EQ(accuracy.get().second, 0.5);
  EXPECT_THROW(accuracy.update(Tensors{array({1})}, Tensors{}), ShapeError);
}

TEST(Accuracy, RefusesWhatDoesNotFit) {
  metric::Accuracy accuracy;
  EXPECT_THROW(accuracy.update(array({1, 0}), ones({3, 2})), ShapeError);
  EXPECT_THROW(accuracy.update(array({1, 0}), ones({2})(newaxis, newaxis)), ShapeError);
  EXPECT_THROW(accuracy.update(array({1, 0}), ones({2, 2}, cpu(1))), ContextMismatch);
  EXPECT_TRUE(std::isnan(accuracy.get().second)) << "a refused batch was counted";
}

TEST(Accuracy, RecordsNothing) {
  metric::Accuracy accuracy;
  const Tensor scores = array({{0.1f, 0.9f}});
  scores.attach_grad();
  autograd::Record record;
  accuracy.update(array({1}), scores);
  accuracy.update(array({1}), scores);
  EXPECT_DOUBLE_EQ(accuracy.get().second, 1);
}

}  // namespace
}  // namespace locus
