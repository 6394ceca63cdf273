// The exponential of matrices: Higham, The scaling and squaring method for the matrix exponential
// revisited (2005), with the approximant of degree 13 for every norm.
#include <algorithm>
#include <cmath>
#include <vector>

#include <locus/core/amp.h>
#include <locus/core/autograd.h>
#include <locus/core/base/at_line.h>
#include <locus/core/base/recording_hooks.h>
#include <locus/core/observe/memory_events.h>
#include <locus/ops/call_check.h>
#include <locus/ops/compare.h>
#include <locus/ops/copy.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/linalg.h>
#include <locus/ops/linalg/matrices.h>
#include <locus/ops/linalg/operands.h>
#include <locus/ops/matmul.h>
#include <locus/ops/reduce.h>
#include <locus/ops/unary.h>
#include <locus/ops/view.h>

namespace locus {
namespace {

using namespace linalg;

// How often each matrix is halved, until its norm is at most kMaxNorm, for which the approximant is
// exact to f64. 0 for a norm that is not finite: the result is NaN.
std::vector<int> count_halvings(const Tensor& a, Caller from) {
  constexpr double kMaxNorm = 5.371920351148152;
  capture::check_wait(a.context(), "expm", from);
  const autograd::Pause pause(autograd::is_training());
  const Tensor norms = max(sum(abs(a.astype(f64)), {.axis = -2}), {.axis = -1});
  std::vector<int> all;
  for (const double norm : norms.to_vector<double>(from)) {
    int exponent = 0;  // norm / kMaxNorm is below 2^exponent
    if (std::isfinite(norm)) std::frexp(norm / kMaxNorm, &exponent);
    all.push_back(std::max(exponent, 0));
  }
  return all;
}

// (v - u)^-1 (v + u), with u the odd terms of the numerator and v the even ones.
Tensor compute_approximant(const Tensor& a) {
  constexpr double kTerms[] = {64764752532480000,
                               32382376266240000,
                               7771770303897600,
                               1187353796428800,
                               129060195264000,
                               10559470521600,
                               670442572800,
                               33522128640,
                               1323241920,
                               40840800,
                               960960,
                               16380,
                               182,
                               1};
  // The constant term is 1, so that the exponential of 0 is exact.
  const auto b = [&](int i) { return kTerms[i] / kTerms[0]; };
  const Tensor one = identity_like(a);
  const Tensor a2 = matmul(a, a), a4 = matmul(a2, a2), a6 = matmul(a4, a2);
  const auto sum_of = [&](int first) {
    const Tensor high = a6 * b(first + 12) + a4 * b(first + 10) + a2 * b(first + 8);
    return matmul(a6, high) + a6 * b(first + 6) + a4 * b(first + 4) + a2 * b(first + 2) +
           one * b(first);
  };
  const Tensor u = matmul(a, sum_of(1)), v = sum_of(0);
  return solve_op(v - u, v + u)[0];
}

// A value for each matrix, on a's context.
template <class T>
Tensor make_factors(const Tensor& a, const std::vector<int>& halvings, DType d, T value_of) {
  std::vector<double> values;
  for (const int times : halvings) values.push_back(value_of(times));
  Meta batch = make_meta(d, a.shape());
  batch.shape[batch.rank - 2] = batch.shape[batch.rank - 1] = 1;
  return array(values, Shape(batch), {a.context(), d});
}

}  // namespace

Tensor expm(const Tensor& operand, Caller from) try {
  const UserLine user_line(from);
  const amp::Scope full_precision(std::nullopt);
  const Tensor a = prepare_square_matrices("expm", operand);
  if (a.size() == 0) return copy(a);
  const std::vector<int> halvings = count_halvings(a, from);
  const int max_halvings = std::ranges::max(halvings);
  Tensor power = a;
  if (max_halvings > 0)
    power = a * make_factors(a, halvings, a.dtype(), [](int n) { return std::ldexp(1, -n); });
  power = compute_approximant(power);
  for (int i = 0; i < max_halvings; ++i) {
    const Tensor squared = matmul(power, power);
    power =
        std::ranges::min(halvings) > i
            ? squared
            : where(make_factors(a, halvings, bool_, [i](int n) { return n > i; }), squared, power);
  }
  return power;
} catch (const Error&) {
  detail::rethrow_as("expm", from);
}

}  // namespace locus
