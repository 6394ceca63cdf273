// The functions whose results depend on a mask: argwhere, compress, sequence_mask.
#include <algorithm>

#include <locus/core/base/at_line.h>
#include <locus/core/observe/memory_events.h>
#include <locus/core/op.h>
#include <locus/ops/call_check.h>
#include <locus/ops/compare.h>
#include <locus/ops/copy.h>
#include <locus/ops/create.h>
#include <locus/ops/gather.h>
#include <locus/ops/index/counted.h>
#include <locus/ops/view.h>

namespace locus {

Tensor argwhere(const Tensor& x, Caller from) try {
  const UserLine user_line(from);
  detail::expect_tensor("argwhere", x);
  const detail::CountedMask ones(x, from);
  if (x.ndim() == 0) return zeros({ones.count(), 0}, {x.context(), i64});
  return detail::unravel(ones.positions(), x.shape(), true);
} catch (const Error&) {
  detail::rethrow_as("argwhere", from);
}

Tensor compress(const Tensor& condition, const Tensor& x, const CompressOptions& o,
                Caller from) try {
  const UserLine user_line(from);
  const char* const who = "compress";
  detail::expect_tensor(who, condition, "condition");
  detail::expect_tensor(who, x);
  const auto operands = [&] {
    return text_of(who, ": condition ", describe(condition), ", data ", describe(x), ": ");
  };
  detail::expect_together(who, "data", x, "condition", condition);
  if (condition.ndim() != 1) throw ShapeError(operands(), "expected a condition of one axis");
  const Tensor data = o.axis ? x : detail::reshape_exact(x, {x.size()});
  const int axis = o.axis ? detail::axis_of(x, *o.axis, who) : 0;
  const int64_t n = data.shape()[axis], given = condition.size();
  if (given > n && detail::CountedMask(condition(Slice(n, given)), from).count() > 0)
    throw IndexError(operands(), "the condition selects entries past axis ", axis, " with size ", n,
                     "; expected at most ", n, " entries");
  const int64_t m = std::min(n, given);
  const detail::CountedMask ones(given > n ? condition(Slice(0, n)) : condition, from);
  if (data.ndim() == 1) return ones.select(m < n ? data(Slice(0, m)) : data, o.out);
  static const OpRef<TakeAttrs> take("take");
  return detail::called_as(who, "take", [&] {
    const auto at = static_cast<int8_t>(axis);
    return invoke(take, {data, ones.positions()}, TakeAttrs{1, {at}, at, 0, 0}, o.out);
  });
} catch (const Error&) {
  detail::rethrow_as("compress", from);
}

Tensor sequence_mask(const Tensor& x, const Tensor& sequence_length, const SequenceMaskOptions& o,
                     Caller from) try {
  const UserLine user_line(from);
  const char* const who = "sequence_mask";
  detail::expect_tensor(who, x);
  if (o.axis != 0 && o.axis != 1)
    throw ValueError(who, ": axis ", o.axis, "; expected 0 or 1, the axis of the positions");
  check_fits(who, x.dtype(), o.value);
  if (!sequence_length.defined()) return copy(x);
  const auto operands = [&] {
    return text_of(who, ": data ", describe(x), ", sequence_length ", describe(sequence_length),
                   ": ");
  };
  if (x.ndim() < 2) throw ShapeError(operands(), "expected data of at least 2 axes");
  const int64_t n = x.shape()[o.axis], batch = x.shape()[1 - o.axis];
  if (sequence_length.shape() != Shape{batch})
    throw ShapeError(operands(), "expected a sequence_length of shape ", Shape{batch});
  if (sequence_length.dtype() == bool_)
    throw DTypeError(operands(), "expected numbers as sequence_length");
  detail::expect_together(who, "data", x, "sequence_length", sequence_length);
  Meta along = make_meta(i64, x.shape()), across = along;
  for (int i = 0; i < x.ndim(); ++i) {
    if (i != o.axis) along.shape[i] = 1;
    if (i != 1 - o.axis) across.shape[i] = 1;
  }
  const Tensor position = arange(static_cast<double>(n), {x.context(), i64});
  const Tensor length =
      is_floating(sequence_length.dtype()) ? cast(sequence_length, i64) : sequence_length;
  return where(
      detail::reshape_exact(position, Shape(along)) < detail::reshape_exact(length, Shape(across)),
      x, full(Shape{}, o.value, {x.context(), x.dtype()}));
} catch (const Error&) {
  detail::rethrow_as("sequence_mask", from);
}

}  // namespace locus
