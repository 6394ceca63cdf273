#include <locus/ops/allclose.h>

#include <locus/core/autograd.h>
#include <locus/core/base/at_line.h>
#include <locus/core/base/recording_hooks.h>
#include <locus/core/observe/memory_events.h>
#include <locus/core/observe/nan_check.h>
#include <locus/ops/call_check.h>
#include <locus/ops/compare.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/elementwise/call.h>
#include <locus/ops/reduce.h>
#include <locus/ops/unary.h>

namespace locus {

bool allclose(const Operand& a, const Operand& b, const CloseOptions& o, Caller from) try {
  const UserLine user_line(from);
  if (!(o.rtol >= 0 && o.atol >= 0))
    throw ValueError("allclose: rtol ", o.rtol, ", atol ", o.atol, "; expected numbers >= 0");
  const autograd::Pause pause;
  const NanCheckPause nan_is_expected;
  for (const Operand* const x : {&a, &b})
    if (!x->is_scalar() && x->tensor().defined())
      capture::check_wait(x->tensor().context(), "allclose", from);
  // Refuses operands that do not fit. A number is compared as it is, not as the tensor's dtype has
  // it.
  Tensor same = detail::called_as("allclose", "equal", [&] { return equal(a, b); });
  const Context c = same.context();
  const auto wide = [&](const Operand& x) {
    return x.is_scalar() ? full({}, x.scalar(), {c, f64}) : detail::as(x.tensor(), f64);
  };
  const Tensor x = wide(a), y = wide(b);
  if (a.is_scalar() || b.is_scalar()) same = equal(x, y);
  const Tensor near = logical_and(isfinite(y), abs(x - y) <= o.atol + o.rtol * abs(y));
  Tensor close = logical_or(same, near);
  if (o.equal_nan) close = logical_or(close, logical_and(isnan(x), isnan(y)));
  return all(close).item<bool>(from);
} catch (const Error&) {
  rethrow_at(from);
}

}  // namespace locus
