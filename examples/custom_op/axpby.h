// Two ops defined outside Locus: a*x + b*y, and the sum of absolute values. The structs are all
// that CPU kernels, CUDA kernels, gradients and sample inputs are made of.
#pragma once

#include <locus/ops/forms.h>

struct Axpby
    : locus::formula::Binary<"axpby", locus::formula::kFloats, 2, locus::formula::kNothing> {
  locus::formula::Real a = 1, b = 1;
  static Axpby sample() { return {{}, 2, -0.5}; }
  LOCUS_HD auto apply(auto x, auto y) const { return a(x) * x + b(y) * y; }
  // Made of ops, so second derivatives work.
  auto dx(auto&, auto&, auto&, auto& d) const { return d * a(d); }
  auto dy(auto&, auto&, auto&, auto& d) const { return d * b(d); }
};

struct SumAbs
    : locus::reduction::Reduction<"sum_abs", locus::formula::kFloats, locus::formula::kX> {
  LOCUS_HD static auto map(auto x) { return locus::m::abs(x); }
  LOCUS_HD static auto combine(auto a, auto b) { return a + b; }
  auto grad(auto& x, auto&, auto& dy, auto&) const { return dy * sign(x); }
};

using CustomOps = locus::formula::List<Axpby, SumAbs>;

void add_custom_cuda_kernels();  // axpby.cu

#ifndef __CUDACC__
#include <locus/ops/operand.h>

// x and y broadcast. Errors name the line of the call.
locus::Tensor axpby(double a, const locus::Operand& x, double b, const locus::Operand& y);
locus::Tensor sum_abs(const locus::Tensor& x, locus::Caller = locus::Caller::here());
#endif
