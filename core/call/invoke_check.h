// Checks that invoke() makes first, and their error texts. Internal to core.
#pragma once

#include <locus/core/memory/storage.h>
#include <locus/core/op.h>

namespace locus::detail {

// LOCUS_SYNC=1: the host waits after each op, so that the call that caused an asynchronous error
// throws it.
bool sync_each();

// Checks the numbers of inputs and results and the attributes' type, for infer and kernels.
void check_call(const Op& op, std::span<const Ref> in, const AttrsView& attrs, size_t n_out);

// The context that an op runs on. `all`: n_in inputs, then outputs, which may be undefined. cpu and
// cpu_pinned mix: the result is on the first cpu operand's context, or on cpu(0) if all are pinned.
// Throws ContextMismatch.
Context common_context(const Op& op, std::span<const Ref> all, size_t n_in);

// Throws ValueError if targets, the operands from index n_in on, share memory. Sharing of
// targets with gaps is found only if both begin at the same byte.
void check_apart(const Op& op, std::span<const Ref> all, size_t n_in);

// The handle of operand i; the first n_in are inputs. Throws EmptyTensor.
[[noreturn]] void empty_operand(const Op& op, size_t i, size_t n_in);
inline const TensorImpl& checked(const Op& op, const Ref& r, size_t i, size_t n_in) {
  if (!r.tensor_->defined()) [[unlikely]]
    empty_operand(op, i, n_in);
  return *r.tensor_->handle();
}

// Rethrows the current Error with the op's name and operands in front.
[[noreturn]] void rethrow(const Op& op, std::span<const Ref> in);
// The same, with operand `about` only.
[[noreturn]] void rethrow(const Op& op, std::span<const Ref> in, size_t about);
// Rethrows the current OutOfMemory with the op's name and operands in front, unless the text starts
// with an op's name already.
[[noreturn]] void rethrow_out_of_memory(const Op& op, std::span<const Ref> in);
[[noreturn]] void is_view(const Op& op);
[[noreturn]] void no_kernel(const Op& op, std::span<const Ref> in, Context c, DeviceType type,
                            DType dtype);

}  // namespace locus::detail
