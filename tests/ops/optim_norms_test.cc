// Updates that use the norms of whole tensors.
#include <cmath>

#include <locus/ops/copy.h>
#include <locus/ops/create.h>
#include <locus/ops/optim.h>
#include "tests/support/contexts.h"
#include "tests/tape/gradcheck.h"

namespace locus::test {
namespace {

using Values = std::vector<double>;

Values irregular(int64_t n, int seed) {
  Values v(static_cast<size_t>(n));
  for (size_t i = 0; i < v.size(); ++i)
    v[i] = std::sin(static_cast<double>(i * i % 10007) + seed) * 2;
  return v;
}

double clipped(const auto& u, double g) {
  g *= u.rescale_grad;
  return u.clip_gradient < 0 ? g : std::min(std::max(g, -u.clip_gradient), u.clip_gradient);
}
void mix(double& mean, double decay, double v) { mean = decay * mean + (1 - decay) * v; }

constexpr double tolerance(DType d) {
  return d == f64 ? 1e-13 : d == f32 ? 2e-6 : d == f16 ? 1e-3 : 8e-3;
}

double norm_of(const Values& v) {
  double sum = 0;
  for (double x : v) sum += x * x;
  return std::sqrt(sum);
}

void lamb(const LambUpdate& u, Values& w, const Values& g, std::vector<Values>& s, int) {
  Values d(w.size());
  for (size_t i = 0; i < w.size(); ++i) {
    mix(s[0][i], u.beta1, clipped(u, g[i]));
    mix(s[1][i], u.beta2, std::pow(clipped(u, g[i]), 2));
    d[i] = s[0][i] / u.correction1 / (std::sqrt(s[1][i] / u.correction2) + u.epsilon) + u.wd * w[i];
  }
  double weight = norm_of(w), step = norm_of(d);
  if (u.lower_bound >= 0) weight = std::max(weight, u.lower_bound);
  if (u.upper_bound >= 0) weight = std::min(weight, u.upper_bound);
  const double ratio = weight == 0 || step == 0 ? 1 : weight / step;
  for (size_t i = 0; i < w.size(); ++i) w[i] -= u.lr * ratio * d[i];
}
void lars(const LarsUpdate& u, Values& w, const Values& g, std::vector<Values>& s, int rank) {
  const double weight = norm_of(w), grad = u.rescale_grad * norm_of(g);
  const bool counts = rank > 1 && weight > 0 && grad > 0;
  const double ratio = counts ? u.eta * weight / (grad + u.wd * weight + u.epsilon) : 1;
  for (size_t i = 0; i < w.size(); ++i) {
    s[0][i] = u.momentum * s[0][i] - ratio * (clipped(u, g[i]) + u.wd * w[i]);
    w[i] += u.lr * s[0][i];
  }
}

// Updates twice, with more tensors than a launch takes. Both launches have large tensors.
template <class N>
void expect_norms(const UpdateOp<N>& op, size_t n_states, const N& u, auto formula) {
  const std::vector<Shape> shapes{{3, 5}, {4099}, {0, 2}, {}, {64, 3, 3, 20}, {1, 1}, {70, 130}};
  for (Context c : contexts())
    for (const auto& [d, master] : std::vector<std::pair<DType, bool>>{
             {f32, false}, {f64, false}, {f16, false}, {bf16, false}, {f16, true}, {bf16, true}}) {
      SCOPED_TRACE(std::string(op.name) + " " + to_string(c) + " " + name(d));
      Tensors w, g;
      std::vector<Tensors> states(n_states);
      constexpr int kCopies = 12;
      for (int copy = 0; copy < kCopies; ++copy)
        for (const Shape& shape : shapes) {
          if (shape.size() > 5000 && copy > 0 && copy < kCopies - 1) continue;
          const int seed = static_cast<int>(w.size());
          w.push_back(seed == 0 ? zeros(shape, {c, d})  // a norm of 0
                                : from_values(irregular(shape.size(), seed), shape, c, d));
          g.push_back(from_values(irregular(shape.size(), seed + 100), shape, c, d));
          for (Tensors& s : states) s.push_back(zeros(shape, {c, master ? f32 : d}));
        }
      std::vector<Values> ws;
      std::vector<std::vector<Values>> ss;
      for (const Tensor& t : w) {
        ws.push_back(values(t));
        ss.emplace_back(n_states, Values(ws.back().size()));
      }
      if (master) {
        states.emplace_back();
        for (const Tensor& t : w) states.back().push_back(t.astype(f32));
      }
      for (int step = 0; step < (d == f16 || d == bf16 ? 1 : 2); ++step) {
        op(w, g, states, u);
        for (size_t i = 0; i < w.size(); ++i) formula(u, ws[i], values(g[i]), ss[i], w[i].ndim());
      }
      const double tolerance_of_w = master ? (d == f16 ? 1e-3 : 8e-3) : tolerance(d) * 2;
      for (size_t i = 0; i < w.size(); ++i) {
        expect_near(values(w[i]), ws[i], tolerance_of_w, "weight " + std::to_string(i));
        if (master) expect_near(values(states.back()[i]), ws[i], 3e-6, "master");
        for (size_t k = 0; k < n_states; ++k)
          expect_near(values(states[k][i]), ss[i][k], tolerance(d), "state");
      }
      if (testing::Test::HasFailure()) return;
    }
}

TEST(OptimizerUpdates, LambAndLarsGoByTheNormsOfTensors) {
  LambUpdate lamb_numbers{
      .lr = .1, .epsilon = 1e-2, .wd = .1, .correction1 = .2, .correction2 = .3};
  expect_norms(lamb_update, 2, lamb_numbers, lamb);
  lamb_numbers.rescale_grad = .5;
  lamb_numbers.clip_gradient = .3;
  lamb_numbers.lower_bound = .5;
  lamb_numbers.upper_bound = 2;
  expect_norms(lamb_update, 2, lamb_numbers, lamb);
  LarsUpdate lars_numbers{.lr = .1, .momentum = .9, .eta = .2};
  expect_norms(lars_update, 1, lars_numbers, lars);
  lars_numbers.wd = .1;
  lars_numbers.epsilon = .01;
  lars_numbers.rescale_grad = .5;
  lars_numbers.clip_gradient = .3;
  expect_norms(lars_update, 1, lars_numbers, lars);
}

}  // namespace
}  // namespace locus::test
