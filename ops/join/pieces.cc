// split, tile and repeat.
#include <algorithm>
#include <string>

#include <locus/core/base/at_line.h>
#include <locus/core/memory/storage.h>
#include <locus/core/observe/memory_events.h>
#include <locus/core/op.h>
#include <locus/ops/call_check.h>
#include <locus/ops/copy.h>
#include <locus/ops/create.h>
#include <locus/ops/index.h>
#include <locus/ops/join.h>
#include <locus/ops/view.h>

namespace locus {

namespace {

// Repeats x n times along a new axis at `at`, merged with the adjacent `axis`. New memory if
// elements repeat.
Tensor repeated(const Tensor& x, int64_t n, int axis, int at) {
  if (x.ndim() == kMaxRank) {  // no room for another axis: as (before, axis, behind)
    int64_t before = 1, behind = 1;
    for (int i = 0; i < axis; ++i) before *= x.shape()[i];
    for (int i = axis + 1; i < kMaxRank; ++i) behind *= x.shape()[i];
    Meta m = x.impl().view.meta;
    const Tensor y =
        repeated(detail::reshape_exact(x, {before, m.shape[axis], behind}), n, 1, at - axis + 1);
    m.shape[axis] = y.shape()[1];
    return detail::reshape_exact(y, Shape(m));
  }
  const Tensor thin = expand_dims(x, at);
  Meta wide = thin.impl().view.meta, merged = x.impl().view.meta;
  wide.shape[at] = n;
  if (__builtin_mul_overflow(merged.shape[axis], n, &merged.shape[axis]))
    throw ShapeError("repeat: ", describe(x), ": expected a length that 63 bits count, got ", n,
                     " times axis ", axis);
  return detail::reshape_exact(broadcast_to(thin, Shape(wide)), Shape(merged));
}

void check_sections(const char* who, const Tensor& x, int64_t sections) {
  constexpr int64_t kMost = 1 << 20;  // each is a tensor
  if (sections < 1 || sections > kMost)
    throw ShapeError(who, ": ", describe(x), ": expected 1 to ", kMost, " sections, got ",
                     sections);
}

// x without `axis`, whose length is 1.
Tensor squeezed(const char* who, const Tensor& x, const Tensor& piece, int axis) {
  if (piece.shape()[axis] != 1)
    throw ShapeError(who, ": ", describe(x),
                     ": squeeze_axis: expected pieces of length 1 along axis ", axis, ", got ",
                     piece.shape()[axis]);
  return squeeze(piece, axis);
}

// One count for each of n elements.
std::vector<int64_t> checked_counts(const Tensor& x, std::vector<int64_t> all, int64_t n) {
  const auto given = static_cast<int64_t>(all.size());
  if (given != 1 && given != n)
    throw ShapeError("repeat: ", describe(x), ": expected 1 or ", n, " counts, got ", given);
  for (size_t i = 0; i < all.size(); ++i)
    if (all[i] < 0)
      throw ValueError("repeat: ", describe(x), ": expected counts >= 0, got ", all[i],
                       " at position ", i);
  all.resize(static_cast<size_t>(n), all.empty() ? 0 : all[0]);
  return all;
}

std::vector<int64_t> counts_in(const Tensor& x, const Tensor& counts, Caller from) {
  detail::expect_together("repeat", "x", x, "counts", counts);
  if (counts.ndim() > 1)
    throw ShapeError("repeat: ", describe(x), ", counts ", describe(counts),
                     ": expected counts of at most one axis");
  if (!is_integer(counts.dtype()))
    throw DTypeError("repeat: counts ", describe(counts), ": expected integers");
  return (counts.dtype() == i64 ? counts : cast(counts, i64)).to_vector<int64_t>(from);
}

// Each position as often as its count says, on the host.
Tensor repeated_positions(const Tensor& x, const std::vector<int64_t>& counts) {
  constexpr int64_t kMost = 4;  // written without a branch
  int64_t total = 0;
  for (const int64_t c : counts)
    if (__builtin_add_overflow(total, c, &total) || total > INT64_MAX - kMost)
      throw ShapeError("repeat: ", describe(x), ": expected a length that 63 bits count");
  const Tensor ids = empty({total + kMost}, {cpu(0), i64});
  int64_t* to = ids.impl().view.as<int64_t>();
  for (size_t i = 0; i < counts.size(); ++i) {
    for (int64_t k = 0; k < kMost; ++k) to[k] = static_cast<int64_t>(i);
    for (int64_t k = kMost; k < counts[i]; ++k) to[k] = static_cast<int64_t>(i);
    to += counts[i];
  }
  return slice_axis(ids, 0, Slice(0, total));
}

Tensor repeat_counts(const Tensor& x, const std::vector<int64_t>& counts, int axis, Caller from) {
  const Tensor ids = repeated_positions(x, checked_counts(x, counts, x.shape()[axis]));
  return take(x, ids.as_in_context(x.context(), from), {.axis = axis});
}

}  // namespace

Tensors split(const Tensor& x, int64_t sections, const SplitOptions& options, Caller from) try {
  const UserLine user_line(from);
  detail::expect_tensor("split", x);
  const int axis = detail::axis_of(x, options.axis, "split");
  const int64_t n = x.shape()[axis];
  check_sections("split", x, sections);
  if (n % sections != 0)
    throw ShapeError("split: ", describe(x), ": axis ", axis, " of length ", n,
                     " cannot be split into ", sections, " equal parts; expected a divisor");
  const int64_t length = n / sections;
  Tensors parts;
  for (int64_t i = 0; i < sections; ++i) {
    parts.push_back(slice_axis(x, axis, Slice(i * length, (i + 1) * length)));
    if (options.squeeze_axis) parts.back() = squeezed("split", x, parts.back(), axis);
  }
  return parts;
} catch (const Error&) {
  detail::rethrow_as("split", from);
}

Tensors split(const Tensor& x, std::span<const int64_t> positions, const SplitOptions& options,
              Caller from) try {
  const UserLine user_line(from);
  detail::expect_tensor("split", x);
  const int axis = detail::axis_of(x, options.axis, "split");
  Tensors parts;
  for (size_t i = 0; i <= positions.size(); ++i) {
    std::optional<int64_t> begin, end;
    if (i > 0) begin = positions[i - 1];
    if (i < positions.size()) end = positions[i];
    parts.push_back(slice_axis(x, axis, Slice(begin, end)));
    if (options.squeeze_axis) parts.back() = squeezed("split", x, parts.back(), axis);
  }
  return parts;
} catch (const Error&) {
  detail::rethrow_as("split", from);
}
Tensors split(const Tensor& x, std::initializer_list<int64_t> positions,
              const SplitOptions& options, Caller from) {
  return split(x, std::span<const int64_t>(positions.begin(), positions.size()), options, from);
}

Tensors array_split(const Tensor& x, int64_t sections, const ArraySplitOptions& options,
                    Caller from) try {
  const UserLine user_line(from);
  detail::expect_tensor("array_split", x);
  const int axis = detail::axis_of(x, options.axis, "array_split");
  check_sections("array_split", x, sections);
  const int64_t n = x.shape()[axis];
  Tensors parts;
  for (int64_t i = 0, begin = 0; i < sections; ++i) {
    const int64_t end = begin + n / sections + (i < n % sections ? 1 : 0);
    parts.push_back(slice_axis(x, axis, Slice(begin, end)));
    if (options.squeeze_axis) parts.back() = squeezed("array_split", x, parts.back(), axis);
    begin = end;
  }
  return parts;
} catch (const Error&) {
  detail::rethrow_as("array_split", from);
}

Tensor tile(const Tensor& x, const Shape& reps, Caller from) try {
  const UserLine user_line(from);
  detail::expect_tensor("tile", x);
  Tensor t = x;
  while (t.ndim() < reps.rank()) t = expand_dims(t, 0);
  const int lead = t.ndim() - reps.rank();
  for (int i = 0; i < reps.rank(); ++i) {
    const int64_t n = reps[i];
    if (n < 0) throw ShapeError("tile: expected repetitions >= 0, got ", reps);
    if (n == 1) continue;
    t = repeated(t, n, lead + i, lead + i);
  }
  return t.shares_memory_with(x) ? copy(t) : t;
} catch (const Error&) {
  detail::rethrow_as("tile", from);
}

Tensor repeat(const Tensor& x, int64_t n, int64_t axis, Caller from) try {
  const UserLine user_line(from);
  detail::expect_tensor("repeat", x);
  const int at = detail::axis_of(x, axis, "repeat");
  if (n < 0) throw ValueError("repeat: expected n >= 0, got ", n);
  const Tensor t = repeated(x, n, at, at + 1);
  return t.shares_memory_with(x) ? copy(t) : t;
} catch (const Error&) {
  detail::rethrow_as("repeat", from);
}

Tensor repeat(const Tensor& x, int64_t n, Caller from) try {
  const UserLine user_line(from);
  detail::expect_tensor("repeat", x);
  return repeat(detail::reshape_exact(x, {x.size()}), n, 0);
} catch (const Error&) {
  detail::rethrow_as("repeat", from);
}
Tensor repeat(const Tensor& x, const Tensor& counts, int64_t axis, Caller from) try {
  const UserLine user_line(from);
  detail::expect_tensor("repeat", x);
  return detail::repeat_listed(x, counts_in(x, counts, from), axis, from);
} catch (const Error&) {
  detail::rethrow_as("repeat", from);
}
Tensor repeat(const Tensor& x, const Tensor& counts, Caller from) try {
  const UserLine user_line(from);
  detail::expect_tensor("repeat", x);
  return detail::repeat_listed(x, counts_in(x, counts, from), std::nullopt, from);
} catch (const Error&) {
  detail::rethrow_as("repeat", from);
}
Tensor detail::repeat_listed(const Tensor& x, const std::vector<int64_t>& counts,
                             std::optional<int64_t> axis, Caller from) {
  if (!axis) return repeat_counts(reshape_exact(x, {x.size()}), counts, 0, from);
  return repeat_counts(x, counts, axis_of(x, *axis, "repeat"), from);
}

}  // namespace locus
