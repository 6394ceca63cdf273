// Operand and Selection: the argument types of ops, and the results of x[mask] and x[ids].
#pragma once

#include <iosfwd>

#include <locus/core/tensor.h>
#include <locus/ops/register.h>

namespace locus {

// A tensor, a selection (x[mask], gathered) or a number. An Operand borrows its value for one
// expression and stores the caller's line.
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

// The elements of a tensor that a mask or index tensors select. Reading a Selection gathers: as an
// operand, by conversion to Tensor, by printing. Assigning scatters. A Selection lives in one
// expression.
//
// - Several index tensors broadcast against each other. If they are neighbours, their axes take the
// place of the first, else they come in front, as in NumPy.
// - Positions among index tensors count as index tensors.
// - A mask without axes selects a new axis of length 1 or 0.
// - If an assignment selects an element twice, either value may stay; += adds once.
class Selection {
 public:
  Selection(const Selection&) = default;
  // Scatters: x[m] = y[m]. The compiler's assignment would change nothing.
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
  Tensors ids_;  // one per indexed axis; a mask covers its axes; undefined: a whole axis
  int at_ = 0;   // the place of the index's axes in the result
  Caller from_;
};

std::ostream& operator<<(std::ostream& os, const Selection& s);

}  // namespace locus
