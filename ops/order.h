// Sorting along an axis: sort, argsort, lexsort, topk, partition, argpartition.
//
//   const Tensor y = sort(x);                              // the last axis, ascending
//   const Tensor ids = argsort(x, {.axis = 0, .descending = true});
//   const auto [best, places] = topk(x, 5);                // the 5 largest of each row
//   const Tensor all = sort(x, {.axis = std::nullopt});    // flattened
//
// Sorts are stable: equal elements keep their order, and -0 equals 0. NaN comes last, in descending
// order, too. Indices are i64. All dtypes sort; false is below true. Results are the same on every
// context, except for the order of several NaNs and their bits.
//
// Axes may be negative; std::nullopt sorts the flattened tensor, of shape (size,). A wrong axis is
// a ShapeError. An axis of 2^32 elements or more is a ValueError, except in a sort that autograd
// does not record. sort, topk and partition have gradients of any order: an element's gradient goes
// to the element of x that it is a copy of.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <locus/core/tensor.h>
#include <locus/ops/register.h>

namespace locus {

struct SortOptions {
  std::optional<int64_t> axis = -1;
  bool descending = false;
};
struct LexsortOptions {
  int64_t axis = -1;  // of each key
};
struct TopkOptions {
  std::optional<int64_t> axis = -1;
  bool largest = true;
};
struct PartitionOptions {
  std::optional<int64_t> axis = -1;
};

struct Topk {
  Tensor values, indices;
};

// One position in sorted order, or several. Negative positions count from the end.
class Kth {
 public:
  Kth(Integer auto k) : list_{std::in_range<int64_t>(+k) ? static_cast<int64_t>(k) : INT64_MAX} {}
  Kth(std::initializer_list<int64_t> list) : list_(list) {}
  explicit Kth(std::span<const int64_t> list) : list_(list.begin(), list.end()) {}

  const std::vector<int64_t>& list() const { return list_; }

 private:
  std::vector<int64_t> list_;
};

// x with sorted rows along the axis, in x's shape and dtype.
Tensor sort(const Tensor& x, const SortOptions& = {}, Caller = Caller::here());
// The indices that sort x, in x's shape.
Tensor argsort(const Tensor& x, const SortOptions& = {}, Caller = Caller::here());
// The indices that sort by several keys of one shape: first by the last key, elements that are
// equal there by the key before, and so on. lexsort({x}) has one key, x; lexsort(x) has the keys
// x[0], x[1] and so on, as in NumPy. Without a key, lexsort throws ValueError. If the keys' shapes
// differ, lexsort throws ShapeError.
Tensor lexsort(const Tensors& keys, const LexsortOptions& = {}, Caller = Caller::here());
namespace detail {
Tensors entries_as_keys(const Tensor& x);
}
template <std::same_as<Tensor> T>  // so that {x} is a list
Tensor lexsort(const T& x, const LexsortOptions& options = {}, Caller from = Caller::here()) {
  return lexsort(detail::entries_as_keys(x), options, from);
}

// The k largest (or smallest) elements along the axis and their indices, in sorted order. Equal
// elements keep their order. NaN comes last, both for the largest and for the smallest. If k is
// negative or larger than the length of the axis, topk throws ValueError.
Topk topk(const Tensor& x, int64_t k, const TopkOptions& = {}, Caller = Caller::here());

// x with the kth element at its position in sorted order. Smaller elements come first, then equal
// elements, then larger elements; each of the three parts keeps x's order. With several positions,
// each part between two positions keeps x's order. With more than 16 positions, the result is
// sorted. A position outside the axis, or no position, is a ValueError.
Tensor partition(const Tensor& x, const Kth& kth, const PartitionOptions& = {},
                 Caller = Caller::here());
// The indices that partition x.
Tensor argpartition(const Tensor& x, const Kth& kth, const PartitionOptions& = {},
                    Caller = Caller::here());

// Along one axis: sort(x, 0) is sort(x, {.axis = 0}).
inline Tensor sort(const Tensor& x, Integer auto axis, Caller from = Caller::here()) {
  return sort(x, {.axis = axis}, from);
}
inline Tensor argsort(const Tensor& x, Integer auto axis, Caller from = Caller::here()) {
  return argsort(x, {.axis = axis}, from);
}
inline Tensor lexsort(const Tensors& keys, Integer auto axis, Caller from = Caller::here()) {
  return lexsort(keys, {.axis = static_cast<int64_t>(axis)}, from);
}
inline Topk topk(const Tensor& x, int64_t k, Integer auto axis, Caller from = Caller::here()) {
  return topk(x, k, {.axis = axis}, from);
}
inline Tensor partition(const Tensor& x, const Kth& kth, Integer auto axis,
                        Caller from = Caller::here()) {
  return partition(x, kth, {.axis = axis}, from);
}
inline Tensor argpartition(const Tensor& x, const Kth& kth, Integer auto axis,
                           Caller from = Caller::here()) {
  return argpartition(x, kth, {.axis = axis}, from);
}

namespace detail {
// The elements at rising positions of the sorted rows, along the axis, which is not negative.
Tensor order_select(const Tensor& x, std::span<const int64_t> kth, int axis);
}  // namespace detail

}  // namespace locus
