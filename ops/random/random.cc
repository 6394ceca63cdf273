#include <locus/ops/random.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include <locus/core/base/at_line.h>
#include <locus/core/capture.h>
#include <locus/core/error.h>
#include <locus/core/observe/memory_events.h>
#include <locus/core/op.h>
#include <locus/devices/cpu.h>
#include <locus/ops/copy.h>
#include <locus/ops/create.h>
#include <locus/ops/index.h>
#include <locus/ops/random/random_kernel.h>

namespace locus {

namespace {

DType random_infer(std::span<const Meta>, const RandomAttrs& a, std::span<Meta> out) {
  out[0] = a.meta;
  return a.meta.dtype;
}

// `words`: 32-bit numbers per element.
Tensor draw(const Op& op, RandomAttrs a, const Shape& shape, const TensorOptions& o, DType fallback,
            uint64_t words) {
  const DType dtype = o.dtype.value_or(fallback);
  a.meta = locus::detail::checked_meta(op.name.c_str(), dtype, shape);
  const Context c = o.context.value_or(current_context());
  a.key = live<PhiloxKey>(c, random::source(static_cast<uint64_t>(shape.size()) * words));
  return invoke_on(c, op, a);
}

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

// Attributes that suit each distribution. Keys differ at each call and, if captured, at each
// replay.
Samples samples(Context c, DType d) {
  Samples all;
  for (const Shape& shape : {Shape{3, 7}, Shape{1001}}) {
    RandomAttrs r{.a = .3, .b = 2, .low = 3, .range = 100, .meta = make_meta(d, shape)};
    if (!all.empty()) r.a = .6, r.b = 1.3, r.low = 7, r.range = 41;
    r.key = live<PhiloxKey>(c, [] { return random::reserve(4096); });
    all.push_back(Sample({}, r));
  }
  return all;
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
  return draw(op, {.a = low, .b = high}, shape, o, f32, words_of(o));
} catch (const Error&) {
  rethrow_at(from);
}

Tensor normal(double loc, double scale, const Shape& shape, TensorOptions o, Caller from) try {
  const UserLine user_line(from);
  static const OpRef<RandomAttrs> op("normal");
  const double most = greatest(o.dtype.value_or(f32));
  if (!(scale >= 0 && scale <= most && std::abs(loc) <= most))
    throw ValueError("normal: expected loc and scale >= 0 of at most ", most, ", got loc ", loc,
                     ", scale ", scale);
  return draw(op, {.a = loc, .b = scale}, shape, o, f32, words_of(o));
} catch (const Error&) {
  rethrow_at(from);
}

Tensor randint(int64_t low, int64_t high, const Shape& shape, TensorOptions o, Caller from) try {
  const UserLine user_line(from);
  static const OpRef<RandomAttrs> op("randint");
  const DType dtype = o.dtype.value_or(i32);
  if (low >= high || !holds(dtype, low) || !holds(dtype, high - 1))
    throw ValueError("randint: expected low < high, both within ", name(dtype), ", got low ", low,
                     ", high ", high);
  const uint64_t range = static_cast<uint64_t>(high) - static_cast<uint64_t>(low);
  return draw(op, {.low = low, .range = range}, shape, o, i32, 2);
} catch (const Error&) {
  rethrow_at(from);
}

Tensor bernoulli(double prob, const Shape& shape, TensorOptions o, Caller from) try {
  const UserLine user_line(from);
  static const OpRef<RandomAttrs> op("bernoulli");
  if (!(prob >= 0 && prob <= 1))
    throw ValueError("bernoulli: expected a probability in [0, 1], got ", prob);
  return draw(op, {.a = prob}, shape, o, f32, 1);
} catch (const Error&) {
  rethrow_at(from);
}

Tensor permutation(int64_t n, TensorOptions o, Caller from) try {
  const UserLine user_line(from);
  if (n < 0) throw ValueError("permutation: expected n >= 0, got ", n);
  const DType dtype = o.dtype.value_or(i64);
  const auto exact = [dtype](int64_t v) {
    return dispatch(dtype, [v](auto type) {
      return convert<int64_t>(convert<typename decltype(type)::type>(v)) == v;
    });
  };
  if (n > 1 && !(exact(n - 1) && exact(n - 2)))  // one of them is odd
    throw DTypeError("permutation: numbers below ", n, " do not fit dtype ", name(dtype));
  capture::check("permutation", "it is drawn on the host");
  const Tensor order = empty({n}, {cpu(), i64});
  int64_t* const at = static_cast<int64_t*>(order.data_ptr());
  std::iota(at, at + n, int64_t{0});
  const PhiloxKey key = reserve(static_cast<uint64_t>(n) * 2);
  for (uint64_t i = static_cast<uint64_t>(n); i-- > 1;) {  // Fisher and Yates
    const uint64_t r = locus::detail::pair(philox(key, i / 2), static_cast<int>(i % 2));
    std::swap(at[i], at[locus::detail::multiply_high(r, i + 1)]);
  }
  return (dtype == i64 ? order : cast(order, dtype))
      .as_in_context(o.context.value_or(current_context()), from);
} catch (const Error&) {
  rethrow_at(from);
}

Tensor shuffle(const Tensor& x, Caller from) try {
  const UserLine user_line(from);
  if (x.ndim() == 0) throw ShapeError("shuffle: ", describe(x), ": expected at least one axis");
  return take(x, permutation(x.shape()[0], x.context(), from));
} catch (const Error&) {
  rethrow_at(from);
}

}  // namespace random

void register_random() {
  for (const char* name : {"uniform", "normal", "randint", "bernoulli"})
    OpDef<RandomAttrs>(name)
        .inputs(0)
        .infer<&random_infer>()
        .random()
        .no_gradient("has no inputs")
        .samples<&samples>();
}

}  // namespace locus
