#include <algorithm>
#include <cstdlib>

#include <locus/core/base/at_line.h>
#include <locus/core/memory/storage.h>
#include <locus/core/op.h>
#include <locus/ops/call_check.h>
#include <locus/ops/view.h>
#include <locus/ops/view/view_kernel.h>

namespace locus {
namespace {

// Resolves a Slice of an axis of n elements, by Python's rules.
void resolve(const Slice& s, int64_t n, SliceAttrs& a, int axis) {
  const int64_t step = s.step();
  if (step == 0)
    throw ValueError("slice: the step must not be 0; use 1, or a negative one to go back");
  const int64_t low = step > 0 ? 0 : -1, high = step > 0 ? n : n - 1;
  const auto clip = [&](int64_t at) { return std::clamp(at < 0 ? at + n : at, low, high); };
  const int64_t begin = s.start() ? clip(*s.start()) : step > 0 ? low : high;
  const int64_t stop = s.stop() ? clip(*s.stop()) : step > 0 ? high : low;
  const int64_t distance = step > 0 ? stop - begin : begin - stop;
  const int64_t length =
      distance <= 0 ? 0 : (distance - 1) / std::abs(std::max(step, -INT64_MAX)) + 1;
  if (length > 1 && step != static_cast<int32_t>(step))
    throw ValueError("slice: expected a step of at most 31 bits, got ", step);
  a.begin[axis] = length == 0 ? 0 : begin;
  a.length[axis] = length;
  a.step[axis] = length < 2 ? 1 : static_cast<int32_t>(step);
}

Tensor slice_one(const Tensor& x, int axis, const Slice& s) {
  std::vector<Index> items(static_cast<size_t>(axis), Slice());
  items.push_back(s);
  return detail::basic_index(x, items);
}

}  // namespace

Tensor flip(const Tensor& x, int64_t axis, Caller from) try {
  detail::expect_tensor("flip", x);
  return slice_one(x, detail::axis_of(x, axis, "flip"), Slice({}, {}, -1));
} catch (const Error&) {
  detail::rethrow_as("flip", from);
}
Tensor slice_axis(const Tensor& x, int64_t axis, const Slice& slice, Caller from) try {
  detail::expect_tensor("slice_axis", x);
  return slice_one(x, detail::axis_of(x, axis, "slice_axis"), slice);
} catch (const Error&) {
  detail::rethrow_as("slice_axis", from);
}

Tensor Tensor::operator[](Index i) const { return view({i}, i.from()); }

Tensor Tensor::view(std::initializer_list<Index> items, Caller from) const try {
  return detail::basic_index(*this, {items.begin(), items.size()});
} catch (const Error&) {
  rethrow_at(from);
}

Tensor detail::basic_index(const Tensor& x, std::span<const Index> items) {
  static const OpRef<SliceAttrs> op("slice");
  expect_tensor("slice", x);
  const Meta& m = x.impl().view.meta;
  const auto refuse = [&](const auto&... why) {
    throw IndexError("index: data ", describe(x), ": ", why...);
  };
  int consumed = 0, ellipses = 0, added = 0;
  for (const Index& i : items) {
    consumed += i.kind() == Index::Kind::position || i.kind() == Index::Kind::slice;
    ellipses += i.kind() == Index::Kind::rest;
    added += i.kind() == Index::Kind::new_axis;
  }
  if (ellipses > 1) refuse("an index can only have a single ellipsis ('...')");
  if (consumed > m.rank)
    refuse("too many indices for array: array is ", m.rank, "-dimensional, but ", consumed,
           " were indexed");

  SliceAttrs a{};
  int64_t dims[2 * kMaxRank];
  int axis = 0, rank = 0;
  const auto whole = [&] {
    a.length[axis] = dims[rank++] = m.shape[axis];
    a.step[axis++] = 1;
  };
  for (const Index& i : items) {
    switch (i.kind()) {
      case Index::Kind::new_axis:
        if (rank < kMaxRank) dims[rank++] = 1;
        break;
      case Index::Kind::rest:
        for (int k = m.rank - consumed; k > 0; --k) whole();
        break;
      case Index::Kind::slice:
        resolve(i.slice(), m.shape[axis], a, axis);
        dims[rank++] = a.length[axis++];
        break;
      case Index::Kind::position: {
        const int64_t n = m.shape[axis], p = i.position();
        if (p < -n || p >= n)
          refuse("index ", p, " is out of bounds for axis ", axis, " with size ", n,
                 n > 0 ? text_of("; expected ", -n, " to ", n - 1) : "");
        a.begin[axis] = p < 0 ? p + n : p;
        a.length[axis] = a.step[axis] = 1;
        a.drop |= 1u << axis++;
      }
    }
  }
  while (axis < m.rank) whole();
  if (added > 0 && m.rank - __builtin_popcount(a.drop) + added > kMaxRank)
    refuse("a result of more than 8 axes; expected fewer newaxis");
  const Tensor sliced = invoke(op, {x}, a);
  return added == 0 ? sliced : detail::reshape_exact(sliced, Shape(dims, rank));
}

}  // namespace locus
