// What ops of several operands take.
#pragma once

#include <locus/core/tensor.h>
#include <locus/ops/kernel/register.h>

namespace locus {

// A tensor, a selection (x[mask], gathered) or a number, borrowed for the expression it is in.
class Operand {
 public:
  Operand(const Tensor& t) : tensor_(&t) {}
  Operand(const Selection& s);
  template <class T>
  requires std::is_arithmetic_v<T> Operand(T v) : scalar_(v) {}
  Operand(const Operand&) = delete;
  Operand& operator=(const Operand&) = delete;

  bool is_scalar() const { return tensor_ == nullptr; }
  const Tensor& tensor() const { return *tensor_; }
  const Scalar& scalar() const { return scalar_; }

 private:
  Tensor held_;
  const Tensor* tensor_ = nullptr;
  Scalar scalar_ = 0;
};

}  // namespace locus
