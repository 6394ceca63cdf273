// Attributes and indices of the convolution family, for the host and for nvcc.
#pragma once

#include <locus/core/dtype.h>
#include <locus/core/kernel_list.h>
#include <locus/ops/kernel/cast.h>
#include <locus/ops/matmul_attrs.h>

namespace locus {

struct ConvolutionAttrs {
  int64_t stride[3] = {1, 1, 1}, padding[3] = {}, dilation[3] = {1, 1, 1};  // per spatial axis
  int64_t groups = 1;
  // deconvolution: the result's spatial lengths. convolution_weight_grad: the kernel's.
  int64_t size[3] = {};
  bool channels_last = false;
  FusedActivation activation = FusedActivation::none;
};
// The op "convolution_backward". Inputs: dy, data, weight and, with relu, the result y. Outputs:
// gradients of data, weight and bias, (0,) if not requested.
struct ConvolutionBackwardAttrs {
  ConvolutionAttrs convolution;
  bool data = true, weight = true, bias = true;
};

// v[at], or 0 if relu's result is given and <= 0 there. A NaN passes.
template <class S>
LOCUS_HD S masked(const S* v, const S* result, int64_t at) {
  return result != nullptr && convert<Compute<S>>(result[at]) <= 0 ? S{} : v[at];
}

// From the first to the last element under a kernel.
LOCUS_HD int64_t kernel_span(int64_t kernel, int64_t dilation) {
  return (kernel - 1) * dilation + 1;
}
// 0 if the kernel does not fit.
LOCUS_HD int64_t convolved_length(int64_t n, int64_t span, int64_t stride, int64_t padding) {
  const int64_t room = n + 2 * padding - span;
  return room < 0 ? 0 : room / stride + 1;
}

// Three spatial axes; missing ones have length 1 and come first. Channels are per group.
struct Convolution {
  int64_t images = 0, groups = 1, in = 0, out = 0;
  int64_t data[3], kernel[3], result[3];
  int64_t stride[3], padding[3], dilation[3];
  bool channels_last = false;

  static LOCUS_HD int64_t product(const int64_t (&n)[3]) { return n[0] * n[1] * n[2]; }
  LOCUS_HD int64_t elements() const { return product(data); }
  LOCUS_HD int64_t taps() const { return product(kernel); }
  LOCUS_HD int64_t positions() const { return product(result); }
  LOCUS_HD int64_t depth() const { return in * taps(); }  // products per result

  // The data index, along an axis, of kernel element `tap` at result `at`.
  LOCUS_HD int64_t data_index(int axis, int64_t at, int64_t tap) const {
    return at * stride[axis] - padding[axis] + tap * dilation[axis];
  }

  // The result whose kernel element `tap` is at data element i, or -1.
  LOCUS_HD int64_t result_index(int axis, int64_t i, int64_t tap) const {
    const int64_t from = i + padding[axis] - tap * dilation[axis];
    if (from < 0 || from % stride[axis] != 0) return -1;
    const int64_t at = from / stride[axis];
    return at < result[axis] ? at : -1;
  }

  // Offset of element `at` of `size` in channel c of `channels` (of all groups) of image n.
  LOCUS_HD int64_t image_at(int64_t n, int64_t c, int64_t at, int64_t channels,
                            int64_t size) const {
    return channels_last ? (n * size + at) * channels + c : (n * channels + c) * size + at;
  }
  LOCUS_HD int64_t data_at(int64_t n, int64_t c, int64_t at) const {
    return image_at(n, c, at, groups * in, elements());
  }
  LOCUS_HD int64_t result_at(int64_t n, int64_t c, int64_t at) const {
    return image_at(n, c, at, groups * out, positions());
  }
  LOCUS_HD int64_t weight_at(int64_t o, int64_t i, int64_t tap) const {
    return image_at(o, i, tap, in, taps());
  }
};

LOCUS_HD Convolution make_convolution(const Meta& x, const Meta& w, const Meta& y,
                                      const ConvolutionAttrs& a) {
  Convolution c;
  const int axes = x.rank - 2, missing = 3 - axes, first = a.channels_last ? 1 : 2;
  c.channels_last = a.channels_last;
  c.images = x.shape[0];
  c.groups = a.groups;
  c.in = x.shape[a.channels_last ? x.rank - 1 : 1] / a.groups;
  c.out = y.shape[a.channels_last ? x.rank - 1 : 1] / a.groups;
  for (int i = 0; i < 3; ++i) {
    const int axis = i - missing;
    const bool there = axis >= 0;
    c.data[i] = there ? x.shape[first + axis] : 1;
    c.kernel[i] = there ? w.shape[first + axis] : 1;
    c.result[i] = there ? y.shape[first + axis] : 1;
    c.stride[i] = there ? a.stride[axis] : 1;
    c.padding[i] = there ? a.padding[axis] : 0;
    c.dilation[i] = there ? a.dilation[axis] : 1;
  }
  return c;
}

// Implements the ops with a device's Engine<D>{call, convolution}. Pointers are null if
// there is no bias or no mask (y), or if a result is not requested:
//   forward(x, w, bias, relu, y); data_gradient(dy, y, w, bias, dx), adds bias to dx;
//   weight_gradient(x, dy, y, dw, db)
template <template <DType> class Engine>
struct ConvolutionBackend {
  template <DType D>
  static void convolution(const Call& call) {
    using S = CppTypeOf<D>;
    const auto& a = call.attributes<ConvolutionAttrs>();
    const View *in = call.in, *out = call.out;
    Engine<D>{call, make_convolution(in[0].meta, in[1].meta, out[0].meta, a)}.forward(
        in[0].as<S>(), in[1].as<S>(), call.n_in == 3 ? in[2].as<S>() : nullptr,
        a.activation == FusedActivation::relu, out[0].as<S>());
  }
  template <DType D>
  static void deconvolution(const Call& call) {
    using S = CppTypeOf<D>;
    const auto& a = call.attributes<ConvolutionAttrs>();
    const View *in = call.in, *out = call.out;
    Engine<D>{call, make_convolution(out[0].meta, in[1].meta, in[0].meta, a)}.data_gradient(
        in[0].as<S>(), nullptr, in[1].as<S>(), call.n_in == 3 ? in[2].as<S>() : nullptr,
        out[0].as<S>());
  }
  template <DType D>
  static void weight_grad(const Call& call) {
    using S = CppTypeOf<D>;
    const auto& a = call.attributes<ConvolutionAttrs>();
    const View *in = call.in, *out = call.out;
    Engine<D>{call, make_convolution(in[0].meta, out[0].meta, in[1].meta, a)}.weight_gradient(
        in[0].as<S>(), in[1].as<S>(), nullptr, out[0].as<S>(), nullptr);
  }
  template <DType D>
  static void backward(const Call& call) {
    using S = CppTypeOf<D>;
    const auto& a = call.attributes<ConvolutionBackwardAttrs>();
    const View *in = call.in, *out = call.out;
    const Engine<D> engine{call,
                           make_convolution(in[1].meta, in[2].meta, in[0].meta, a.convolution)};
    const S *dy = in[0].as<S>(), *y = call.n_in == 4 ? in[3].as<S>() : nullptr;
    if (a.data) engine.data_gradient(dy, y, in[2].as<S>(), nullptr, out[0].as<S>());
    if (a.weight || a.bias)
      engine.weight_gradient(in[1].as<S>(), dy, y, a.weight ? out[1].as<S>() : nullptr,
                             a.bias ? out[2].as<S>() : nullptr);
  }
};

template <template <DType> class Engine>
constexpr KernelList convolution_kernels() {
  using Backend = ConvolutionBackend<Engine>;
  KernelList list;
  list.add_each("convolution", kFloatDTypes,
                [](auto d) { return Backend::template convolution<d>; });
  list.add_each("deconvolution", kFloatDTypes,
                [](auto d) { return Backend::template deconvolution<d>; });
  list.add_each("convolution_weight_grad", kFloatDTypes,
                [](auto d) { return Backend::template weight_grad<d>; });
  list.add_each("convolution_backward", kFloatDTypes,
                [](auto d) { return Backend::template backward<d>; });
  return list;
}

}  // namespace locus
