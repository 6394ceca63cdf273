// Mixed precision by scope, for networks whose parameters stay f32.
//
//   {
//     autograd::Record record;
//     const amp::Scope mixed(bf16);
//     loss = loss_fn(net(x), y);
//   }
//
// Block::cast makes the parameters themselves 16 bits wide. Gradients in f16 need loss scaling
// (nn/loss_scaler.h).
#pragma once

#include <initializer_list>
#include <optional>

#include <locus/core/noncopyable.h>
#include <locus/core/tensor.h>

namespace locus::amp {

// While a Scope lives, ops on its thread cast their operands:
//   - dot, matmul, einsum, dense, convolution and deconvolution round f32 operands to `dtype`, and
//     return results of `dtype`.
//   - softmax, log_softmax and softmax_cross_entropy, sum, prod, mean, var, std, norm and logsumexp
//     (without out), and nn's losses widen 16-bit operands to f32. Their results are too large or
//     too close for 16 bits.
//   - exp, expm1, log, log2, log10, log1p, power, reciprocal, rsqrt, tan, sinh, cosh, arcsin,
//     arccos and smooth_l1 widen, too, as in MXNet's amp and PyTorch's autocast.
//   - Other ops take operands as they are. The ops of ops/norm.h compute in f32 anyway.
// `dtype` is f16 or bf16, else DTypeError. Casts are recorded, so gradients of f32 tensors are f32.
// backward() may be called inside or outside the scope. Scopes nest. Compiled keeps a recording for
// each dtype.
class [[nodiscard]] Scope : NonCopyable {
 public:
  explicit Scope(DType dtype = bf16) : Scope(std::optional(dtype)) {}
  // nullopt: no casts, as outside of any scope.
  explicit Scope(std::optional<DType> dtype);
  ~Scope();

 private:
  const std::optional<DType> outer_;
};

// The dtype of this thread's innermost scope.
std::optional<DType> dtype();

// For ops that narrow. Whether to narrow the operands: in a scope, if all defined operands are
// floating, none is f64, and one is f32.
bool narrows(std::initializer_list<const Tensor*> operands);
// An operand narrowed to the scope's dtype; an operand widened to f32; the dtype after widening.
Tensor narrow(const Tensor& x);
Tensor widen(const Tensor& x);
DType widened(DType d);

}  // namespace locus::amp
