// Which ops are reductions that fused kernels compute. Internal to ops/fuse.
#pragma once

#include <optional>
#include <string>

#include <locus/core/replay/traced_calls.h>

namespace locus::fusion {

struct RowReduction {
  std::string text;  // in C++, within locus::reduction: "Sum()"
  uint32_t axes;
};
// None: the op is no reduction, or one that runs by itself: var, std, argmax and argmin, and norm
// unless its order is 2.
std::optional<RowReduction> row_reduction(const capture::TracedCall& call, const Meta& in);

}  // namespace locus::fusion
