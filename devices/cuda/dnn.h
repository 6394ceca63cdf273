// cuDNN's convolutions, for kernel functions. Only dnn*.cc include cuDNN. In a build without it
// there are no plans, and dnn_version() is 0.
//
// A plan is one of cuDNN's engines with its settings, made for one convolution of one dtype. Making
// it takes the host milliseconds, or seconds if the engine is compiled at run time. So each device
// keeps the plans of the kMostDnnConvolutions convolutions used last, and which of them have none.
// Executing a plan takes the host some microseconds.
//
// Threads: any. Errors: DeviceError or OutOfMemory with cuDNN's text.
#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <locus/core/kernel.h>

namespace locus::cuda {

enum class DnnKind : uint8_t { forward, data_gradient, weight_gradient };

// Of f32, f64, f16 or bf16; no array is empty. Three spatial axes, of which the first may have
// length 1. All arrays are contiguous, with channels before the axes or last (channels_last;
// weights are then (out, axes, in)). Channels are per group.
struct DnnConvolution {
  DnnKind kind = DnnKind::forward;
  DType dtype = f32;
  bool channels_last = false;
  bool tf32 = false;                // f32 operands may lose 13 bits
  bool bias = false, relu = false;  // forward: add, then relu
  int64_t images = 0, groups = 1, in = 0, out = 0;
  int64_t data[3], kernel[3], result[3], stride[3], padding[3], dilation[3];

  using Numbers = std::array<int64_t, 28>;
  Numbers numbers() const {
    Numbers n{static_cast<int64_t>(kind),
              static_cast<int64_t>(dtype),
              channels_last,
              tf32,
              bias,
              relu,
              images,
              groups,
              in,
              out};
    auto to = n.begin() + 10;
    for (const auto& axes : {data, kernel, result, stride, padding, dilation})
      to = std::copy_n(axes, 3, to);
    return n;
  }
};
// The whole convolution as text: the key of a choice (core/tuning.h).
std::string to_string(const DnnConvolution& c);

// Aligned to 16 bytes. `kind` says which of the first three is the result: result, data or weight.
struct DnnOperands {
  const void *data, *weight, *result;
  const void* bias = nullptr;
};

int dnn_version();  // 91900 for 9.19.0

// Shared by all that may execute the plan again. A recorded call (tuning::kept) holds it as long as
// its graphs live.
struct DnnPlan;
using DnnPlanRef = std::shared_ptr<const DnnPlan>;

// The plan that cuDNN's heuristics rank first, or that has the name; null if there is none.
DnnPlanRef dnn_plan(const Call& call, const DnnConvolution& c, std::string_view name = {});
std::vector<DnnPlanRef> dnn_plans(const Call& call, const DnnConvolution& c, size_t most);
const std::string& dnn_name(const DnnPlan& plan);  // the engine and its settings

void dnn_convolve(const Call& call, const DnnPlan& plan, const DnnOperands& operands);

inline constexpr size_t kMostDnnConvolutions = 512;  // per device
struct DnnStats {
  int64_t found = 0, made = 0;  // look-ups of convolutions that were known, and that were not
  int64_t refused = 0;          // plans that lost infinities or NaNs
  size_t kept = 0;              // convolutions
};
DnnStats dnn_stats(StreamView s);

// --- Details ---
//
// - The engine of a plan reports no Winograd or FFT. It gives the same bits each time, sums in the
//   dtype's compute type (f32 for 16 bits), and rounds f32 operands only with tf32.
// - When a plan is made, it is run on infinities and NaNs, on one small image if its settings allow
//   that. A plan that turns these into finite results is refused.
// - The workspace is a Scratch of the call, at most 256 MiB.
// - Plans can be executed and made while the stream is captured. Making them before is better.

// Threads:
// - While a plan is made, the stream's mutex (unlocked_stream.h) is free: other threads launch,
//   find and execute plans. So ask for a plan only where their kernels may come in between.
// - Only one thread at a time makes plans of a device, and only one executes plans.

}  // namespace locus::cuda
