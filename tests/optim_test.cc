#include <locus/ops/optim.h>

#include <cmath>

#include <locus/core/autograd.h>
#include <locus/devices/cpu.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/view.h>
#include "tests/contexts.h"
#include "tests/gradcheck.h"

namespace locus::test {
namespace {

using testing::HasSubstr;

std::vector<double> irregular(int64_t n, int seed) {
  std::vector<double> v(static_cast<size_t>(n));
  for (size_t i = 0; i < v.size(); ++i)
    v[i] = std::sin(static_cast<double>(i * i % 10007) + seed) * 2;
  return v;
}

double clipped(double g, const SGDUpdate& u) {
  g *= u.rescale_grad;
  return u.clip_gradient < 0 ? g : std::min(std::max(g, -u.clip_gradient), u.clip_gradient);
}

// MXNet 1.x's formulas.
void naive(std::vector<double>& w, const std::vector<double>& g, std::vector<double>* m,
           const SGDUpdate& u) {
  for (size_t i = 0; i < w.size(); ++i) {
    if (m) {
      (*m)[i] = u.momentum * (*m)[i] - u.lr * (clipped(g[i], u) + u.wd * w[i]);
      w[i] += (*m)[i];
    } else {
      w[i] = (1 - u.lr * u.wd) * w[i] - u.lr * clipped(g[i], u);
    }
  }
}

TEST(SGDUpdate, FollowsMXNetsTrainerExample) {
  // test_gluon_trainer.py: lr 1, momentum 0.5, gradients of 1 twice: x = -1, then -2.5.
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor x = zeros({10}, c), g = ones({10}, c), m = zeros({10}, c);
    sgd_update({x}, {g}, {m}, {.lr = 1, .momentum = 0.5});
    EXPECT_EQ(values(x), std::vector<double>(10, -1));
    sgd_update({x}, {g}, {m}, {.lr = 1, .momentum = 0.5});
    EXPECT_EQ(values(x), std::vector<double>(10, -2.5));
  }
}

TEST(SGDUpdate, AgreesWithTheFormulasOnManyTensors) {
  const SGDUpdate updates[] = {
      {.lr = 0.1},
      {.lr = 0.1, .momentum = 0.9},
      {.lr = 0.1, .momentum = 0.9, .wd = 0.01, .rescale_grad = 0.25, .clip_gradient = 0.3},
      {.lr = 0.05, .momentum = 0, .wd = 0.1, .rescale_grad = 2, .clip_gradient = 1},
  };
  // 70 tensors: more than one launch takes.
  std::vector<int64_t> sizes = {784 * 256, 256, 256 * 128, 128, 1280, 10, 0, 1, 1024, 1025};
  for (int i = 0; i < 60; ++i) sizes.push_back(3 + 7 * i);
  for (Context c : contexts()) {
    for (DType d : {f32, f64, f16, bf16}) {
      for (const SGDUpdate& u : updates) {
        for (bool momenta : {false, true}) {
          SCOPED_TRACE(to_string(c) + " " + name(d) + (momenta ? " with momenta" : ""));
          Tensors w, g, m;
          std::vector<std::vector<double>> ws, gs, ms;
          for (size_t i = 0; i < sizes.size(); ++i) {
            const int seed = static_cast<int>(i);
            w.push_back(from_values(irregular(sizes[i], seed), {sizes[i]}, c, d));
            g.push_back(from_values(irregular(sizes[i], seed + 100), {sizes[i]}, c, d));
            m.push_back(from_values(irregular(sizes[i], seed + 200), {sizes[i]}, c, d));
            ws.push_back(values(w.back()));
            gs.push_back(values(g.back()));
            ms.push_back(values(m.back()));
          }
          sgd_update(w, g, momenta ? m : Tensors(), u);
          const double tol = d == f64 ? 1e-14 : d == f32 ? 1e-6 : d == f16 ? 1e-3 : 8e-3;
          for (size_t i = 0; i < sizes.size(); ++i) {
            naive(ws[i], gs[i], momenta ? &ms[i] : nullptr, u);
            expect_near(values(w[i]), ws[i], tol, "weight " + std::to_string(i));
            expect_near(values(m[i]), ms[i], tol, "momentum " + std::to_string(i));
            EXPECT_EQ(values(g[i]), gs[i]);
            if (HasFailure()) return;
          }
        }
      }
    }
  }
}

TEST(SGDUpdate, DoesNotDependOnTheNumberOfThreads) {
  struct Restore {
    int n = num_threads();
    ~Restore() { set_num_threads(n); }
  } restore;
  std::vector<float> first;
  for (int threads : {1, 2, 5}) {
    set_num_threads(threads);
    const Tensor w = from_values(irregular(300007, 1), {300007}, cpu(), f32);
    const Tensor g = from_values(irregular(300007, 2), {300007}, cpu(), f32);
    const Tensor m = zeros({300007});
    for (int i = 0; i < 3; ++i) sgd_update({w}, {g}, {m}, {.lr = 0.1, .momentum = 0.9, .wd = 0.1});
    if (first.empty()) first = w.to_vector<float>();
    EXPECT_EQ(w.to_vector<float>(), first);
  }
}

TEST(SGDUpdate, LetsNaNThroughTheClip) {
  for (Context c : contexts()) {
    const Tensor w = zeros({2}, c);
    sgd_update({w}, {from_values({NAN, 5}, {2}, c, f32)}, {}, {.lr = 1, .clip_gradient = 1});
    EXPECT_TRUE(std::isnan(values(w)[0]));
    EXPECT_EQ(values(w)[1], -1);
  }
}

TEST(SGDUpdate, TakesStridedGradients) {
  for (Context c : contexts()) {
    const Tensor w = zeros({3, 2}, c);
    const Tensor g = from_values({1, 2, 3, 4, 5, 6}, {2, 3}, c, f32).T();
    sgd_update({w}, {g}, {}, {.lr = 1});
    EXPECT_EQ(values(w), (std::vector<double>{-1, -4, -2, -5, -3, -6}));
  }
}

TEST(SGDUpdate, SaysWhatDoesNotFit) {
  const Tensor w = zeros({3}), g = ones({3});
  EXPECT_THAT(message_of<ShapeError>([&] { sgd_update({w}, {ones({4})}, {}, {}); }),
              HasSubstr("gradient"));
  EXPECT_THAT(message_of<DTypeError>([&] { sgd_update({w}, {ones({3}, f64)}, {}, {}); }),
              HasSubstr("dtype"));
  EXPECT_THROW(sgd_update({w, ones({2}, f64)}, {g, ones({2}, f64)}, {}, {}), DTypeError);
  EXPECT_THROW(sgd_update({w, w}, {g}, {}, {}), Error);
  EXPECT_THROW(sgd_update({w}, {g}, {w, w}, {}), Error);
  EXPECT_THAT(message_of<Error>([&] {
                sgd_update({zeros({2, 3}).T()}, {zeros({3, 2})}, {}, {});
              }),
              HasSubstr("contiguous"));
  EXPECT_THROW(sgd_update({ones({3}, cpu(0))}, {ones({3}, cpu(1))}, {}, {}), ContextMismatch);
  EXPECT_THROW(sgd_update({ones({3}, i32)}, {ones({3}, i32)}, {}, {}), DTypeError);
  sgd_update({}, {}, {}, {});
}

}  // namespace
}  // namespace locus::test
