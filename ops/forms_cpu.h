// define_ops(), call() and reduce() for the formulas and reductions of forms.h; and their CPU
// kernels, compiled with the options of the file that includes this header. Compile reductions with
// -ffp-contract=off if they should give the same bits with every compiler option.
//
// Include this header in the .cc files that define or call such ops.
#pragma once

#ifndef LOCUS_ISA_NAMESPACE
#define LOCUS_ISA_NAMESPACE of_program
#include <locus/ops/elementwise/elementwise_cpu.h>
#include <locus/ops/reduce/reduce_cpu.h>
#undef LOCUS_ISA_NAMESPACE
#endif

// For gradients.
#include <locus/ops/activation.h>
#include <locus/ops/forms.h>
#include <locus/ops/reduce/call.h>
#include <locus/ops/trigonometry.h>
#include <locus/ops/unary.h>

namespace locus {

// Defines the op of each form, and adds its CPU kernels, which emulated GPUs run, too. Call it
// before other threads use ops. Throws Error if a name is taken: each form in one list, once.
template <class... F>
void define_ops(formula::List<F...>) {
  const auto define_one = []<class G>(G) {
    const formula::List<G> one;
    if constexpr (requires { G::kArity; }) {
      define(one);
      set_kernels(DeviceType::cpu, of_program::elementwise_kernels(one));
    } else {
      reduction::define(one);
      set_kernels(DeviceType::cpu, formula::kernels_of<of_program::Engine>(one));
    }
  };
  (define_one(F()), ...);
}

// call(f, x), call(f, x, y), call(f, a, x, y): the op of formula f, with f's attributes. One of two
// operands may be a number; of three, the last two. Errors are those of built-in ops
// (elementwise.h).
template <class F>
Tensor call(const F& f, At<Tensor> x) {
  return call(f, x.value, x.from);
}
// The op of reduction r, with r's attributes, as sum() (reduce.h).
template <class R>
Tensor reduce(const R& r, const Tensor& x, const ReduceOptions& options = {},
              Caller from = Caller::here()) {
  return reduction::reduce(x, options, r, from);
}

}  // namespace locus
