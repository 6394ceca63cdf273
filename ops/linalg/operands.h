// The operands of linear algebra's functions, and the check of their results. Errors begin with
// `who`, the function's name. Internal.
#pragma once

#include <string>

#include <locus/core/tensor.h>

namespace locus::linalg {

// x in a dtype that kernels compute in: f32 and f64 stay, integers and bool become f64. f16 and
// bf16 are a DTypeError. `what` is the operand's name in errors.
Tensor prepare_operand(const char* who, const char* what, const Tensor& x);
// The same for matrices in the last two axes. An operand of fewer axes is a ShapeError.
Tensor prepare_matrices(const char* who, const Tensor& x, const char* what = "a");
// The same for square matrices `a`. For other shapes, the error ends with `advice`.
Tensor prepare_square_matrices(const char* who, const Tensor& x, const char* advice = "");

// Advice in the errors of expect_success.
struct CheckAdvice {
  std::string in_capture = "pass {.check = false} to record the call";
  std::string on_failure = "{.check = false} gives NaN there instead";
};
// Waits, and throws ValueError if an element of `failed` is true. `failed` has a's batch, or a
// batch to which a's batch was broadcast. The error names the first matrix of `a` that failed, and
// then says `why`. In a capture, throws CaptureError.
void expect_success(const char* who, const Tensor& a, const Tensor& failed, const char* why,
                    Caller from, const CheckAdvice& advice = {});

// The operands of a system of equations, as matrices of one dtype and one batch. a is square,
// except for lstsq. If a square a is one matrix and b a batch, the batch becomes the columns of one
// b.
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
