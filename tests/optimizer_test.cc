#include "tests/contexts.h"

#include <locus/locus.h>

namespace locus {
namespace {

using Values = std::vector<double>;

// w, g and the same steps as plain loops.
struct Model {
  Values w, m;
  void step(const Values& g, const optim::SGDOptions& o, double rescale) {
    m.resize(w.size());
    for (size_t i = 0; i < w.size(); ++i) {
      double d = g[i] * rescale;
      if (o.clip_gradient) d = std::max(-*o.clip_gradient, std::min(*o.clip_gradient, d));
      d += o.wd * w[i];
      m[i] = o.momentum * m[i] - o.learning_rate * d;
      w[i] += m[i];
    }
  }
};

void compare(const optim::SGDOptions& options, Context c) {
  const Tensor w = array({1.f, -2.f, 3.f}, c), v = array({5.f}, c);
  Model a{{1, -2, 3}, {}}, b{{5}, {}};
  optim::SGD sgd(options);
  optim::ParameterGroup group{{w, v}, {}, {}, 1, 1};
  const Tensors sw = sgd.create_state(w), sv = sgd.create_state(v);
  for (size_t k = 0; k < sw.size(); ++k) group.state.push_back({sw[k], sv[k]});
  for (int i = 1; i <= 4; ++i) {
    const double s = i;
    group.gradients = {array(std::vector<float>{float(s), float(-2 * s), float(8 * s)}, c),
                       array(std::vector<float>{float(s / 2)}, c)};
    sgd.update(group, 0.5);
    a.step({s, -2 * s, 8 * s}, options, 0.5);
    b.step({s / 2}, options, 0.5);
  }
  const Values got = test::values(w);
  for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(got[i], a.w[i], 1e-5);
  EXPECT_NEAR(test::values(v)[0], b.w[0], 1e-5);
}

TEST(SGD, FollowsMxnet) {
  for (Context c : test::contexts()) {
    SCOPED_TRACE(to_string(c));
    compare({.learning_rate = 0.1}, c);
    compare({.learning_rate = 0.1, .wd = 0.01}, c);
    compare({.learning_rate = 0.1, .momentum = 0.9}, c);
    compare({.learning_rate = 0.1, .momentum = 0.9, .wd = 0.01, .clip_gradient = 1.5}, c);
  }
}

TEST(SGD, Defaults) {
  EXPECT_EQ(optim::SGD().learning_rate(), 0.01);
  EXPECT_TRUE(optim::SGD().create_state(ones({2})).empty());
  EXPECT_THROW(optim::SGD({.clip_gradient = -1.0}), Error);
}

TEST(Schedule, CosineFallsFromBaseToZero) {
  const optim::Schedule s = optim::cosine(0.4, 100);
  EXPECT_DOUBLE_EQ(s(0), 0.4);
  EXPECT_NEAR(s(50), 0.2, 1e-12);
  EXPECT_NEAR(s(25), 0.4 * 0.5 * (1 + std::sqrt(0.5)), 1e-12);
  EXPECT_EQ(s(100), 0);
  EXPECT_EQ(s(1000), 0);
  EXPECT_EQ(optim::constant(0.3)(12345), 0.3);
  EXPECT_THROW(optim::cosine(0.4, 0), Error);
}

}  // namespace
}  // namespace locus
