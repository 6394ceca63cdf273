// Convolutions on gpu(0) in a chosen way, for tests and benchmarks of cuDNN.
#pragma once

#include <string>
#include <vector>

#include <locus/core/context.h>
#include <locus/core/device.h>
#include <locus/core/op.h>
#include <locus/core/stream.h>
#include <locus/core/tuning.h>
#include <locus/ops/convolution/convolution_ways.h>

namespace locus::cuda {

using Names = std::vector<std::string>;

inline constexpr DnnKind kKinds[] = {DnnKind::forward, DnnKind::data_gradient,
                                     DnnKind::weight_gradient};

// Calls f(call) as a kernel function on gpu(0) and waits.
template <class F>
void in_kernel(const F& f) {
  const F* const attrs = &f;
  const Call call{nullptr, nullptr, 0, 0, &attrs, sizeof(attrs), current_stream(gpu(0))};
  Device& d = device(gpu(0));
  d.launch([](const Call& c) { (*c.attributes<const F*>())(c); }, call, "dnn test");
  d.synchronize(call.stream);
}
inline Names plan_names(const DnnConvolution& c, size_t most = 4) {
  Names names;
  in_kernel([&](const Call& call) {
    for (const DnnPlanRef& plan : dnn_plans(call, c, most)) names.push_back(dnn_name(*plan));
  });
  return names;
}

// During its lifetime, convolutions like c on gpu(0) are computed in this way.
class Way {
 public:
  Way(const DnnConvolution& c, const std::string& name)
      : key_(way_key(c, context_info(gpu(0)).name, true)) {
    tuning::choices().set({{key_, name}});
  }
  ~Way() { tuning::choices().set({{key_, "ours"}}); }

 private:
  const std::string key_;
};

struct Layer {
  Convolution g;
  bool relu = false;
  Tensor x, w, b, dy;

  DnnConvolution form(DnnKind kind) const {
    return kind == DnnKind::forward ? dnn_convolution(g, kind, x.dtype(), b.defined(), relu)
                                    : dnn_convolution(g, kind, x.dtype());
  }
  ConvolutionAttrs attrs() const {
    ConvolutionAttrs a;
    for (int i = 0; i < 3; ++i) {
      a.stride[i] = g.stride[i];
      a.padding[i] = g.padding[i];
      a.dilation[i] = g.dilation[i];
    }
    a.groups = g.groups;
    a.channels_last = g.channels_last;
    a.activation = relu ? FusedActivation::relu : FusedActivation::none;
    return a;
  }
  Tensor forward() const {
    static const OpRef<ConvolutionAttrs> op("convolution");
    return b.defined() ? invoke(op, {x, w, b}, attrs()) : invoke(op, {x, w}, attrs());
  }
  Tensor compute(DnnKind kind) const {
    if (kind == DnnKind::forward) return forward();
    static const OpRef<ConvolutionBackwardAttrs> op("convolution_backward");
    const bool data = kind == DnnKind::data_gradient;
    const ConvolutionBackwardAttrs a{attrs(), data, !data, !data && b.defined()};
    const Tensor y = relu ? forward() : Tensor();
    const Ref in[] = {dy, x, w, y};
    const Tensors all = invoke_all(op, {in, relu ? 4u : 3u}, a);
    return data ? all[0] : all[1];
  }
};

}  // namespace locus::cuda
