#include <algorithm>
#include <numeric>

#include <locus/ops/reduce/reduce_walk.h>
#include <locus/ops/reduce/reductions.h>
#include <locus/ops/softmax/softmax_kernel.h>
#include <locus/ops/statistics/nan.h>
#include "tests/references/reference.h"

namespace locus::test {
namespace {

using Values = std::vector<Real>;

// f of the elements of each result, in row-major order.
Array along(const Array& x, const ReduceAttrs& a, DType to,
            const std::function<Real(const Values&)>& f) {
  std::vector<int64_t> kept, shape;
  for (int i = 0; i < x.rank(); ++i) {
    const bool gone = a.axes >> i & 1;
    kept.push_back(gone ? 1 : x.shape[static_cast<size_t>(i)]);
    if (!gone || a.keepdims) shape.push_back(kept.back());
  }
  Array y(kept, to);
  std::vector<Values> elements(y.values.size());
  Array number(kept, i64);
  std::iota(number.values.begin(), number.values.end(), Real{0});
  each_place(x.shape, [&](const Place& p) {
    Place own = p;
    for (size_t i = 0; i < own.size(); ++i)
      if (a.axes >> i & 1) own[i] = 0;
    elements[static_cast<size_t>(number.at(own))].push_back(x.at(p));
  });
  std::ranges::transform(elements, y.values.begin(), f);
  y.shape = shape;
  return y;
}
template <class R, class F>
Reference reduction(F f) {
  return reference<ReduceBy<R>>(R::name, [f](const Arrays& in, const ReduceBy<R>& a) -> Arrays {
    const bool whole = !is_floating(in[0].dtype),
               counts = R::kOrdered || std::is_same_v<R, reduction::CountNonzero>;
    const bool sums = std::is_same_v<R, reduction::Sum> || std::is_same_v<R, reduction::Prod>;
    const DType to = counts || (sums && whole) ? i64 : in[0].dtype;
    return {along(in[0], a, to, [&](const Values& v) -> Real {
      if constexpr (std::is_invocable_v<F, const Values&, const R&>)
        return f(v, a.how);
      else
        return f(v);
    })};
  });
}

Real sum(const Values& v) { return std::accumulate(v.begin(), v.end(), Real{0}); }
Real mean(const Values& v) { return sum(v) / static_cast<Real>(v.size()); }
Real product(const Values& v) {
  return std::accumulate(v.begin(), v.end(), Real{1}, std::multiplies<>());
}
bool any_nan(const Values& v) {
  return std::ranges::any_of(v, [](Real x) { return std::isnan(x); });
}
Real greatest(const Values& v) {
  return v.empty() ? -kInf : any_nan(v) ? kNaN : std::ranges::max(v);
}
Real least(const Values& v) { return any_nan(v) ? kNaN : std::ranges::min(v); }
Real first_of(const Values& v, Real wanted) {
  const auto at = std::ranges::find_if(
      v, [&](Real x) { return std::isnan(wanted) ? std::isnan(x) : x == wanted; });
  return static_cast<Real>(at - v.begin());
}
Real variance(const Values& v, Real ddof) {
  Real squares = 0;
  for (Real x : v) squares += (x - mean(v)) * (x - mean(v));
  return squares / std::max(static_cast<Real>(v.size()) - ddof, Real{0});
}
Real log_sum_exp(const Values& v) {
  if (v.empty()) return -kInf;
  const Real top = greatest(v);
  if (std::isinf(top)) return top;
  Real total = 0;
  for (Real x : v) total += std::exp(x - top);
  return top + std::log(total);
}
Real norm(const Values& v, Real ord) {
  Values sizes;
  for (Real x : v) sizes.push_back(std::fabs(x));
  if (ord == kInf) return greatest(sizes);
  if (ord == -kInf) return least(sizes);
  Real total = 0;
  for (Real x : sizes) total += ord == 0 ? Real(x != 0) : std::pow(x, ord);
  return ord == 0 ? total : std::pow(total, 1 / ord);
}

// f of the numbers among the elements.
auto of_numbers(Real (*f)(const Values&), bool of_none) {
  return [=](const Values& v) -> Real {
    Values numbers;
    for (Real x : v)
      if (!std::isnan(x)) numbers.push_back(x);
    return numbers.empty() && !of_none ? kNaN : f(numbers);
  };
}

namespace r = reduction;

const References kReductions{{
    reduction<r::Sum>(sum),
    reduction<r::Mean>(mean),
    slope_of_result(each_exact(reduction<r::Prod>(product))),
    each_exact(reduction<r::Max>(greatest)),
    each_exact(reduction<r::Min>(least)),
    reduction<r::Any>(
        [](const Values& v) { return Real(std::ranges::count(v, 0) < std::ssize(v)); }),
    reduction<r::All>([](const Values& v) { return Real(std::ranges::count(v, 0) == 0); }),
    reduction<r::ArgMax>([](const Values& v) { return first_of(v, greatest(v)); }),
    reduction<r::ArgMin>([](const Values& v) { return first_of(v, least(v)); }),
    each_exact(reduction<r::Var>(
        [](const Values& v, const r::Var& how) { return variance(v, how.ddof); })),
    within_exponents(485, each_exact(reduction<r::Std>([](const Values& v, const r::Std& how) {
                       return std::sqrt(variance(v, how.ddof));
                     }))),
    reduction<r::LogSumExp>(log_sum_exp),
    each_exact(
        reduction<r::Norm>([](const Values& v, const r::Norm& how) { return norm(v, how.ord); })),
    reduction<r::NanSum>(of_numbers(sum, true)),
    reduction<r::NanMean>(of_numbers(mean, false)),
    each_exact(reduction<r::NanMax>(of_numbers(greatest, false))),
    each_exact(reduction<r::NanMin>(of_numbers(least, false))),
    each_exact(reduction<r::CountNonzero>([](const Values& v) {
      return static_cast<Real>(std::ssize(v) - std::ranges::count(v, 0));
    })),
    reference<SumToAttrs>("sum_to",
                          [](const Arrays& in, const SumToAttrs& a) -> Arrays {
                            Array y(lengths_of(a.target), in[0].dtype);
                            each_place(in[0].shape, [&](const Place& p) {
                              Place own(p.end() - y.rank(), p.end());
                              for (size_t i = 0; i < own.size(); ++i)
                                if (y.shape[i] == 1) own[i] = 0;
                              y.at(own) += in[0].at(p);
                            });
                            return {y};
                          }),
}};

// Applies f to each row of x along an axis.
Array rows(const Array& x, int axis, const std::function<Values(const Values&, const Place&)>& f) {
  Array y = x;
  std::vector<int64_t> others = x.shape;
  const auto k = static_cast<size_t>(axis);
  others[k] = 1;
  each_place(others, [&](Place p) {
    Values v;
    const Place first = p;
    for (p[k] = 0; p[k] < x.shape[k]; ++p[k]) v.push_back(x.at(p));
    v = f(v, first);
    for (p[k] = 0; p[k] < x.shape[k]; ++p[k]) y.at(p) = v[static_cast<size_t>(p[k])];
  });
  return y;
}
Values row_at(const Array& x, int axis, Place p) {
  Values v;
  const auto k = static_cast<size_t>(axis);
  for (p[k] = 0; p[k] < x.shape[k]; ++p[k]) v.push_back(x.at(p));
  return v;
}
Values softmax(Values v, Real temperature) {
  for (Real& x : v) x /= temperature;
  const Real top = greatest(v);
  Real total = 0;
  for (Real& x : v) total += x = std::exp(x - top);
  for (Real& x : v) x /= total;
  return v;
}
template <class F>
Reference of_rows(std::string op, F f) {
  return reference<SoftmaxAttrs>(
      std::move(op), [f](const Arrays& in, const SoftmaxAttrs& a) -> Arrays {
        return {rows(in[0], a.axis,
                     [&](const Values& v, const Place&) { return f(v, Real{a.temperature}); })};
      });
}
// f of a row of each input and the temperature.
template <class F>
Reference of_two_rows(std::string op, F f) {
  return reference<SoftmaxAttrs>(
      std::move(op), [f](const Arrays& in, const SoftmaxAttrs& a) -> Arrays {
        return {rows(in[0], a.axis, [&](const Values& v, const Place& p) {
          return f(v, row_at(in[1], a.axis, p), Real{a.temperature});
        })};
      });
}

Array losses(const Array& logits, const Array& labels) {
  Array y(labels.shape, logits.dtype);
  each_place(labels.shape, [&](Place p) {
    const auto label = static_cast<int64_t>(labels.at(p));
    Place first = p;
    first.push_back(0);
    const Values v = row_at(logits, logits.rank() - 1, first);
    y.at(p) = log_sum_exp(v) - v.at(static_cast<size_t>(label));
    for (Real x : v)
      if (!(x < kInf)) y.at(p) = kNaN;
  });
  return y;
}
// (softmax - one_hot) times the row's factor.
Array slopes(const Array& logits, const Array& labels, const Array& factor) {
  return rows(logits, logits.rank() - 1, [&](const Values& v, Place p) {
    p.pop_back();
    Values s = softmax(v, 1);
    s.at(static_cast<size_t>(labels.at(p))) -= 1;
    for (Real& x : s) x *= factor.at(p);
    return s;
  });
}

const References kSoftmax{{
    slope_cancels(each_exact(of_rows("softmax", softmax))),
    slope_cancels(of_rows("log_softmax",
                          [](Values v, Real t) {
                            for (Real& x : v) x /= t;
                            const Real all = log_sum_exp(v) < kInf ? log_sum_exp(v) : kNaN;
                            for (Real& x : v) x -= all;
                            return v;
                          })),
    of_two_rows("softmax_grad",
                [](Values y, const Values& dy, Real t) {
                  Real inner = 0;
                  for (size_t i = 0; i < y.size(); ++i) inner += y[i] * dy[i];
                  for (size_t i = 0; i < y.size(); ++i) y[i] *= (dy[i] - inner) / t;
                  return y;
                }),
    of_two_rows("log_softmax_grad",
                [](Values y, const Values& dy, Real t) {
                  for (size_t i = 0; i < y.size(); ++i)
                    y[i] = (dy[i] - std::exp(y[i]) * sum(dy)) / t;
                  return y;
                }),
    reference("softmax_cross_entropy",
              [](const Arrays& in) { return Arrays{losses(in[0], in[1])}; }),
    reference("softmax_cross_entropy_with_grad",
              [](const Arrays& in) {
                return Arrays{losses(in[0], in[1]),
                              slopes(in[0], in[1], Array(in[1].shape, in[0].dtype, 1))};
              }),
    reference("softmax_cross_entropy_grad",
              [](const Arrays& in) { return Arrays{slopes(in[0], in[1], in[2])}; }),
}};

}  // namespace
}  // namespace locus::test
