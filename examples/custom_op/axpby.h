// a*x + b*y, an op defined outside Locus with a gradient, sample inputs and kernels.
#pragma once

#include <locus/core/kernel.h>

struct AxpbyAttrs {
  double a, b;
};

void axpby_gpu(const locus::Call& call);  // axpby.cu

#ifndef __CUDACC__
#include <locus/core/tensor.h>

// x and y have the same shape; f32. Errors name the line of the call.
locus::Tensor axpby(double a, const locus::Tensor& x, double b, const locus::Tensor& y,
                    locus::Caller = locus::Caller::here());
#endif
