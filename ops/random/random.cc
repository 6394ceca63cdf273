#include <locus/ops/random.h>

#include <cmath>
#include <limits>
#include <utility>

#include <locus/core/base/at_line.h>
#include <locus/core/error.h>
#include <locus/core/observe/memory_events.h>
#include <locus/ops/call_check.h>
#include <locus/ops/random/draw.h>

namespace locus {

namespace {

using random::detail::check_tries, random::detail::draw, random::detail::kWordsOfElement;

// The largest number of a floating dtype.
double greatest(DType d) {
  return d == f16    ? 65504
         : d == bf16 ? 0x1.fep127
         : d == f64  ? std::numeric_limits<double>::max()
                     : double{std::numeric_limits<float>::max()};
}

void check_interval(DType d, double low, double high) {
  const bool any = d == f16    ? Interval<Half>::of(low, high).any()
                   : d == bf16 ? Interval<BFloat16>::of(low, high).any()
                   : d == f64  ? Interval<double>::of(low, high).any()
                               : Interval<float>::of(low, high).any();
  if (!any)
    throw ValueError("uniform: no number of dtype ", name(d), " is in [low, high), low ", low,
                     ", high ", high, "; expected bounds further apart, or a wider dtype");
}

uint64_t words_of(const TensorOptions& o) { return o.dtype == f64 ? 2 : 1; }

void check_normal(const char* op, DType d, double loc, double scale) {
  const double most = greatest(d);
  if (!(scale >= 0 && scale <= most && std::abs(loc) <= most))
    throw ValueError(op, ": expected loc and scale >= 0 of at most ", most, ", got loc ", loc,
                     ", scale ", scale);
}

void check_chance(const char* op, double p) {
  if (!(p >= 0 && p <= 1)) throw ValueError(op, ": expected a probability in [0, 1], got ", p);
}

template <class T>
bool holds_any(double lower, double upper) {
  return Interval<T>::closed(lower, upper).any();
}

void check_truncated(DType d, double lower, double upper, double mean, double std) {
  constexpr double kInf = std::numeric_limits<double>::infinity(), kFar = 1e150;
  const auto bad = [&](const char* expected) {
    return ValueError("truncated_normal: lower ", lower, ", upper ", upper, ", mean ", mean,
                      ", std ", std, ": expected ", expected);
  };
  if (!(lower <= upper) || lower == kInf || upper == -kInf) throw bad("lower <= upper");
  if (!(std >= 0 && std <= kFar && std::abs(mean) <= kFar))
    throw bad("a mean and a std >= 0 of at most 1e150");
  if (std == 0 && !(lower <= mean && mean <= upper))
    throw bad("for std 0 a mean between the bounds");
  if (std > 0 && ((lower - mean) / std > kFar || (upper - mean) / std < -kFar))
    throw bad("bounds that are not that many stds away from the mean");
  const bool any = d == f16    ? holds_any<Half>(lower, upper)
                   : d == bf16 ? holds_any<BFloat16>(lower, upper)
                   : d == f64  ? holds_any<double>(lower, upper)
                               : holds_any<float>(lower, upper);
  if (!any) throw bad(text_of("bounds with a number of dtype ", name(d), " between them").c_str());
}

}  // namespace

namespace random {

Tensor uniform(double low, double high, const Shape& shape, TensorOptions o, Caller from) try {
  const UserLine user_line(from);
  static const OpRef<RandomAttrs> op("uniform");
  const DType d = o.dtype.value_or(f32);
  // The narrower dtypes are drawn in f32.
  const double most = greatest(d), apart = greatest(d == f64 ? f64 : f32);
  if (!(low <= high && high - low <= apart && -most <= low && high <= most))
    throw ValueError("uniform: expected low <= high that ", name(d),
                     " holds, not further apart than ", apart, ", got low ", low, ", high ", high);
  check_interval(d, low, high);
  return draw(op, RandomAttrs{.a = low, .b = high}, shape, o, f32, words_of(o));
} catch (const Error&) {
  locus::detail::rethrow_as("uniform", from);
}

Tensor normal(double loc, double scale, const Shape& shape, TensorOptions o, Caller from) try {
  const UserLine user_line(from);
  static const OpRef<RandomAttrs> op("normal");
  check_normal("normal", o.dtype.value_or(f32), loc, scale);
  return draw(op, RandomAttrs{.a = loc, .b = scale}, shape, o, f32, words_of(o));
} catch (const Error&) {
  locus::detail::rethrow_as("normal", from);
}

Tensor truncated_normal(double lower, double upper, double mean, double std, const Shape& shape,
                        TensorOptions o, Caller from) try {
  const UserLine user_line(from);
  static const OpRef<TruncatedAttrs> op("truncated_normal");
  check_truncated(o.dtype.value_or(f32), lower, upper, mean, std);
  const TruncatedAttrs a{.a = mean, .b = std, .lower = lower, .upper = upper};
  return draw(op, a, shape, o, f32, kWordsOfElement);
} catch (const Error&) {
  locus::detail::rethrow_as("truncated_normal", from);
}

Tensor laplace(double loc, double scale, const Shape& shape, TensorOptions o, Caller from) try {
  const UserLine user_line(from);
  static const OpRef<RandomAttrs> op("laplace");
  check_normal("laplace", o.dtype.value_or(f32), loc, scale);
  return draw(op, RandomAttrs{.a = loc, .b = scale}, shape, o, f32, words_of(o));
} catch (const Error&) {
  locus::detail::rethrow_as("laplace", from);
}

Tensor randint(int64_t low, int64_t high, const Shape& shape, TensorOptions o, Caller from) try {
  const UserLine user_line(from);
  static const OpRef<RandomAttrs> op("randint");
  const DType dtype = o.dtype.value_or(i32);
  if (low >= high || !holds(dtype, low) || !holds(dtype, high - 1))
    throw ValueError("randint: expected low < high, both within ", name(dtype), ", got low ", low,
                     ", high ", high);
  const uint64_t range = static_cast<uint64_t>(high) - static_cast<uint64_t>(low);
  return draw(op, RandomAttrs{.low = low, .range = range}, shape, o, i32, 2);
} catch (const Error&) {
  locus::detail::rethrow_as("randint", from);
}

Tensor bernoulli(double prob, const Shape& shape, TensorOptions o, Caller from) try {
  const UserLine user_line(from);
  static const OpRef<RandomAttrs> op("bernoulli");
  check_chance("bernoulli", prob);
  return draw(op, RandomAttrs{.a = prob}, shape, o, f32, 1);
} catch (const Error&) {
  locus::detail::rethrow_as("bernoulli", from);
}

Tensor binomial(int64_t n, double p, const Shape& size, TensorOptions o, Caller from) try {
  const UserLine user_line(from);
  static const OpRef<RandomAttrs> op("binomial");
  check_chance("binomial", p);
  check_tries("binomial", n, o.dtype.value_or(i64));
  return draw(op, RandomAttrs{.a = p, .low = n}, size, o, i64, kWordsOfElement);
} catch (const Error&) {
  locus::detail::rethrow_as("binomial", from);
}

}  // namespace random

}  // namespace locus
