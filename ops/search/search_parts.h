// Shared by the search family's functions. Internal to ops.
#pragma once

#include <locus/ops/search.h>

namespace locus::detail {

void expect_one_axis(const char* who, const char* name, const Tensor& x);
// searchsorted, for operands that have been checked.
Tensor place_in(const Tensor& bins, const Tensor& x, Side side);
// Whether an element of (n,) is followed by a smaller one. NaN lies above all. Waits.
bool decreases(const Tensor& bins, Caller from);

}  // namespace locus::detail
