// cuDNN's convolutions, for kernel functions. cuDNN is known to dnn*.cc only; in a build
// without it there are no plans, and dnn_version() is 0.
//
// A plan is one of cuDNN's engines with its settings, made for one convolution of one dtype: that
// takes the host milliseconds, and where the engine is compiled at run time up to seconds, so plans
// are kept with the device by all numbers of the convolution, and so is the answer that there are
// none: of the kMostDnnConvolutions that were asked for last. Executing one takes the host some
// microseconds. Only engines that give the same bits each time, add up in the dtype's compute type
// (f32 for 16 bits) and leave f32 operands whole unless tf32 is asked for are plans, and no
// Winograd or FFT: so they say themselves. Each is also run on infinities and NaNs when it is made,
// where its settings allow on one small image, on a stream of its own, and is no plan if its
// results are finite where these meet them. Its workspace, at most 256 MiB, is a Scratch of the
// call. Plans can be executed while the stream is captured, and made then, too, though that is
// better done before: a plan of a convolution that ran once is there.
//
// Threads: any. While a plan is made neither the stream's mutex (unlocked_stream.h) nor the lock of
// the known plans is held: other threads launch, find and execute plans of the device, and only
// those that need a new one, too, take turns. So ask for a plan where their kernels may come in
// between. Executing excludes executing on the same device. Errors: DeviceError or OutOfMemory with
// cuDNN's text.
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

// Of f32, f64, f16 or bf16; no number of elements is 0. Three spatial axes, of which the first may
// have length 1, and all arrays contiguous: the channel before them or after all (channels_last;
// weights are then (out, axes, in), too). Channels are those of a group.
struct DnnConvolution {
  DnnKind kind = DnnKind::forward;
  DType dtype = f32;
  bool channels_last = false;
  bool tf32 = false;                // f32 operands may lose 13 bits
  bool bias = false, relu = false;  // forward: added, and then relu
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
// All of it, as the key of a choice (core/tuning.h).
std::string to_string(const DnnConvolution& c);

// At multiples of 16 bytes. One of the first three is the result: result, data or weight, by kind.
struct DnnOperands {
  const void *data, *weight, *result;
  const void* bias = nullptr;
};

int dnn_version();  // 91900 for 9.19.0

// Whoever may execute it again holds it: a recorded call (tuning::kept), as long as its graphs
// live.
struct DnnPlan;
using DnnPlanRef = std::shared_ptr<const DnnPlan>;

// The one that cuDNN's heuristics rank first, or that has the name; null: there is none.
DnnPlanRef dnn_plan(const Call& call, const DnnConvolution& c, std::string_view name = {});
std::vector<DnnPlanRef> dnn_plans(const Call& call, const DnnConvolution& c, size_t most);
const std::string& dnn_name(const DnnPlan& plan);  // the engine and its settings

void dnn_convolve(const Call& call, const DnnPlan& plan, const DnnOperands& operands);

inline constexpr size_t kMostDnnConvolutions = 512;  // a device
struct DnnStats {
  int64_t found = 0, made = 0;  // how often a convolution was known, and was not
  int64_t refused = 0;          // plans that lost what is not finite
  size_t kept = 0;              // convolutions
};
DnnStats dnn_stats(StreamView s);

}  // namespace locus::cuda
