// The ways to compute a convolution on a GPU: our gathered products (gathered.h) with each tile,
// and cuDNN's plans. Numbers only.
#pragma once

#include <algorithm>
#include <array>
#include <string>
#include <tuple>

#include <locus/core/base/text.h>
#include <locus/core/error.h>
#include <locus/devices/cuda/dnn.h>
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

// The key of a remembered choice. `fits`: cuDNN's plans are allowed.
inline std::string way_key(const DnnConvolution& c, const std::string& hardware, bool fits) {
  return text_of(c, ", ", hardware, fits ? text_of(", cuDNN ", dnn_version()) : "");
}
// The same key within the process. The GPU's index replaces its name.
using WayNumbers = std::array<int64_t, std::tuple_size_v<DnnConvolution::Numbers> + 2>;
inline WayNumbers way_numbers(const DnnConvolution& c, int gpu, bool fits) {
  WayNumbers all{gpu, fits};
  std::ranges::copy(c.numbers(), all.begin() + 2);
  return all;
}

// A way by name: "ours", "ours 2" with our tile 2 (from 0), "cudnn ..." for a plan.
struct ConvolutionWay {
  int tile = -1;     // -1: any
  std::string plan;  // "": ours
};
inline std::string ours_name(int tile) { return text_of("ours ", tile); }
inline FormatError no_way(const std::string& name, const std::string& key) {
  return FormatError("there is no way '", name, "', which was chosen for ", key,
                     "; remove it from the file of LOCUS_TUNE or, where a checkpoint brought it, "
                     "put another in its place: tuning::choices().set({{key, \"ours\"}})");
}
// Throws no_way() for an unknown name.
inline ConvolutionWay convolution_way(const std::string& name, int tiles, const std::string& key) {
  if (name == "ours") return {};
  if (name.starts_with("cudnn ")) return {-1, name};
  for (int tile = 0; tile < tiles; ++tile)
    if (name == ours_name(tile)) return {tile, {}};
  throw no_way(name, key);
}

// Whether cuDNN's first plan is taken if nothing was measured (core/tuning.h). The rule is from
// ResNet-18's layers of 32x32 images on an H200 (locus_bench's ^dnn/, NCHW, cuDNN 9.14).

// With 256 images, f32, tf32 and then bf16, ours : cuDNN's in microseconds of the device:
//                          forward            data gradient        weight gradient
//   3x3 64x8x8             62 : 34            62 : 53              58 : 37
//                          62 : 16, 53 : 13   61 : 19, 53 : 14     111 : 46, 59 : 24
//   3x3 128x4x4            70 : 44            70 : 199             60 : 29
//   7x7/2 3x32x32 to 64    66 : 49, 63 : 51   950 : 137, 958 : 105 113 : 140, 83 : 60
//   1x1/2 64x8x8 to 128    6 : 8, 8 : 9       20 : 14, 14 : 9      13 : 20, 21 : 18
//   3x3 512x1x1            20 : 38, 13 : 24   21 : 45, 15 : 38     21 : 26, 13 : 18
inline bool dnn_convolution_wins(const DnnConvolution& c) {
  const bool tensor_cores = c.tf32 || c.dtype == f16 || c.dtype == bf16;
  const int64_t positions = Convolution::product(c.result), taps = Convolution::product(c.kernel);
  const int64_t products = c.images * positions * c.out * c.in * taps;
  // Groups and f64 were not measured: ours. f16 is taken to be as bf16, channels last as first.
  if (c.groups != 1) return false;
  // With tensor cores cuDNN wins large layers and, for data gradients, smaller ones too. It loses
  // if results are few: ours skips kernel elements in padding.
  if (tensor_cores)
    return positions >= 4 && products >= int64_t{1} << (c.kind == DnnKind::data_gradient ? 23 : 26);
  // In f32 cuDNN wins layers of many channels at stride 1, but not data gradients: its first plan
  // may take 72 us (ours 957) or 1202 us (ours 24).
  return c.dtype == f32 && c.kind != DnnKind::data_gradient && positions >= 16 && taps > 1 &&
         std::min(c.in, c.out) >= 64 && Convolution::product(c.stride) == 1 &&
         products >= int64_t{1} << 26;
}

}  // namespace locus::cuda
