// What invoke() checks before it does anything, and the words it refuses with. Internal to core.
#pragma once

#include <locus/core/memory/storage.h>
#include <locus/core/op.h>

namespace locus::detail {

// LOCUS_SYNC=1: the host waits after each op, so that an asynchronous error surfaces at the call
// that caused it.
bool sync_each();

// The numbers of inputs and results and the type of the attributes, which infer and kernels rely
// on.
void check_call(const Op& op, std::span<const Ref> in, const AttrsView& attrs, size_t n_out);

// The context an op runs on; `all` holds n_in inputs, then outputs, of which some may be undefined.
// cpu and cpu_pinned are one memory: they mix, and the result is on the first cpu operand's
// context, cpu(0) when all are pinned. Throws ContextMismatch.
Context common_context(const Op& op, std::span<const Ref> all, size_t n_in);

// Throws ValueError when targets, operands from number n_in on, share memory: one would be written
// over by the other. Of two with gaps that is known where they begin at one element.
void check_apart(const Op& op, std::span<const Ref> all, size_t n_in);

// The i-th operand's handle; the inputs come first, n_in of them. Throws EmptyTensor.
[[noreturn]] void empty_operand(const Op& op, size_t i, size_t n_in);
inline const TensorImpl& checked(const Op& op, const Ref& r, size_t i, size_t n_in) {
  if (!r.tensor_->defined()) [[unlikely]]
    empty_operand(op, i, n_in);
  return *r.tensor_->handle();
}

// Rethrows what infer threw with the op's name and operands in front.
[[noreturn]] void rethrow(const Op& op, std::span<const Ref> in);
// The same, with the operand that it is about.
[[noreturn]] void rethrow(const Op& op, std::span<const Ref> in, size_t about);
// Rethrows the current OutOfMemory with the op's name and operands in front, unless the name of an
// op that this one called is there already.
[[noreturn]] void rethrow_out_of_memory(const Op& op, std::span<const Ref> in);
[[noreturn]] void is_view(const Op& op);
[[noreturn]] void no_kernel(const Op& op, std::span<const Ref> in, Context c, DeviceType type,
                            DType dtype);

}  // namespace locus::detail
