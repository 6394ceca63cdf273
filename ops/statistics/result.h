// The end of a function made of other ops: its result in the caller's memory. Internal to ops.
#pragma once

#include <locus/core/op.h>
#include <locus/ops/call_check.h>

namespace locus::detail {

// y, or `out`, into which y is written. Throws, as invoke_into() does, if `out` does not fit.
inline Tensor result_in(const char* op, const Tensor& y, const Tensor& out) {
  if (!out.defined()) return y;
  static const OpRef<CopyAttrs> copy("copy");
  called_as(op, "copy", [&] { invoke_into(copy, {y}, {out}, CopyAttrs{y.dtype()}); });
  return out;
}

}  // namespace locus::detail
