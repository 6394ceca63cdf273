// The ways to compute a convolution on a GPU: our gathered products (gathered.h), with each of
// their tiles, and cuDNN's plans. Numbers only.
#pragma once

#include <string>

#include <locus/core/text.h>
#include <locus/devices/cuda_dnn.h>
#include <locus/ops/convolution/convolution_kernel.h>

namespace locus::cuda {

inline DnnConvolution dnn_convolution(const Convolution& g, DnnKind kind, DType dtype,
                                      bool bias = false, bool relu = false) {
  DnnConvolution c;
  c.kind = kind;
  c.dtype = dtype;
  c.channels_last = g.channels_last;
  c.tf32 = dtype == f32 && matmul_precision() == Precision::tf32;
  c.bias = bias;
  c.relu = relu;
  c.images = g.images;
  c.groups = g.groups;
  c.in = g.in;
  c.out = g.out;
  for (int a = 0; a < 3; ++a) {
    c.data[a] = g.data[a];
    c.kernel[a] = g.kernel[a];
    c.result[a] = g.result[a];
    c.stride[a] = g.stride[a];
    c.padding[a] = g.padding[a];
    c.dilation[a] = g.dilation[a];
  }
  return c;
}

// Under which a choice between the ways is remembered; `fits`: cuDNN's are among them.
inline std::string way_key(const DnnConvolution& c, const std::string& hardware, bool fits) {
  return text_of(c, ", ", hardware, fits ? text_of(", cuDNN ", dnn_version()) : "");
}

// The rule where nothing was measured (core/tuning.h): whether cuDNN's first plan is taken. It is a
// matter of measurement on the GPU, by kind, dtype, layout and channels; ours are taken until there
// is one.
inline bool dnn_convolution_wins(const DnnConvolution&) { return false; }

}  // namespace locus::cuda
