// Reductions from a few lines of C++, compiled at first use, on any context.
//
//   ReductionKernel l2("T x", "T y", "x * x", "a + b", "y = sqrt(a)", "0", "l2norm");
//   Tensor rows = l2(x, {.axis = 1});
//
// Types, compilers, the cache and handles are those of ElementwiseKernel (kernels.h). Threads: any.
#pragma once

#include <locus/ops/kernels.h>
#include <locus/ops/reduce.h>

namespace locus {

// Combines elements of its inputs, which broadcast, along any axes.
class ReductionKernel {
 public:
  // `map` is an expression of the inputs, i (the element's number among those of an output, in
  // row-major order) and n (how many these are). `reduce` combines two values, a and b. It must be
  // associative and commutative. `post_map` sets the outputs from a, the combined value; it has n,
  // raw inputs and numbers, too. `identity` is an expression, or "": then a reduction of no
  // elements throws. Throws ValueError for a wrong list, name or text.
  ReductionKernel(std::string in, std::string out, std::string map, std::string reduce,
                  std::string post_map, std::string identity, std::string name,
                  const KernelOptions& options = {}, Caller = Caller::here());

  // Makes the outputs and returns the first. If the outputs are given behind the inputs, or one as
  // {.out = y}, writes them instead.
  Tensor operator()(const Operand& a, const ReduceOptions& = {}) const;
  Tensor operator()(const Operand& a, const Operand& b, const ReduceOptions& = {}) const;
  Tensor operator()(const Operand& a, const Operand& b, const Operand& c,
                    const ReduceOptions& = {}) const;
  Tensor operator()(const Operand& a, const Operand& b, const Operand& c, const Operand& d,
                    const ReduceOptions& = {}) const;
  // Any number of inputs. Returns all outputs.
  Tensors run(std::initializer_list<Operand> in, const ReduceOptions& = {},
              Caller = Caller::here()) const;
  // Writes existing tensors of the result's shape. Inputs that overlap them are copied first.
  void into(std::initializer_list<Operand> in, std::initializer_list<Operand> out,
            const ReduceOptions& = {}, Caller = Caller::here()) const;

  // This kernel with a gradient, as ElementwiseKernel::with_gradient(). In the gradient kernel,
  // outputs and their gradients (y, dy) broadcast along the reduced axes, and n is the number of
  // all elements.
  ReductionKernel with_gradient(const ElementwiseKernel& gradient, Caller = Caller::here()) const;

  const std::string& name() const;
  // As ElementwiseKernel::source().
  std::string source(Context c, std::initializer_list<DType> of_operands,
                     Caller = Caller::here()) const;

 private:
  const jit::Definition* definition_;
};

// --- Details ---

// - The identity is combined once with all elements. Without an identity, a reduction starts with
//   its first element. CuPy starts it with zero.
// - a and b have KernelOptions::reduce_type: a dtype, a letter, or a trivially copyable type of the
//   preamble, of at most 128 bytes, with a default constructor. Default: the type of the first
//   output, f32 for f16 and bf16.
// - The order of combination depends only on shapes, strides and the type of device. cpu contexts
//   and emulated GPUs give the same bits.
// - At least one input that is not raw is a tensor. Outputs are not raw.
// - No parameter is named a, b, i or n, or begins with _. operator() takes at most 4 operands. The
//   other limits are those of ElementwiseKernel.
// - ShapeError: an axis is out of range or given twice; an output has another shape than the
//   result; no elements and no identity. Other errors are those of ElementwiseKernel.

}  // namespace locus
