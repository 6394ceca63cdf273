// What the tests of training share.
#pragma once

#include <vector>

#include <locus/locus.h>

#include "tests/contexts.h"

namespace locus::test {

// The gradient 1 on every replica.
inline void backward(const nn::Parameter& p) {
  for (const Tensor& x : p.list_data()) {
    Tensor y;
    {
      const autograd::Record record;
      y = x + 1;
    }
    y.backward();
  }
}

// The step that nn::TrainStep compiles, as it runs.
Tensor eager_step(auto& net, const auto& loss, nn::Trainer& trainer, const Tensor& x,
                  const Tensor& y) {
  Tensor l;
  {
    const autograd::Record record;
    l = loss(net(x), y);
  }
  l.backward();
  trainer.step(x.shape()[0]);
  return l;
}

// What a training run leaves, to be compared bit by bit.
struct Outcome {
  std::vector<std::vector<double>> losses, parameters;
  friend bool operator==(const Outcome&, const Outcome&) = default;
};

// Parameters differ by at most `limit` of each one's largest entry.
inline void expect_near(const Outcome& a, const Outcome& b, double limit) {
  for (size_t i = 0; i < a.parameters.size(); ++i) {
    double largest = 0, off = 0;
    for (size_t k = 0; k < a.parameters[i].size(); ++k) {
      largest = std::max(largest, std::abs(a.parameters[i][k]));
      off = std::max(off, std::abs(a.parameters[i][k] - b.parameters[i][k]));
    }
    EXPECT_LE(off, limit * largest) << "parameter " << i;
  }
}

}  // namespace locus::test
