// Ops of a program in the form of the built-in ones. A formula computes each element of a result
// from one element of one to three operands, which broadcast. A reduction combines the elements
// along axes. From one struct come the kernels of both back ends, shapes and dtypes, gradients of
// any order, and inputs for tests. Recordings, profiles and checks treat these ops as built-in
// ones.
//
//   // lerp.h, for the two files below
//   namespace f = locus::formula;
//   // The base: two operands, the op's name, its dtypes, its cost in additions, and which operands
//   // the gradients read.
//   struct Lerp : f::Binary<"lerp", f::kFloats, 2, f::kNothing> {
//     f::Real t = 0.5;                             // an attribute; t(x) is t in the type of x
//     static Lerp sample() { return {{}, 0.25}; }  // other attributes, for tests
//     LOCUS_HD auto apply(auto x, auto y) const { return x + t(x) * (y - x); }
//     // The gradients of x and y, made of ops. Their arguments are x, y, the result z, and its
//     // gradient d.
//     auto dx(auto&, auto&, auto&, auto& d) const { return d * (1 - t(d)); }
//     auto dy(auto&, auto&, auto&, auto& d) const { return d * t(d); }
//   };
//   using Ops = f::List<Lerp>;  // all formulas of the program
//
//   // lerp.cc: #include <locus/ops/forms_cpu.h>
//   define_ops(Ops());                      // once: registers the ops and their CPU kernels
//   Tensor z = call(Lerp{{}, 0.25}, x, y);  // Lerp with t = 0.25
//
//   // lerp.cu, compiled by nvcc with --expt-relaxed-constexpr: #include <locus/ops/forms_cuda.h>
//   add_cuda_kernels(Ops());                // once, after define_ops
//
// The members of a formula: ops/elementwise/form.h. Those of a reduction: ops/reduce/reduction.h.
#pragma once

#include <locus/ops/elementwise/form.h>
#include <locus/ops/reduce/reduction.h>
