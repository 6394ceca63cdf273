// Indexing by tensors: x[mask], x[ids], x(ids, Slice()).
#pragma once

#include <iosfwd>

#include <locus/core/tensor.h>
#include <locus/ops/register.h>

namespace locus {

class Operand;  // elementwise.h: a Tensor, a Selection or a number

// The elements of a tensor that a mask or index tensors name: gathered when read (as an operand, by
// conversion to Tensor, by printing), scattered when assigned. Lives in one expression.
class Selection {
 public:
  Selection(const Selection&) = default;
  Selection& operator=(
      const Selection& values);  // x[m] = y[m]; the compiler's own would do nothing
  void operator=(const Operand& values) &&;
  void operator+=(const Operand& values) &&;
  void operator-=(const Operand& values) &&;
  void operator*=(const Operand& values) &&;
  void operator/=(const Operand& values) &&;

  Tensor gather() const;

 private:
  friend class Tensor;
  Selection() = default;

  Tensor base_;
  Tensors ids_;  // one an indexed axis; undefined stands for a whole axis
  Caller from_;
};

std::ostream& operator<<(std::ostream& os, const Selection& s);

}  // namespace locus
