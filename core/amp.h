// Mixed precision by scope, for networks whose parameters stay f32:
//   {
//     autograd::Record record;
//     const amp::Scope mixed(bf16);
//     loss = loss_fn(net(x), y);
//   }
// Networks that are 16 bits wide themselves are Block::cast's; gradients of f16 need the scaling of
// nn/loss_scaler.h.
#pragma once

#include <initializer_list>
#include <optional>

#include <locus/core/noncopyable.h>
#include <locus/core/tensor.h>

namespace locus::amp {

// While it lives, on this thread, dot, matmul, dense, convolution and deconvolution round their f32
// operands to `dtype`, f16 or bf16 (else DTypeError), and give results of it. 16-bit operands of
// softmax, log_softmax and softmax_cross_entropy, of sum, prod, mean, var, std, norm and logsumexp
// (without out), of exp, expm1, log, log2, log10, log1p, power, reciprocal, rsqrt, tan, sinh, cosh,
// arcsin, arccos and smooth_l1 (which MXNet's amp and PyTorch's autocast both widen), and of nn's
// losses are taken as f32: their results are too large or too close for 16 bits. Other ops take
// what they get; those of ops/norm.h compute in f32 anyway. The casts are recorded, so the
// gradients of f32 tensors are f32; backward() is as recorded, wherever it is called. Scopes nest;
// Compiled records one for each.
class [[nodiscard]] Scope : NonCopyable {
 public:
  explicit Scope(DType dtype = bf16) : Scope(std::optional(dtype)) {}
  // Nothing: as outside of any scope.
  explicit Scope(std::optional<DType> dtype);
  ~Scope();

 private:
  const std::optional<DType> outer_;
};

// Of the innermost scope on this thread.
std::optional<DType> dtype();

// For such ops. Whether operands are to be narrowed: within a scope, when all that are defined are
// floating and none is f64, and one is f32.
bool narrows(std::initializer_list<const Tensor*> operands);
// What becomes of an operand then; and of one that is to be f32 within a scope, and its dtype.
Tensor narrow(const Tensor& x);
Tensor widen(const Tensor& x);
DType widened(DType d);

}  // namespace locus::amp
