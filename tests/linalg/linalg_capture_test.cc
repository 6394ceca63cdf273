// Captures of linear algebra's functions: replays read new inputs and give eager's results.
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <locus/core/error.h>
#include <locus/ops/join.h>
#include "tests/linalg/matrices.h"
#include "tests/replay/captures.h"
#include "tests/support/contexts.h"

namespace locus::test {
namespace {

using testing::HasSubstr, testing::StartsWith;

struct CapturableCall {
  std::string name;
  std::function<Tensors(const Tensor& a, const Tensor& b)> run;
};

// Every function that can be captured.
std::vector<CapturableCall> capturable_calls() {
  using T = const Tensor&;
  return {
      {"cholesky", [](T a, T) -> Tensors { return {cholesky(a, {.check = false})}; }},
      {"solve", [](T a, T b) -> Tensors { return {solve(a, b, {.check = false})}; }},
      {"solve for a batch",
       [](T a, T b) -> Tensors {
         return {solve(a, expand_dims(stack({b, b * 2}), 1), {.check = false})};
       }},
      {"solve_triangular",
       [](T a, T b) -> Tensors {
         return {solve_triangular(a, b, {.check = false}),
                 solve_triangular(a, b, {.upper = true, .unit_diagonal = true})};
       }},
      {"inv", [](T a, T) -> Tensors { return {inv(a, {.check = false})}; }},
      {"lu",
       [](T a, T) -> Tensors {
         const Lu f = lu(a);
         return {f.p, f.l, f.u};
       }},
      {"det", [](T a, T) -> Tensors { return {det(a)}; }},
      {"slogdet",
       [](T a, T) -> Tensors {
         const Slogdet s = slogdet(a);
         return {s.sign, s.logabsdet};
       }},
      {"qr",
       [](T a, T) -> Tensors {
         const Qr f = qr(a), complete = qr(a, QrMode::complete);
         return {f.q, f.r, complete.q, complete.r, qr(a, QrMode::r).r};
       }},
      {"matrix_norm",
       [](T a, T) -> Tensors {
         return {matrix_norm(a), matrix_norm(a, {.ord = 1})};
       }},
      {"cond", [](T a, T) -> Tensors { return {cond(a, 1)}; }},
  };
}

// Equal values, or NaN in both.
void expect_same(const Tensor& got, const Tensor& wanted) {
  ASSERT_EQ(got.shape(), wanted.shape());
  const std::vector<double> x = values(got), y = values(wanted);
  for (size_t i = 0; i < x.size(); ++i)
    EXPECT_TRUE(x[i] == y[i] || (std::isnan(x[i]) && std::isnan(y[i])))
        << "element " << i << ": " << x[i] << ", expected " << y[i];
}

// One matrix, batches, and lengths around the limits between the solvers of a GPU.
std::vector<Shape> shapes() {
  std::vector<Shape> list{{5, 5}, {3, 5, 5}, {40, 40}, {2, 2, 40, 40}};
  if (!emulated_gpus()) list.insert(list.end(), {{600, 600}, {2, 600, 600}});
  return list;
}

TEST(LinalgCapture, ReplaysReadNewInputs) {
  LOCUS_NEEDS_ANY_GPUS(1);
  const Context c = gpu(0);
  for (const DType d : {f32, f64})
    for (const Shape& shape : shapes())
      for (const CapturableCall& call : capturable_calls()) {
        SCOPED_TRACE(text_of(call.name, " ", name(d), " ", shape));
        const Tensor a = positive_definite_numbers(shape, c, d);
        const Tensor b = normal_numbers({shape[-1], 2}, c, d, 1);
        call.run(a, b);  // prepares solvers
        Tensors results;
        Graph graph = recorded(c, [&] { results = call.run(a, b); });
        for (const double scale : {1., 3.}) {
          (positive_definite_numbers(shape, c, d) * scale + identity_like(a)).copyto(a);
          normal_numbers(b.shape(), c, d, static_cast<unsigned>(scale)).copyto(b);
          churn(c);
          graph.replay();
          const Tensors eager = call.run(a, b);
          for (size_t i = 0; i < eager.size(); ++i) expect_same(results[i], eager[i]);
          if (HasFailure()) return;
        }
      }
}

// A replay checks nothing. The singular entry gets NaN, and the other entry its result.
TEST(LinalgCapture, AReplayOfASingularMatrixGivesNaN) {
  LOCUS_NEEDS_ANY_GPUS(1);
  const Context c = gpu(0);
  const Tensor a = positive_definite_numbers({2, 4, 4}, c), wanted = inv(a);
  Tensor inverse, lower;
  Graph graph = recorded(c, [&] {
    inverse = inv(a, {.check = false});
    lower = cholesky(a, {.check = false});
  });
  graph.replay();
  expect_same(inverse, wanted);
  zeros({4, 4}, {c, f64}).copyto(a[1]);
  graph.replay();
  expect_same(inverse[0], wanted[0]);
  for (const double v : values(inverse[1])) EXPECT_TRUE(std::isnan(v));
  for (const double v : values(lower[1])) EXPECT_TRUE(std::isnan(v));
}

TEST(LinalgCapture, RefusesFunctionsOfEigenvaluesAndSingularValues) {
  LOCUS_NEEDS_ANY_GPUS(1);
  const Context c = gpu(0);
  const Tensor a = positive_definite_numbers({3, 3}, c);
  const std::vector<std::pair<std::string, std::function<void()>>> calls{
      {"eigh", [&] { eigh(a, {.check = false}); }},
      {"eigvalsh", [&] { eigvalsh(a, {.check = false}); }},
      {"svd", [&] { svd(a, {.check = false}); }},
      {"svdvals", [&] { svdvals(a, {.check = false}); }},
      {"pinv", [&] { pinv(a, {.check = false}); }},
      {"lstsq", [&] { lstsq(a, a, {.check = false}); }},
      {"matrix_rank", [&] { matrix_rank(a, {.check = false}); }},
      {"matrix_norm", [&] { matrix_norm(a, {.ord = "nuc"}); }},
      {"cond", [&] { cond(a); }},
  };
  for (const auto& [name, call] : calls) {
    Capture capture(c);
    EXPECT_THAT(message_of<CaptureError>(call),
                AllOf(StartsWith(name + ": "),
                      HasSubstr("cuSOLVER waits on the host while it iterates for one matrix")));
  }
}

}  // namespace
}  // namespace locus::test
