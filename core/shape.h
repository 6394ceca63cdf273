// Shape: the lengths of a tensor's axes, at most kMaxRank, stored inline.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <ranges>
#include <span>
#include <string>

#include <locus/core/kernel.h>

namespace locus {

// Any integer type except bool.
template <class I>
concept Integer = std::integral<I> && !std::same_as<I, bool>;

// One axis length. Avoids narrowing warnings for {2, n}.
struct Dim {
  constexpr Dim(Integer auto n) : value(static_cast<int64_t>(n)) {}
  int64_t value;
};

// A value type. reshape() accepts one -1 ("infer"); every other use requires lengths >= 0. Integers
// do not convert: {3} is a shape of one axis, 3 is not.
class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<Dim> dims);
  explicit Shape(std::span<const int64_t> dims);
  Shape(const int64_t* dims, int rank) : Shape(std::span(dims, static_cast<size_t>(rank))) {}
  explicit Shape(const Meta& m) : Shape(m.shape, m.rank) {}

  int rank() const { return rank_; }
  // Length of axis i; negative i counts from the end. Throws ShapeError if out of range.
  int64_t operator[](int i) const;
  int64_t size() const;  // INT64_MAX if the product overflows
  const int64_t* begin() const { return dims_; }
  const int64_t* end() const { return dims_ + rank_; }
  operator std::span<const int64_t>() const { return {dims_, static_cast<size_t>(rank_)}; }

  friend bool operator==(const Shape& a, const Shape& b);

 private:
  int rank_ = 0;
  int64_t dims_[kMaxRank] = {};
};

}  // namespace locus

// As a range, a Shape has rank() elements. size() is the product, so std::span must not use it.
template <>
inline constexpr bool std::ranges::disable_sized_range<locus::Shape> = true;

namespace locus {

// NumPy's spelling: "(2,3)", "(3,)", "()".
std::string to_string(const Shape& s);
std::ostream& operator<<(std::ostream& os, const Shape& s);

// NumPy's broadcasting of two shapes. Throws ShapeError ("operands could not be broadcast ...").
Shape broadcast_shapes(const Shape& a, const Shape& b);
// Whether broadcasting `from` against `to` gives `to`.
bool broadcasts_to(const Shape& from, const Shape& to);
// Resolves a negative axis. Throws ShapeError, naming `op`, if axis is outside [-rank, rank).
int normalize_axis(int64_t axis, int rank, std::string_view op);
// A Meta of this dtype and shape. Throws ShapeError for a negative length, or for more elements
// than memory can hold.
Meta make_meta(DType dtype, std::span<const int64_t> shape);
// The common dtype of one or more metas. Throws DTypeError if they differ.
DType one_dtype(std::span<const Meta> metas);
// m with a new axis of this length at `axis`; m without that axis. with_axis throws ShapeError if m
// has 8 axes already.
Meta with_axis(Meta m, int axis, int64_t length);
Meta without_axis(Meta m, int axis);
// The bytes of all elements. Throws ShapeError if memory cannot hold them.
size_t bytes_of(const Meta& m);
// A view of `v` broadcast to shape `to`: stride 0 along missing axes. Keeps v's dtype.
View broadcast_view(const View& v, const Meta& to);
// Row-major strides for the shape of m.
void row_major(const Meta& m, int64_t* stride);

}  // namespace locus
