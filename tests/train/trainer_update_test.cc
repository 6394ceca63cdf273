// What update() does without a sum, and what a Trainer's states leave out.
#include <locus/core/generator.h>
#include <locus/nn/checkpoint.h>
#include <locus/nn/layers.h>
#include "tests/ranks/groups.h"
#include "tests/support/folder.h"
#include "tests/train/training.h"

namespace locus::test {
namespace {

TEST(TrainerUpdate, WithoutASumUsesEachContextsGradient) {
  for (const auto& where : places(2)) {
    nn::Parameter p("p", {1}, {.init = init::Zero()});
    p.initialize(init::Zero(), where);
    nn::Trainer trainer({{"p", p}}, optim::SGD({.learning_rate = 1}));
    for (size_t i = 0; i < 2; ++i) {
      Tensor y;
      {
        const autograd::Record record;
        y = p.list_data()[i] * (1. + static_cast<double>(i));
      }
      y.backward();
    }
    trainer.update(1);
    EXPECT_EQ(values(p.list_data()[0]), std::vector<double>{-1});
    EXPECT_EQ(values(p.list_data()[1]), std::vector<double>{-2});
  }
}

TEST(TrainerUpdate, StatesHoldNoLearningRate) {
  const Folder folder;
  const std::string file = folder / "states";
  nn::Parameter p("p", {1}, {.init = init::Zero()});
  p.initialize();
  nn::Trainer saved({{"p", p}}, optim::SGD({.learning_rate = .1, .momentum = .9}));
  saved.set_learning_rate(.5);
  backward(p);
  saved.step(1);
  saved.save_states(file);
  nn::Trainer loaded({{"p", p}}, optim::SGD({.learning_rate = .1, .momentum = .9}));
  loaded.load_states(file);
  EXPECT_EQ(loaded.num_update(), 1);
  EXPECT_EQ(loaded.learning_rate(), .1);
}

TEST(TrainerUpdate, ACheckpointOfATrainerThatMovedIsRefused) {
  const Folder folder;
  nn::Dense layer(1, {}, {.in_units = 2});
  layer.initialize();
  nn::Trainer trainer(layer.parameters(), optim::SGD());
  const checkpoint::Parts parts{layer, trainer};
  const nn::Trainer moved = std::move(trainer);
  EXPECT_THROW(checkpoint::save(folder / "run", parts), Error);
  EXPECT_FALSE(checkpoint::load(folder / "run", {layer}));
}

}  // namespace
}  // namespace locus::test
