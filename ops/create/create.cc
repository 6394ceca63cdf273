#include <locus/ops/create.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include <locus/core/base/at_line.h>
#include <locus/core/base/recording_hooks.h>
#include <locus/core/memory/storage.h>
#include <locus/core/observe/memory_events.h>
#include <locus/devices/cpu.h>
#include <locus/ops/call_check.h>
#include <locus/ops/create/create_kernel.h>

namespace locus {

namespace detail {

Meta checked_meta(const char* op, DType dtype, const Shape& shape) {
  for (int64_t n : shape)
    if (n < 0) throw ShapeError(op, ": lengths must not be negative, got shape ", shape);
  return make_meta(dtype, shape);
}

void check_number(const char* who, const Scalar& s, DType d) {
  if (holds(d, s)) [[likely]]
    return;
  throw DTypeError(who, "the number ", s.floating(), " does not fit dtype ", name(d),
                   "; give a dtype that can hold it");
}

}  // namespace detail

namespace {

using detail::check_number, detail::checked_meta;

Context where(const TensorOptions& o) { return o.context ? *o.context : current_context(); }

Tensor filled(const char* op, const Shape& shape, Scalar value, const TensorOptions& o) {
  static const OpRef<FillAttrs> fill("fill");
  return invoke_on(where(o), fill,
                   FillAttrs{value, checked_meta(op, o.dtype.value_or(f32), shape)});
}

// Checks row-major numbers on the host, before conversion to d.
void check_numbers(const View& v, DType d) {
  if (!is_integer(d)) return;
  dispatch(v.meta.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    for (const T& x : std::span(v.as<T>(), static_cast<size_t>(v.meta.size())))
      if constexpr (std::is_arithmetic_v<T>)
        check_number("array: ", x, d);
      else
        check_number("array: ", static_cast<float>(x), d);
  });
}

DType fill_infer(std::span<const Meta>, const FillAttrs& a, std::span<Meta> out) {
  check_number("", a.value, a.meta.dtype);
  out[0] = a.meta;
  return a.meta.dtype;
}

DType arange_infer(std::span<const Meta>, const ArangeAttrs& a, std::span<Meta> out) {
  out[0] = a.meta;
  const int64_t n = out[0].size();
  if (n == 0) return a.meta.dtype;
  check_number("", a.start, a.meta.dtype);
  check_number("", a.has_last ? a.last : a.start + static_cast<double>(n - 1) * a.step,
               a.meta.dtype);
  return a.meta.dtype;
}

Samples fill_samples(Context, DType d) {
  return {Sample({}, FillAttrs{3, make_meta(d, Shape{2, 5})}),
          Sample({}, FillAttrs{1.5, make_meta(d, Shape{})}),
          Sample({}, FillAttrs{true, make_meta(d, Shape{0, 3})})};
}

Samples arange_samples(Context, DType d) {
  ArangeAttrs a{1, 2, 0, false, make_meta(d, Shape{37})};
  ArangeAttrs b{-1, .25, 1, true, make_meta(d, Shape{9})};
  if (d == u8 || d == bool_) b.start = 0;
  return {Sample({}, a), Sample({}, b)};
}

Tensor run_arange(const ArangeAttrs& a, const TensorOptions& o) {
  static const OpRef<ArangeAttrs> op("arange");
  return invoke_on(where(o), op, a);
}

}  // namespace

namespace detail {

Tensor from_host(const void* data, DType d, const Shape& shape, TensorOptions options,
                 DType fallback, Caller from) try {
  const UserLine user_line(from);
  const Context to = where(options), host = is_host(to) ? to : cpu();
  const DType dtype = options.dtype.value_or(fallback);
  if (capture::active()) [[unlikely]] {
    // A recording keeps the values; each replay copies them to the tensor that the program has.
    Tensor values;
    {
      const capture::RecordingPause aside;
      values = from_host(data, d, shape, {to, dtype}, dtype, from);
    }
    return capture::find(to) ? row_major_copy(values, dtype) : values;
  }
  Tensor t = allocate(host, checked_meta("array", d, shape));
  const size_t bytes = static_cast<size_t>(shape.size()) * static_cast<size_t>(size_of(d));
  if (bytes > 0) std::memcpy(t.impl().view.data, data, bytes);
  if (dtype != d) {
    check_numbers(t.impl().view, dtype);
    t = row_major_copy(t, dtype);
  }
  return to == host ? t : t.copyto(to, {}, from);
} catch (const Error&) {
  detail::rethrow_as("array", from);
}

void ragged(int level, size_t expected, size_t found, Caller from) try {
  throw ShapeError("array: nested lists must have equal lengths; at level ", level, " expected ",
                   expected, " elements, got ", found);
} catch (const Error&) {
  rethrow_at(from);
}

void check_count(size_t elements, const Shape& shape, Caller from) try {
  if (static_cast<int64_t>(elements) != shape.size())
    throw ShapeError("array: shape ", shape, " needs ", shape.size(), " elements, got ", elements);
} catch (const Error&) {
  rethrow_at(from);
}

}  // namespace detail

Tensor empty(const Shape& shape, TensorOptions o, Caller from) try {
  const UserLine user_line(from);
  return allocate(where(o), checked_meta("empty", o.dtype.value_or(f32), shape));
} catch (const Error&) {
  detail::rethrow_as("empty", from);
}
Tensor zeros(const Shape& shape, TensorOptions o, Caller from) try {
  const UserLine user_line(from);
  return filled("zeros", shape, 0, o);
} catch (const Error&) {
  detail::rethrow_as("zeros", from);
}
Tensor ones(const Shape& shape, TensorOptions o, Caller from) try {
  const UserLine user_line(from);
  return filled("ones", shape, 1, o);
} catch (const Error&) {
  detail::rethrow_as("ones", from);
}
Tensor full(const Shape& shape, Scalar value, TensorOptions o, Caller from) try {
  const UserLine user_line(from);
  return filled("full", shape, value, o);
} catch (const Error&) {
  detail::rethrow_as("full", from);
}
static TensorOptions like(const Tensor& x, const TensorOptions& o) {
  return {o.context.value_or(x.context()), o.dtype.value_or(x.dtype())};
}
Tensor zeros_like(const Tensor& x, TensorOptions o, Caller from) try {
  const UserLine user_line(from);
  return filled("zeros_like", x.shape(), 0, like(x, o));
} catch (const Error&) {
  detail::rethrow_as("zeros_like", from);
}
Tensor ones_like(const Tensor& x, TensorOptions o, Caller from) try {
  const UserLine user_line(from);
  return filled("ones_like", x.shape(), 1, like(x, o));
} catch (const Error&) {
  detail::rethrow_as("ones_like", from);
}

Tensor arange(double stop, TensorOptions o, Caller from) { return arange(0, stop, 1, o, from); }
Tensor arange(double start, double stop, TensorOptions o, Caller from) {
  return arange(start, stop, 1, o, from);
}
Tensor arange(double start, double stop, double step, TensorOptions o, Caller from) try {
  const UserLine user_line(from);
  const double count = std::ceil((stop - start) / step);
  if (step == 0 || !std::isfinite(count) || count > 9e18)
    throw ValueError("arange: expected finite bounds and a step other than 0, got start ", start,
                     ", stop ", stop, ", step ", step);
  const int64_t n = count > 0 ? static_cast<int64_t>(count) : 0;
  return run_arange({start, step, 0, false, make_meta(o.dtype.value_or(f32), Shape{n})}, o);
} catch (const Error&) {
  detail::rethrow_as("arange", from);
}

Tensor linspace(double start, double stop, int64_t num, TensorOptions o, Caller from) {
  return linspace(start, stop, num, true, o, from);
}
Tensor linspace(double start, double stop, int64_t num, bool endpoint, TensorOptions o,
                Caller from) try {
  const UserLine user_line(from);
  const Meta meta = checked_meta("linspace", o.dtype.value_or(f32), {num});
  const int64_t steps = endpoint ? num - 1 : num;
  const double step = steps > 0 ? (stop - start) / static_cast<double>(steps) : 0;
  if (!std::isfinite(start) || !std::isfinite(step))
    throw ValueError("linspace: expected finite bounds whose difference is finite, got start ",
                     start, ", stop ", stop);
  return run_arange({start, step, stop, endpoint && num > 1, meta}, o);
} catch (const Error&) {
  detail::rethrow_as("linspace", from);
}

Tensor eye(int64_t rows, int64_t columns, int64_t k, TensorOptions o, Caller from) try {
  const UserLine user_line(from);
  static const OpRef<FillAttrs> fill("fill");
  const int64_t width = columns == 0 ? rows : columns;
  const Tensor t = filled("eye", {rows, width}, 0, o);
  k = std::clamp(k, -rows, width);
  const int64_t down = std::max<int64_t>(0, -k), right = std::max<int64_t>(0, k);
  const int64_t n = std::min(rows - down, width - right);
  if (n <= 0) return t;
  View diagonal;
  diagonal.data =
      static_cast<char*>(t.impl().view.data) + (down * width + right) * size_of(t.dtype());
  diagonal.meta = make_meta(t.dtype(), Shape{n});
  diagonal.stride[0] = width + 1;
  invoke_into(fill, Refs{}, Refs{alias(t, diagonal)}, FillAttrs{1, diagonal.meta});
  return t;
} catch (const Error&) {
  detail::rethrow_as("eye", from);
}

Tensor sample_values(Context c, DType d, const Shape& shape, double low, double high, int variant) {
  constexpr double kGolden = 0.6180339887498949, kOther = 0.7548776662466927;
  const int64_t n = shape.size();
  if (d == u8 || d == bool_) low = std::max(low, 0.);
  std::vector<double> values(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) {
    double whole;
    const double u =
        std::modf(static_cast<double>(i + 1) * kGolden + (variant + 1) * kOther, &whole);
    double v;
    if (d == bool_) {
      v = u < .5 ? 0 : 1;
    } else if (is_integer(d)) {
      v = std::floor(low) + std::floor(u * (std::floor(high) - std::floor(low) + 1));
    } else {
      const double gap = .02 * (high - low);
      v = low + (.01 + .98 * u) * (high - low);
      if (v > -gap && v < gap && low < 0 && high > 0) v = v * .4 + (v < 0 ? -gap : gap);
    }
    values[static_cast<size_t>(i)] = v;
  }
  return array(values, shape, {c, d});
}

void register_create() {
  OpDef<FillAttrs>("fill")
      .inputs(0)
      .infer<&fill_infer>()
      .layout(Layout::strided)
      .no_gradient("has no inputs")
      .samples<&fill_samples>();
  OpDef<ArangeAttrs>("arange")
      .inputs(0)
      .infer<&arange_infer>()
      .no_gradient("has no inputs")
      .samples<&arange_samples>();
}

}  // namespace locus
