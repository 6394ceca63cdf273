// Creation of tensors from a shape, a range or host data.
//
//   const Tensor x = zeros({2, 3}, {gpu(0), f16});
//
// Without options the context is current_context() and the dtype f32, as in MXNet, also for full
// and arange. array() reads literals as f32, i64 or bool_, and keeps the element type of a
// std::vector or span.
//
// - ShapeError: a length is negative.
// - DeviceError: the device is missing.
// - DTypeError: an integer dtype cannot hold a number, such as 300 or NaN in u8, as in NumPy 2. A
// fraction is cut: 2.5 becomes 2.
#pragma once

#include <initializer_list>
#include <span>
#include <type_traits>
#include <vector>

#include <locus/core/tensor.h>
#include <locus/ops/register.h>

namespace locus {

Tensor empty(const Shape& shape, TensorOptions options = {},
             Caller = Caller::here());  // not initialised
Tensor zeros(const Shape& shape, TensorOptions options = {}, Caller = Caller::here());
Tensor ones(const Shape& shape, TensorOptions options = {}, Caller = Caller::here());
Tensor full(const Shape& shape, Scalar value, TensorOptions options = {}, Caller = Caller::here());
// The shape of x; context and dtype of x unless the options set others.
Tensor zeros_like(const Tensor& x, TensorOptions options = {}, Caller = Caller::here());
Tensor ones_like(const Tensor& x, TensorOptions options = {}, Caller = Caller::here());

// start, start + step, ... up to but without stop: ceil((stop - start) / step) elements. Element i
// is start + i * step, computed in f64. A negative step counts down. A zero step throws ValueError.
Tensor arange(double stop, TensorOptions options = {}, Caller = Caller::here());
Tensor arange(double start, double stop, TensorOptions options = {}, Caller = Caller::here());
Tensor arange(double start, double stop, double step, TensorOptions options = {},
              Caller = Caller::here());

// num values from start to stop, both included. If num is 1, the value is start. Without
// `endpoint`, stop is left out and the step is (stop - start) / num. If stop - start is not finite,
// linspace throws ValueError.
Tensor linspace(double start, double stop, int64_t num, TensorOptions options = {},
                Caller = Caller::here());
Tensor linspace(double start, double stop, int64_t num, bool endpoint, TensorOptions options = {},
                Caller = Caller::here());

// A (rows, columns) tensor with ones at column - row == k. columns == 0 means columns = rows, as in
// MXNet.
Tensor eye(int64_t rows, int64_t columns = 0, int64_t k = 0, TensorOptions options = {},
           Caller = Caller::here());

// Deterministic, irregular test data. Floats lie inside (low, high), away from 0, and are distinct
// within the dtype's precision. Integers cover the same range; u8 starts at 0 if low is negative.
// bool_ mixes both values. Another `variant` gives other values.
Tensor sample_values(Context c, DType d, const Shape& shape, double low = -2, double high = 2,
                     int variant = 0);

namespace detail {
// A tensor from row-major host elements of dtype `d`. If options have no dtype, it is `fallback`.
Tensor from_host(const void* data, DType d, const Shape& shape, TensorOptions options,
                 DType fallback, Caller from);
[[noreturn]] void ragged(int level, size_t expected, size_t found, Caller from);
void check_count(size_t elements, const Shape& shape, Caller from);
Meta checked_meta(const char* op, DType dtype, const Shape& shape);  // throws at a negative length
void check_number(const char* who, const Scalar& number, DType d);   // throws unless d holds number

template <Element T>
constexpr DType literal_dtype() {
  return std::is_same_v<T, bool> ? bool_ : std::is_integral_v<T> ? i64 : f32;
}
}  // namespace detail

// A tensor from host data. If nested lists differ in length or the shape does not hold the data,
// array throws ShapeError. Pageable memory may be reused when the call returns.
template <Element T>
Tensor array(std::initializer_list<T> values, TensorOptions options = {},
             Caller from = Caller::here()) {
  return detail::from_host(values.begin(), dtype_of<T>(), Shape{values.size()}, options,
                           detail::literal_dtype<T>(), from);
}
template <Element T>
Tensor array(std::initializer_list<std::initializer_list<T>> values, TensorOptions options = {},
             Caller from = Caller::here()) {
  const size_t columns = values.size() == 0 ? 0 : values.begin()->size();
  const Shape shape{values.size(), columns};
  std::vector<std::conditional_t<std::is_same_v<T, bool>, uint8_t, T>> flat;
  flat.reserve(static_cast<size_t>(shape.size()));
  for (const auto& row : values) {
    if (row.size() != columns) detail::ragged(1, columns, row.size(), from);
    flat.insert(flat.end(), row.begin(), row.end());
  }
  return detail::from_host(flat.data(), dtype_of<T>(), shape, options, detail::literal_dtype<T>(),
                           from);
}
template <Element T>
Tensor array(std::initializer_list<std::initializer_list<std::initializer_list<T>>> values,
             TensorOptions options = {}, Caller from = Caller::here()) {
  const size_t rows = values.size() == 0 ? 0 : values.begin()->size();
  const size_t columns = rows == 0 ? 0 : values.begin()->begin()->size();
  const Shape shape{values.size(), rows, columns};
  std::vector<std::conditional_t<std::is_same_v<T, bool>, uint8_t, T>> flat;
  flat.reserve(static_cast<size_t>(shape.size()));
  for (const auto& matrix : values) {
    if (matrix.size() != rows) detail::ragged(1, rows, matrix.size(), from);
    for (const auto& row : matrix) {
      if (row.size() != columns) detail::ragged(2, columns, row.size(), from);
      flat.insert(flat.end(), row.begin(), row.end());
    }
  }
  return detail::from_host(flat.data(), dtype_of<T>(), shape, options, detail::literal_dtype<T>(),
                           from);
}
template <Element T>
Tensor array(std::span<const T> values, const Shape& shape, TensorOptions options = {},
             Caller from = Caller::here()) {
  detail::check_count(values.size(), shape, from);
  return detail::from_host(values.data(), dtype_of<T>(), shape, options, dtype_of<T>(), from);
}
template <Element T>
Tensor array(std::span<T> values, const Shape& shape, TensorOptions options = {},
             Caller from = Caller::here()) {
  return array(std::span<const T>(values), shape, options, from);
}
template <Element T>
Tensor array(const std::vector<T>& values, const Shape& shape, TensorOptions options = {},
             Caller from = Caller::here()) {
  if constexpr (std::is_same_v<T, bool>) {
    const std::vector<uint8_t> bytes(values.begin(), values.end());
    detail::check_count(bytes.size(), shape, from);
    return detail::from_host(bytes.data(), bool_, shape, options, bool_, from);
  } else {
    return array(std::span<const T>(values), shape, options, from);
  }
}
template <Element T>
Tensor array(const std::vector<T>& values, TensorOptions options = {},
             Caller from = Caller::here()) {
  return array(values, Shape{values.size()}, options, from);
}

}  // namespace locus
