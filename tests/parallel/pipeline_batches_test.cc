// The batches that a pipeline takes, and how it cuts them.
#include <locus/nn/pipeline.h>

#include <locus/core/autograd.h>
#include <locus/nn/layers.h>
#include <locus/nn/loss.h>
#include <locus/ops/create.h>
#include "tests/ranks/groups.h"

namespace locus::test {
namespace {

using nn::Pipeline;

class PipelineBatches : public testing::Test {
 protected:
  explicit PipelineBatches(int microbatches = 2)
      : pipe({nn::Dense(4), nn::Dense(3)}, hosts(2), {.microbatches = microbatches}) {
    pipe.initialize();
  }
  Pipeline pipe;
  nn::SoftmaxCrossEntropyLoss loss;
};

TEST_F(PipelineBatches, ThatDoNotFitAreRefused) {
  const Tensor x = ones({4, 5}), y = zeros({4});
  EXPECT_THROW(pipe.forward_backward(ones({1, 5}), zeros({1}), loss), ValueError);
  EXPECT_THROW(pipe.forward_backward(x, y, nn::LossFunction()), ValueError);
  EXPECT_THROW(pipe.forward_backward(x, zeros({3}), loss), ShapeError);
  const Tensor leaf = ones({4, 5});
  leaf.attach_grad();
  EXPECT_THROW(pipe.forward_backward(leaf, y, loss), Error);
  EXPECT_EQ(pipe.forward_backward(x, y, loss).shape(), Shape{4});
}

TEST_F(PipelineBatches, ThatDoNotDivideHaveLongerPartsFirst) {
  Pipeline six({nn::Dense(4), nn::Dense(3)}, hosts(2), {.microbatches = 6});
  six.initialize();
  std::vector<int64_t> sizes;
  six.forward_backward(ones({14, 5}), zeros({14}), [&](const Tensor& out, const Tensor& label) {
    sizes.push_back(label.shape()[0]);
    return loss(out, label);
  });
  EXPECT_EQ(sizes, (std::vector<int64_t>{3, 3, 2, 2, 2, 2}));
}

TEST_F(PipelineBatches, GiveLossesThatAreNoPartOfAGraph) {
  const autograd::Record record;
  const Tensor losses = pipe.forward_backward(ones({4, 5}), zeros({4}), loss);
  EXPECT_THROW(losses.backward(), Error);
}

}  // namespace
}  // namespace locus::test
