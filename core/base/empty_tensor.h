// The error for an empty Tensor: default-constructed or moved from. Ops and containers call
// expect_tensor() before they use a tensor, so that the text names the call and its operand:
// "take: ids is an empty Tensor (default-constructed or moved from); assign a tensor to it first".
// Internal. Threads: any.
#pragma once

#include <string>
#include <string_view>

#include <locus/core/error.h>
#include <locus/core/tensor.h>

namespace locus::detail {

// Throws EmptyTensor if x is empty. `what` in pieces: "array ", i.
inline void expect_tensor(std::string_view who, const Tensor& x, const auto&... what) {
  if (!x.defined()) [[unlikely]]
    throw_empty(who, text_of(what...));
}
inline void expect_tensor(std::string_view who, const Tensor& x) { expect_tensor(who, x, "data"); }

}  // namespace locus::detail
