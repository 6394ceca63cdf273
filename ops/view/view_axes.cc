// Views with the axes in another order.
#include <locus/core/base/at_line.h>
#include <locus/core/op.h>
#include <locus/ops/call_check.h>
#include <locus/ops/view.h>

namespace locus {

Tensor moveaxis(const Tensor& x, std::span<const int> source, std::span<const int> destination,
                Caller from) try {
  detail::expect_tensor("moveaxis", x);
  const int rank = x.ndim();
  if (source.size() != destination.size())
    throw ShapeError("moveaxis: ", describe(x), ": expected as many destinations as sources, got ",
                     source.size(), " sources and ", destination.size(), " destinations");
  int axes[kMaxRank];  // of x, for each axis of the result
  unsigned moved = 0, taken = 0;
  for (size_t i = 0; i < source.size(); ++i) {
    const int a = detail::axis_of(x, source[i], "moveaxis"),
              to = detail::axis_of(x, destination[i], "moveaxis");
    if (moved >> a & 1 || taken >> to & 1)
      throw ShapeError("moveaxis: ", describe(x), ": expected each axis once, got axis ", source[i],
                       " to ", destination[i], " after another one");
    moved |= 1u << a;
    taken |= 1u << to;
    axes[to] = a;
  }
  for (int to = 0, a = 0; to < rank; ++to) {
    if (taken >> to & 1) continue;
    while (moved >> a & 1) ++a;
    axes[to] = a++;
  }
  return transpose(x, std::span<const int>(axes, static_cast<size_t>(rank)));
} catch (const Error&) {
  detail::rethrow_as("moveaxis", from);
}
Tensor moveaxis(const Tensor& x, int64_t source, int64_t destination, Caller from) try {
  detail::expect_tensor("moveaxis", x);
  const int a = detail::axis_of(x, source, "moveaxis"),
            to = detail::axis_of(x, destination, "moveaxis");
  return moveaxis(x, {a}, {to}, from);
} catch (const Error&) {
  detail::rethrow_as("moveaxis", from);
}
Tensor moveaxis(const Tensor& x, std::initializer_list<int> source,
                std::initializer_list<int> destination, Caller from) {
  return moveaxis(x, std::span<const int>(source.begin(), source.size()),
                  std::span<const int>(destination.begin(), destination.size()), from);
}

Tensor rot90(const Tensor& x, int64_t k, std::pair<int64_t, int64_t> axes, Caller from) try {
  detail::expect_tensor("rot90", x);
  const int a = detail::axis_of(x, axes.first, "rot90"),
            b = detail::axis_of(x, axes.second, "rot90");
  if (a == b)
    throw ShapeError("rot90: ", describe(x), ": expected two different axes, got ", axes.first,
                     " and ", axes.second);
  switch (k & 3) {
    case 1:
      return swapaxes(flip(x, b), a, b);
    case 2:
      return flip(flip(x, a), b);
    case 3:
      return flip(swapaxes(x, a, b), b);
    default:
      return x;
  }
} catch (const Error&) {
  detail::rethrow_as("rot90", from);
}

}  // namespace locus
