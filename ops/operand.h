// What ops of several operands take, and what x[mask] and x[ids] are.
#pragma once

#include <iosfwd>

#include <locus/core/tensor.h>
#include <locus/ops/register.h>

namespace locus {

// A tensor, a selection (x[mask], gathered) or a number, borrowed for the expression it is in.
// Knows the user's line.
class Operand {
 public:
  Operand(const Tensor& t, Caller from = Caller::here()) : tensor_(&t), from_(from) {}
  Operand(const Selection& s, Caller from = Caller::here());
  template <class T>
  requires std::is_arithmetic_v<T> Operand(T v, Caller from = Caller::here())
      : scalar_(v), from_(from) {}
  Operand(const Operand&) = delete;
  Operand& operator=(const Operand&) = delete;

  bool is_scalar() const { return tensor_ == nullptr; }
  const Tensor& tensor() const { return *tensor_; }
  const Scalar& scalar() const { return scalar_; }
  Caller from() const { return from_; }

 private:
  Tensor held_;
  const Tensor* tensor_ = nullptr;
  Scalar scalar_ = 0;
  Caller from_;
};

// The elements of a tensor that a mask or index tensors name: gathered when read (as an operand, by
// conversion to Tensor, by printing), scattered when assigned. Several index tensors broadcast
// against each other; their axes appear in the place of the first when they are neighbours, else in
// front (NumPy); positions among them count as index tensors, and a mask without axes takes an axis
// of length 1 or none of it. Where an assignment names an element twice, which value stays is not
// defined, and += adds once. Lives in one expression.
class Selection {
 public:
  Selection(const Selection&) = default;
  // x[m] = y[m]; the compiler's own would do nothing.
  Selection& operator=(const Selection& values);
  void operator=(const Operand& values) &&;
  void operator+=(const Operand& values) &&;
  void operator-=(const Operand& values) &&;
  void operator*=(const Operand& values) &&;
  void operator/=(const Operand& values) &&;

  Tensor gather() const;

 private:
  friend class Tensor;
  friend struct SelectionAccess;
  Selection(const Tensor& base, Tensors ids, int at, Caller from)
      : base_(base), ids_(std::move(ids)), at_(at), from_(from) {}

  Tensor base_;
  Tensors ids_;  // one an indexed axis, a mask for as many as it has; undefined: a whole axis
  int at_ = 0;   // where the index's axes stand in the result
  Caller from_;
};

std::ostream& operator<<(std::ostream& os, const Selection& s);

}  // namespace locus
