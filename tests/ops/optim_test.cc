#include <locus/ops/optim.h>

#include <cmath>
#include <functional>

#include <locus/core/autograd.h>
#include <locus/devices/cpu.h>
#include <locus/ops/copy.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/view.h>
#include "tests/support/contexts.h"
#include "tests/tape/gradcheck.h"

namespace locus::test {
namespace {

using testing::HasSubstr;
using Values = std::vector<double>;

Values irregular(int64_t n, int seed) {
  Values v(static_cast<size_t>(n));
  for (size_t i = 0; i < v.size(); ++i)
    v[i] = std::sin(static_cast<double>(i * i % 10007) + seed) * 2;
  return v;
}

// An update with numbers, and its formula on one element in f64: w, g and the states.
struct Case {
  std::string name;
  std::vector<bool> positive;  // states that are sums of squares
  std::function<void(const Tensors&, const Tensors&, const std::vector<Tensors>&)> run;
  std::function<void(double& w, double g, double* s)> formula;
};

template <class N>
Case make(const UpdateOp<N>& op, std::vector<bool> positive, const N& u, auto formula) {
  return {op.name, std::move(positive),
          [op, u](const Tensors& w, const Tensors& g, const std::vector<Tensors>& s) {
            op(w, g, s, u);
          },
          [u, formula](double& w, double g, double* s) { formula(u, w, g, s); }};
}

double clip(double g, double most) { return most < 0 ? g : std::min(std::max(g, -most), most); }
double clipped(const auto& u, double g) { return clip(u.rescale_grad * g, u.clip_gradient); }
double with_decay(const auto& u, double w, double g) {
  return clip(u.rescale_grad * g + u.wd * w, u.clip_gradient);
}
void mix(double& mean, double decay, double v) { mean = decay * mean + (1 - decay) * v; }
double sign(double v) { return v > 0 ? 1 : v < 0 ? -1 : 0; }

void sgd(const SGDUpdate& u, double& w, double g, double*) {
  w = (1 - u.lr * u.wd) * w - u.lr * clipped(u, g);
}
void sgd_mom(const SGDUpdate& u, double& w, double g, double* s) {
  s[0] = u.momentum * s[0] - u.lr * (clipped(u, g) + u.wd * w);
  w += s[0];
}
void nag(const SGDUpdate& u, double& w, double g, double* s) {
  const double d = clipped(u, g) + u.wd * w;
  s[0] = u.momentum * s[0] - u.lr * d;
  w += u.momentum * s[0] - u.lr * d;
}
void adam(const AdamUpdate& u, double& w, double g, double* s) {
  g = with_decay(u, w, g);
  mix(s[0], u.beta1, g);
  mix(s[1], u.beta2, g * g);
  w -= u.lr * s[0] / (std::sqrt(s[1]) + u.epsilon);
}
void adamw(const AdamWUpdate& u, double& w, double g, double* s) {
  g = clipped(u, g);
  mix(s[0], u.beta1, g);
  mix(s[1], u.beta2, g * g);
  w -= u.eta * (u.lr * s[0] / (std::sqrt(s[1]) + u.epsilon) + u.wd * w);
}
void adamax(const AdamUpdate& u, double& w, double g, double* s) {
  g = with_decay(u, w, g);
  mix(s[0], u.beta1, g);
  s[1] = std::max(u.beta2 * s[1], std::abs(g));
  w -= u.lr * s[0] / (s[1] + u.epsilon);
}
void nadam(const NadamUpdate& u, double& w, double g, double* s) {
  g = with_decay(u, w, g);
  mix(s[0], u.beta1, g);
  mix(s[1], u.beta2, g * g);
  const double m = (1 - u.momentum) * g / (1 - u.schedule) +
                   u.next_momentum * s[0] / (1 - u.schedule * u.next_momentum);
  w -= u.lr * m / (std::sqrt(s[1] / u.correction2) + u.epsilon);
}
void rmsprop(const RMSPropUpdate& u, double& w, double g, double* s) {
  g = with_decay(u, w, g);
  mix(s[0], u.gamma1, g * g);
  w = clip(w - u.lr * g / std::sqrt(s[0] + u.epsilon), u.clip_weights);
}
void rmspropalex(const RMSPropUpdate& u, double& w, double g, double* s) {
  g = with_decay(u, w, g);
  mix(s[0], u.gamma1, g * g);
  mix(s[1], u.gamma1, g);
  s[2] = u.gamma2 * s[2] - u.lr * g / std::sqrt(std::max(s[0] - s[1] * s[1], 0.) + u.epsilon);
  w = clip(w + s[2], u.clip_weights);
}
void adagrad(const AdaGradUpdate& u, double& w, double g, double* s) {
  g = clipped(u, g);
  s[0] += g * g;
  w -= u.lr * (g / std::sqrt(s[0] + u.epsilon) + u.wd * w);
}
void adadelta(const AdaDeltaUpdate& u, double& w, double g, double* s) {
  g = clipped(u, g);
  mix(s[0], u.rho, g * g);
  const double delta = std::sqrt(s[1] + u.epsilon) / std::sqrt(s[0] + u.epsilon) * g;
  mix(s[1], u.rho, delta * delta);
  w -= u.lr * (delta + u.wd * w);
}
void ftrl(const FtrlUpdate& u, double& w, double g, double* s) {
  g = clipped(u, g);
  s[0] += g - (std::sqrt(s[1] + g * g) - std::sqrt(s[1])) * w / u.lr;
  s[1] += g * g;
  w = std::abs(s[0]) <= u.lamda1
          ? 0
          : (sign(s[0]) * u.lamda1 - s[0]) / ((u.beta + std::sqrt(s[1])) / u.lr + u.wd);
}
void signsgd(const SignumUpdate& u, double& w, double g, double*) {
  w = (1 - u.lr * u.wd) * w - u.lr * sign(g);
}
void signum(const SignumUpdate& u, double& w, double g, double* s) {
  s[0] = u.momentum * s[0] - (1 - u.momentum) * (clipped(u, g) + u.wd * w);
  w = (1 - u.lr * u.wd_lh) * w + u.lr * sign(s[0]);
}
void lion(const LionUpdate& u, double& w, double g, double* s) {
  g = clipped(u, g);
  double direction = s[0];
  mix(direction, u.beta1, g);
  w -= u.lr * (sign(direction) + u.wd * w);
  mix(s[0], u.beta2, g);
}

// Each with its own numbers alone, and with decay, scale and limits.
std::vector<Case> cases() {
  const auto more = [](auto u) {
    u.wd = .02;
    u.rescale_grad = .25;
    u.clip_gradient = .3;
    return u;
  };
  std::vector<Case> all;
  const auto add = [&](const auto& op, std::vector<bool> positive, auto u, auto formula) {
    all.push_back(make(op, positive, u, formula));
    all.push_back(make(op, positive, more(u), formula));
  };
  add(sgd_update, {}, SGDUpdate{.lr = .1}, sgd);
  add(sgd_mom_update, {false}, SGDUpdate{.lr = .1, .momentum = .9}, sgd_mom);
  add(nag_mom_update, {false}, SGDUpdate{.lr = .1, .momentum = .8}, nag);
  add(adam_update, {false, true}, AdamUpdate{.lr = .1, .epsilon = 1e-3}, adam);
  add(adamw_update, {false, true}, AdamWUpdate{.lr = .5, .eta = .1, .epsilon = 1e-3}, adamw);
  add(adamax_update, {false, true}, AdamUpdate{.lr = .1, .epsilon = 1e-3}, adamax);
  add(nadam_update, {false, true},
      NadamUpdate{.lr = .1,
                  .epsilon = 1e-3,
                  .momentum = .45,
                  .next_momentum = .5,
                  .schedule = .2,
                  .correction2 = .3},
      nadam);
  add(rmsprop_update, {true}, RMSPropUpdate{.lr = .1, .epsilon = 1e-3}, rmsprop);
  add(rmsprop_update, {true}, RMSPropUpdate{.lr = .1, .epsilon = 1e-3, .clip_weights = .7},
      rmsprop);
  add(rmspropalex_update, {true, false, false}, RMSPropUpdate{.lr = .1, .epsilon = .5},
      rmspropalex);
  add(adagrad_update, {true}, AdaGradUpdate{.lr = .1, .epsilon = 1e-3}, adagrad);
  add(adadelta_update, {true, true}, AdaDeltaUpdate{.lr = .5, .epsilon = 1e-2}, adadelta);
  add(ftrl_update, {false, true}, FtrlUpdate{.lr = .3}, ftrl);
  add(signsgd_update, {}, SignumUpdate{.lr = .1}, signsgd);
  add(signum_update, {false}, SignumUpdate{.lr = .1, .wd_lh = .03}, signum);
  add(lion_update, {false}, LionUpdate{.lr = .1, .beta1 = .8}, lion);
  return all;
}

// The tensors of a call on a context, and their values.
struct Updated {
  std::vector<int64_t> sizes;
  Tensors w, g;
  std::vector<Tensors> states;
  std::vector<Values> ws, gs;
  std::vector<std::vector<Values>> ss;  // [kind][tensor]

  Updated(const Case& each, std::vector<int64_t> n, Context c, DType d, bool master)
      : sizes(std::move(n)), states(each.positive.size()), ss(each.positive.size()) {
    for (size_t i = 0; i < sizes.size(); ++i) {
      const int seed = static_cast<int>(i);
      w.push_back(from_values(irregular(sizes[i], seed), {sizes[i]}, c, d));
      g.push_back(from_values(irregular(sizes[i], seed + 100), {sizes[i]}, c, d));
      ws.push_back(values(w.back()));
      gs.push_back(values(g.back()));
      for (size_t k = 0; k < states.size(); ++k) {
        Values v = irregular(sizes[i], seed + 200 + static_cast<int>(k));
        if (each.positive[k])
          for (double& x : v) x = x * x + 4;  // more than any mean's square
        states[k].push_back(from_values(v, {sizes[i]}, c, master ? f32 : d));
        ss[k].push_back(values(states[k].back()));
      }
    }
    if (master) states.push_back(cast_all());
    each.run(w, g, states);
    for (size_t i = 0; i < sizes.size(); ++i)
      for (size_t j = 0; j < ws[i].size(); ++j) {
        double s[3] = {};
        for (size_t k = 0; k < ss.size(); ++k) s[k] = ss[k][i][j];
        each.formula(ws[i][j], gs[i][j], s);
        for (size_t k = 0; k < ss.size(); ++k) ss[k][i][j] = s[k];
      }
  }
  Tensors cast_all() const {
    Tensors all;
    for (const Tensor& t : w) all.push_back(t.astype(f32));
    return all;
  }
  void compare(double tolerance) const {
    for (size_t i = 0; i < sizes.size(); ++i) {
      expect_near(values(w[i]), ws[i], tolerance, "weight " + std::to_string(i));
      EXPECT_EQ(values(g[i]), gs[i]);
      for (size_t k = 0; k < ss.size(); ++k)
        expect_near(values(states[k][i]), ss[k][i], states[k][i].dtype() == f32 ? 2e-6 : tolerance,
                    "state " + std::to_string(k) + " of " + std::to_string(i));
    }
  }
};

constexpr double tolerance(DType d) {
  return d == f64 ? 1e-13 : d == f32 ? 2e-6 : d == f16 ? 1e-3 : 8e-3;
}

TEST(OptimizerUpdates, AgreeWithTheirFormulas) {
  for (const Case& each : cases())
    for (Context c : contexts())
      for (DType d : {f32, f64, f16, bf16}) {
        SCOPED_TRACE(each.name + " " + to_string(c) + " " + name(d));
        Updated(each, {1, 0, 515, 4099}, c, d, false).compare(tolerance(d));
        if (HasFailure()) return;
      }
}

TEST(OptimizerUpdates, WithMasterCopiesComputeInF32AndRoundTheWeights) {
  for (const Case& each : cases())
    for (Context c : contexts())
      for (DType d : {f16, bf16}) {
        SCOPED_TRACE(each.name + " " + to_string(c) + " " + name(d));
        const Updated run(each, {1, 0, 515, 4099}, c, d, true);
        run.compare(tolerance(d));
        for (size_t i = 0; i < run.sizes.size(); ++i) {
          expect_near(values(run.states.back()[i]), run.ws[i], 2e-6, "master");
          EXPECT_EQ(values(run.w[i]), values(run.states.back()[i].astype(d)));
        }
        if (HasFailure()) return;
      }
}

TEST(OptimizerUpdates, TakeMoreTensorsThanALaunch) {
  std::vector<int64_t> sizes = {784 * 256, 256, 256 * 128, 128, 1280, 10, 0, 1, 1024, 1025};
  for (int i = 0; i < 120; ++i) sizes.push_back(3 + 7 * i);
  const Case adam_case =
      make(adam_update, {false, true}, AdamUpdate{.lr = .1, .epsilon = 1e-3}, adam);
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    Updated(adam_case, sizes, c, f32, false).compare(2e-6);
  }
}

TEST(OptimizerUpdates, TakeTensorsAtAnyAddress) {
  for (Context c : contexts())
    for (DType d : {f32, f64, f16}) {
      const auto view = [&](int seed) {
        return from_values(irregular(5001, seed), {5001}, c, d)(Slice(1, {}));
      };
      const Tensor w = view(1), g = view(2), mean = zeros({5000}, {c, d});
      const Tensor w2 = w.copyto(c), g2 = g.copyto(c), mean2 = mean.copyto(c);
      sgd_mom_update({w}, {g}, {{mean}}, {.lr = .1, .momentum = .5});
      sgd_mom_update({w2}, {g2}, {{mean2}}, {.lr = .1, .momentum = .5});
      EXPECT_EQ(values(w), values(w2));
      EXPECT_EQ(values(mean), values(mean2));
    }
}

// The master copy does not undo a program's write to the weight.
TEST(OptimizerUpdates, AMasterFollowsAWeightThatWasChanged) {
  for (Context c : contexts()) {
    const Tensor w = full({3}, 1, {c, f16}), g = ones({3}, {c, f16});
    const Tensor master =
        from_values({1, 1.0001, 7}, {3}, c, f32);  // the last is of another weight
    sgd_update({w}, {g}, {{master}}, {.lr = .25});
    expect_near(values(master), Values{.75, .7501, .75}, 1e-6, "master");
    EXPECT_EQ(values(w), values(master.astype(f16)));
  }
}

TEST(OptimizerUpdates, MasterCopiesGatherWhatTheWeightCannotHold) {
  for (Context c : contexts()) {
    const Tensor w = ones({2}, {c, bf16}), plain = ones({2}, {c, bf16}), g = ones({2}, {c, bf16});
    const Tensor master = ones({2}, c);
    for (int i = 0; i < 100; ++i) {
      sgd_update({w}, {g}, {{master}}, {.lr = 1e-3});
      sgd_update({plain}, {g}, {}, {.lr = 1e-3});
    }
    expect_near(values(w), Values(2, .9), 4e-3, "weight");
    EXPECT_EQ(values(plain), Values(2, 1));
  }
}

TEST(SGDUpdate, FollowsMXNetsTrainerExample) {
  // test_gluon_trainer.py: lr 1, momentum 0.5, gradients of 1 twice: x = -1, then -2.5.
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor x = zeros({10}, c), g = ones({10}, c), m = zeros({10}, c);
    sgd_mom_update({x}, {g}, {{m}}, {.lr = 1, .momentum = 0.5});
    EXPECT_EQ(values(x), Values(10, -1));
    sgd_mom_update({x}, {g}, {{m}}, {.lr = 1, .momentum = 0.5});
    EXPECT_EQ(values(x), Values(10, -2.5));
  }
}

TEST(OptimizerUpdates, DoNotDependOnTheNumberOfThreads) {
  struct Restore {
    int n = num_threads();
    ~Restore() { set_num_threads(n); }
  } restore;
  std::vector<float> first;
  for (int threads : {1, 2, 5}) {
    set_num_threads(threads);
    const Tensor w = from_values(irregular(300007, 1), {300007}, cpu(), f32);
    const Tensor g = from_values(irregular(300007, 2), {300007}, cpu(), f32);
    const Tensor m = zeros({300007}), v = zeros({300007});
    for (int i = 0; i < 3; ++i) lamb_update({w}, {g}, {{m}, {v}}, {.lr = 0.1, .wd = 0.1});
    if (first.empty()) first = w.to_vector<float>();
    EXPECT_EQ(w.to_vector<float>(), first);
  }
}

TEST(OptimizerUpdates, LetNaNThroughTheClip) {
  for (Context c : contexts()) {
    const Tensor w = zeros({2}, c);
    sgd_update({w}, {from_values({NAN, 5}, {2}, c, f32)}, {}, {.lr = 1, .clip_gradient = 1});
    EXPECT_TRUE(std::isnan(values(w)[0]));
    EXPECT_EQ(values(w)[1], -1);
  }
}

TEST(OptimizerUpdates, TakeStridedGradients) {
  for (Context c : contexts()) {
    const Tensor w = zeros({3, 2}, c);
    const Tensor g = from_values({1, 2, 3, 4, 5, 6}, {2, 3}, c, f32).T();
    sgd_update({w}, {g}, {}, {.lr = 1});
    EXPECT_EQ(values(w), (Values{-1, -4, -2, -5, -3, -6}));
  }
}

TEST(OptimizerUpdates, SayWhatDoesNotFit) {
  const Tensor w = zeros({3}), g = ones({3});
  EXPECT_THAT(message_of<ShapeError>([&] { sgd_update({w}, {ones({4})}, {}, {}); }),
              HasSubstr("gradient"));
  EXPECT_THAT(message_of<DTypeError>([&] { sgd_update({w}, {ones({3}, f64)}, {}, {}); }),
              HasSubstr("dtype"));
  EXPECT_THROW(sgd_update({w, ones({2}, f64)}, {g, ones({2}, f64)}, {}, {}), DTypeError);
  EXPECT_THROW(sgd_update({w, w}, {g}, {}, {}), Error);
  EXPECT_THROW(sgd_mom_update({w}, {g}, {{w, w}}, {}), Error);
  EXPECT_THAT(message_of<Error>([&] {
                sgd_update({zeros({2, 3}).T()}, {zeros({3, 2})}, {}, {});
              }),
              HasSubstr("contiguous"));
  EXPECT_THROW(sgd_update({ones({3}, cpu(0))}, {ones({3}, cpu(1))}, {}, {}), ContextMismatch);
  EXPECT_THROW(sgd_update({ones({3}, i32)}, {ones({3}, i32)}, {}, {}), DTypeError);
  EXPECT_THAT(message_of<Error>([&] { adam_update({w}, {g}, {{w}}, {}); }), HasSubstr("var"));
  EXPECT_THAT(message_of<ShapeError>([&] {
                adam_update({w}, {g}, {{w}, {w}, {w}, {w}}, {});
              }),
              HasSubstr("2 states"));
  EXPECT_THAT(message_of<DTypeError>([&] { sgd_update({w}, {g}, {{w}}, {}); }),
              HasSubstr("master copies of f32"));
  const Tensor h = zeros({3}, f16);
  EXPECT_THAT(message_of<DTypeError>([&] {
                sgd_mom_update({h}, {h}, {{h}, {w}}, {});
              }),
              HasSubstr("state of dtype f32"));
  sgd_update({}, {}, {}, {});
}

}  // namespace
}  // namespace locus::test
