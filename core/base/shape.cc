#include <locus/core/shape.h>

#include <algorithm>
#include <ostream>

#include <locus/core/dtype.h>
#include <locus/core/error.h>

namespace locus {
namespace {

void check_rank(size_t rank) {
  if (rank > static_cast<size_t>(kMaxRank))
    throw ShapeError("Shape: expected at most ", kMaxRank, " axes, got ", rank);
}

// Checks the number of elements. Skips lengths of 0, so that strides stay in range, too.
void check_size(const Meta& m) {
  constexpr int64_t kMost = INT64_MAX / 8;
  int64_t n = 1;
  for (int i = 0; i < m.rank; ++i) {
    if (m.shape[i] == 0) continue;
    if (__builtin_mul_overflow(n, m.shape[i], &n) || n > kMost) [[unlikely]]
      throw ShapeError("Shape: ", Shape(m),
                       " has more elements than memory can hold; expected fewer than 2^60");
  }
}

}  // namespace

Shape::Shape(std::initializer_list<Dim> dims) : rank_(static_cast<int>(dims.size())) {
  check_rank(dims.size());
  std::transform(dims.begin(), dims.end(), dims_, [](Dim d) { return d.value; });
}

Shape::Shape(std::span<const int64_t> dims) : rank_(static_cast<int>(dims.size())) {
  check_rank(dims.size());
  std::copy(dims.begin(), dims.end(), dims_);
}

int64_t Shape::operator[](int i) const { return dims_[normalize_axis(i, rank_, "shape")]; }

int64_t Shape::size() const {
  int64_t n = 1;
  for (int64_t d : *this)
    if (__builtin_mul_overflow(n, d, &n)) n = INT64_MAX;
  return n;
}

bool operator==(const Shape& a, const Shape& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

std::string to_string(const Shape& s) {
  std::string text = "(";
  for (int i = 0; i < s.rank(); ++i) {
    if (i > 0) text += ",";
    text += std::to_string(s.begin()[i]);
  }
  return text + (s.rank() == 1 ? ",)" : ")");
}

std::ostream& operator<<(std::ostream& os, const Shape& s) { return os << to_string(s); }

Shape broadcast_shapes(const Shape& a, const Shape& b) {
  const int rank = std::max(a.rank(), b.rank());
  int64_t dims[kMaxRank];
  for (int i = 0; i < rank; ++i) {
    const int ia = i - (rank - a.rank()), ib = i - (rank - b.rank());
    const int64_t da = ia < 0 ? 1 : a.begin()[ia], db = ib < 0 ? 1 : b.begin()[ib];
    if (da != db && da != 1 && db != 1)
      throw ShapeError("operands could not be broadcast together with shapes ", a, " ", b,
                       "; expected equal lengths, or 1, from the last axis on");
    dims[i] = da == 1 ? db : da;
  }
  return Shape(dims, rank);
}

bool broadcasts_to(const Shape& from, const Shape& to) {
  const int shift = to.rank() - from.rank();
  bool fits = shift >= 0;
  for (int i = 0; fits && i < from.rank(); ++i)
    fits = from.begin()[i] == 1 || from.begin()[i] == to.begin()[i + shift];
  return fits;
}

int normalize_axis(int64_t axis, int rank, std::string_view op) {
  if (axis < -rank || axis >= rank)
    throw ShapeError(op, ": axis ", axis, " is out of bounds for a tensor of ", rank, " axes");
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

Meta make_meta(DType dtype, std::span<const int64_t> shape) {
  check_rank(shape.size());
  expect_dtype(dtype);
  Meta m;
  m.dtype = dtype;
  m.rank = static_cast<int8_t>(shape.size());
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] < 0)
      throw ShapeError("Shape: negative length ", shape[i], " in ", Shape(shape),
                       "; expected lengths >= 0");
    m.shape[i] = shape[i];
  }
  check_size(m);
  return m;
}

DType one_dtype(std::span<const Meta> metas) {
  const DType first = metas[0].dtype;
  for (const Meta& m : metas)
    if (m.dtype != first)
      throw DTypeError("expected one dtype, got ", name(first), " and ", name(m.dtype),
                       "; cast one with astype()");
  return first;
}

Meta with_axis(Meta m, int axis, int64_t length) {
  if (m.rank == kMaxRank) throw ShapeError("expected fewer than ", kMaxRank, " axes");
  std::copy_backward(m.shape + axis, m.shape + m.rank, m.shape + m.rank + 1);
  m.shape[axis] = length;
  ++m.rank;
  return m;
}

Meta without_axis(Meta m, int axis) {
  std::copy(m.shape + axis + 1, m.shape + m.rank, m.shape + axis);
  --m.rank;
  return m;
}

size_t bytes_of(const Meta& m) {
  check_size(m);
  return static_cast<size_t>(m.size()) * static_cast<size_t>(size_of(m.dtype));
}

View broadcast_view(const View& v, const Meta& to) {
  View seen{v.data, to, {}};
  seen.meta.dtype = v.meta.dtype;
  const int shift = to.rank - v.meta.rank;
  for (int i = shift; i < to.rank; ++i)
    if (v.meta.shape[i - shift] == to.shape[i]) seen.stride[i] = v.stride[i - shift];
  return seen;
}

void row_major(const Meta& m, int64_t* stride) {
  int64_t step = 1;
  for (int i = m.rank - 1; i >= 0; --i) {
    stride[i] = step;
    // Wraps if there are too many elements, which check_size() refuses.
    step = static_cast<int64_t>(static_cast<uint64_t>(step) * static_cast<uint64_t>(m.shape[i]));
  }
}

}  // namespace locus
