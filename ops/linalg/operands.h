// The operands of linear algebra's functions, and the check of their results. Errors begin with the
// function's name. Internal.
#pragma once

#include <string>

#include <locus/core/tensor.h>

namespace locus::linalg {

// x in a dtype that kernels compute in: integers as f64. 16-bit floats are a DTypeError. `what` is
// the name of the operand.
Tensor prepare_operand(const char* who, const char* what, const Tensor& x);
// The same for an operand of at least 2 axes.
Tensor prepare_matrices(const char* who, const Tensor& x, const char* what = "a");
// The same for square matrices `a`. The error of others ends with `advice`.
Tensor prepare_square_matrices(const char* who, const Tensor& x, const char* advice = "");

// What errors of expect_success advise.
struct CheckAdvice {
  std::string in_capture = "pass {.check = false} to record the call";
  std::string on_failure = "{.check = false} gives NaN there instead";
};
// Waits, and throws if a matrix of `a` has failed. `failed` has a's batch, or a batch that a's
// batch was broadcast to: the error names the entry of a. `why` follows the entry.
void expect_success(const char* who, const Tensor& a, const Tensor& failed, const char* why,
                    Caller from, const CheckAdvice& advice = {});

// The operands of a system of equations: matrices of one dtype and batch. a is square, unless the
// system has least squares. A batch of b for one square a is one b: its columns are those of all.
class LinearSystem {
 public:
  Tensor a, b;

  LinearSystem(const char* who, const Tensor& a, const Tensor& b, bool square = true);
  // Solutions in the shape that the caller of the function expects.
  Tensor restore(const Tensor& x) const;

 private:
  bool b_is_vector_ = false;
  Shape x_shape_;  // of the solutions, if a batch of b is one b; else without axes
};

}  // namespace locus::linalg
