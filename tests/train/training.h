#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <locus/core/autograd.h>
#include <locus/nn/loss.h>
#include <locus/nn/trainer.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>

#include "tests/support/contexts.h"

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

// The step that nn::TrainStep compiles.
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

// The results of a training run, to be compared bit by bit.
struct Outcome {
  std::vector<std::vector<double>> losses, parameters;
  friend bool operator==(const Outcome&, const Outcome&) = default;
};

// Differences are at most `limit` times the largest expected entry.
inline void expect_close(const std::vector<double>& got, const std::vector<double>& expected,
                         double limit, const std::string& what) {
  ASSERT_EQ(got.size(), expected.size()) << what;
  double largest = 0, off = 0;
  for (size_t k = 0; k < expected.size(); ++k) {
    largest = std::max(largest, std::abs(expected[k]));
    const double by = std::abs(got[k] - expected[k]);
    if (!(by <= off) && !std::isnan(off)) off = by;
  }
  EXPECT_LE(off, limit * largest) << what;
}

// Each parameter by its own largest entry.
inline void expect_close(const std::vector<std::vector<double>>& got,
                         const std::vector<std::vector<double>>& expected, double limit) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i)
    expect_close(got[i], expected[i], limit, "parameter " + std::to_string(i));
}

}  // namespace locus::test
