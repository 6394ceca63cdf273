// cuDNN's convolutions, for kernel functions. cuDNN is known to cuda_dnn_*.cc only; in a build
// without it there are no plans, and dnn_version() is 0.
//
// A plan is one of cuDNN's engines with its settings, made for one convolution of one dtype: that
// takes the host milliseconds, and where the engine is compiled at run time up to seconds, so plans
// are kept with the device by all numbers of the convolution, and so is the answer that there are
// none. Executing one takes the host some microseconds. Only engines that give the same bits each
// time, add up in the dtype's compute type (f32 for 16 bits), give NaN and infinities to the
// results that meet them and to no other (no Winograd, no FFT), and leave f32 operands whole unless
// tf32 is asked for are plans; their workspace, at most 256 MiB, is a Scratch of the call. They can
// be executed while the stream is captured, and made then, too, though that is better done before:
// a plan of a convolution that ran once is there.
//
// Threads: any; those of a device take turns. Errors: DeviceError or OutOfMemory with cuDNN's text.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include <locus/core/kernel.h>

namespace locus::cuda {

enum class DnnKind : uint8_t { forward, data_gradient, weight_gradient };

// Of f32, f64, f16 or bf16; no number of elements is 0. Three spatial axes, of which the first may
// have length 1, and all arrays contiguous: the channel before them or after all (channels_last;
// weights are then (out, axes, in), too). Channels are those of a group.
struct DnnConvolution {
  DnnKind kind = DnnKind::forward;
  DType dtype = f32;
  bool channels_last = false;
  bool tf32 = false;                                  // f32 operands may lose 13 bits
  bool residual = false, bias = false, relu = false;  // forward: added in this order, then relu
  int64_t images = 0, groups = 1, in = 0, out = 0;
  int64_t data[3], kernel[3], result[3], stride[3], padding[3], dilation[3];

  using Numbers = std::array<int64_t, 29>;
  Numbers numbers() const;
};
// All of it, as the key of a choice (core/tuning.h).
std::string to_string(const DnnConvolution& c);

// At multiples of 16 bytes. One of the first three is the result: result, data or weight, by kind.
struct DnnOperands {
  const void *data, *weight, *result;
  const void *bias = nullptr, *residual = nullptr;
};

struct DnnPlan;
int dnn_version();  // 91900 for 9.19.0

// The one that cuDNN's heuristics rank first, or that has the name; null: there is none. Lives as
// long as the device.
const DnnPlan* dnn_plan(const Call& call, const DnnConvolution& c, std::string_view name = {});
std::vector<const DnnPlan*> dnn_plans(const Call& call, const DnnConvolution& c, size_t most);
const std::string& dnn_name(const DnnPlan& plan);  // the engine and its settings

void dnn_convolve(const Call& call, const DnnPlan& plan, const DnnOperands& operands);

struct DnnStats {
  int64_t found = 0, made = 0;  // how often a convolution was known, and was not
};
DnnStats dnn_stats(StreamView s);

}  // namespace locus::cuda
