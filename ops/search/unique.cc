// isin and unique.
#include <locus/core/autograd.h>
#include <locus/core/base/at_line.h>
#include <locus/core/base/recording_hooks.h>
#include <locus/core/observe/memory_events.h>
#include <locus/core/op.h>
#include <locus/ops/call_check.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/elementwise/call.h>
#include <locus/ops/index.h>
#include <locus/ops/index/counted.h>
#include <locus/ops/join.h>
#include <locus/ops/order.h>
#include <locus/ops/scan.h>
#include <locus/ops/search/search_kernel.h>
#include <locus/ops/search/search_parts.h>
#include <locus/ops/view.h>

namespace locus {

namespace {

using detail::as;

// Whether each of the sorted entries differs from the one before.
Tensor starts_of(const Tensor& sorted, bool equal_nan) {
  static const OpRef<RunAttrs> op("run_starts");
  return invoke(op, {sorted}, RunAttrs{equal_nan});
}

// The results that are asked for, of n entries in the order `perm`. `starts` are of sorted entries,
// and `ones` their counted ones.
void add_places(Unique& u, const UniqueOptions& o, const Tensor& perm, const Tensor& starts,
                const detail::CountedMask& ones) {
  const int64_t n = starts.size();
  if (o.return_index) u.index = ones.select(perm);
  if (o.return_inverse) {
    u.inverse = empty({n}, {starts.context(), i64});
    if (n > 0) u.inverse[perm] = cumsum(starts) - 1;
  }
  if (o.return_counts) {
    const Tensor first = ones.positions();
    const Tensor end = full({n > 0 ? 1 : 0}, n, {starts.context(), i64});
    u.counts = concat({first(Slice(1, std::nullopt)), end}, {.axis = 0}) - first;
  }
}

Unique unique_elements(const Tensor& x, const UniqueOptions& o, Caller from) {
  const Tensor flat = reshape(x, {-1});
  Unique u;
  Tensor perm, sorted;
  if (o.return_index || o.return_inverse) {
    perm = argsort(flat);
    sorted = take(flat, perm);
  } else {
    sorted = sort(flat);
  }
  const Tensor starts = starts_of(sorted, o.equal_nan);
  const detail::CountedMask ones(starts, from);
  u.values = ones.select(sorted);
  const autograd::Pause pause;
  add_places(u, o, perm, starts, ones);
  if (o.return_inverse) u.inverse = u.inverse.reshape(x.shape());
  return u;
}

Unique unique_entries(const Tensor& x, const UniqueOptions& o, Caller from) {
  const int axis = detail::axis_of(x, *o.axis, "unique");
  const int64_t n = x.shape()[axis], k = n > 0 ? x.size() / n : 0;
  Unique u;
  Tensor places;
  {
    const autograd::Pause pause;
    std::vector<int> order{axis};
    for (int i = 0; i < x.ndim(); ++i)
      if (i != axis) order.push_back(i);
    const Tensor rows = reshape(transpose(x, order), {n, k});
    Tensors keys;
    for (int64_t i = k - 1; i >= 0; --i) keys.push_back(rows(Slice(), i));
    const Tensor perm = k > 0 ? lexsort(keys) : arange(0, n, 1, {x.context(), i64});
    const Tensor starts = starts_of(take(rows, perm), o.equal_nan);
    const detail::CountedMask ones(starts, from);
    places = ones.select(perm);
    add_places(u, o, perm, starts, ones);
  }
  u.values = take(x, places, {.axis = axis});
  return u;
}

}  // namespace

Tensor isin(const Tensor& x, const Tensor& test_elements, const IsinOptions& o, Caller from) try {
  const UserLine user_line(from);
  static const OpRef<IsinAttrs> op("isin");
  detail::expect_tensor("isin", x, "x");
  detail::expect_tensor("isin", test_elements, "test_elements");
  detail::expect_together("isin", "x", x, "test_elements", test_elements);
  const autograd::Pause pause;
  const DType d = promote(x.dtype(), test_elements.dtype());
  const Tensor tests = sort(as(test_elements, d), {.axis = std::nullopt});
  return invoke(op, {as(x, d), tests}, IsinAttrs{o.invert});
} catch (const Error&) {
  detail::rethrow_as("isin", from);
}

Unique unique(const Tensor& x, const UniqueOptions& o, Caller from) try {
  const UserLine user_line(from);
  detail::expect_tensor("unique", x, "x");
  capture::check_wait(x.context(), "unique", from);
  return o.axis ? unique_entries(x, o, from) : unique_elements(x, o, from);
} catch (const Error&) {
  detail::rethrow_as("unique", from);
}

}  // namespace locus
