// Convolution and transposed convolution layers, with Gluon's names and defaults.
//
//   nn::Conv2D(20, 5, {.activation = nn::relu})             channels, kernel: 5 is {5, 5}
//   nn::Conv2D(50, {5, 3}, {.strides = {2, 1}, .padding = 1, .layout = "NHWC"})
//
// weight is (channels, in / groups, kernel...), for a transpose (in, channels / groups, kernel...).
// With channels last (NWC, NHWC, NDHWC) the second axis moves behind the kernel. The number of
// input channels, unless given, is taken from the first input. Errors name the layer as repr()
// does.
#pragma once

#include <optional>
#include <string>

#include <locus/nn/layers.h>
#include <locus/ops/spatial_axes.h>

namespace locus::nn {

struct ConvOptions {
  Extent strides = 1, padding = 0, dilation = 1;
  int64_t groups = 1;
  std::string_view layout = {};  // unset: channels first
  Activation activation = {};    // relu is part of the convolution's kernel
  bool use_bias = true;
  std::optional<init::Initializer> weight_initializer = {};  // unset: the one given to initialize()
  std::optional<init::Initializer> bias_initializer = {};    // unset: zeros
  int64_t in_channels = 0;                                   // 0: taken from the first input
  DType dtype = f32;
};

struct ConvTransposeOptions {
  Extent strides = 1, padding = 0, output_padding = 0, dilation = 1;
  int64_t groups = 1;
  std::string_view layout = {};
  Activation activation = {};
  bool use_bias = true;
  std::optional<init::Initializer> weight_initializer = {};
  std::optional<init::Initializer> bias_initializer = {};
  int64_t in_channels = 0;
  DType dtype = f32;
};

// The base of these layers.
class ConvLayer : public Block {
 public:
  Tensor forward(const Tensor& x) override;
  // Gluon's text. For transposes, too, channels are in -> out; output_padding is shown:
  //   "Conv2D(1 -> 20, kernel_size=(5, 5), stride=(1, 1), Activation(relu))"
  std::string repr() const override;

 protected:
  ConvLayer(int axes, int64_t channels, const Extent& kernel, const ConvOptions&);
  ConvLayer(int axes, int64_t channels, const Extent& kernel, const ConvTransposeOptions&);

 private:
  void create(const Extent& kernel, const ConvOptions&);
  Shape weight_shape(int64_t in) const;
  std::string name() const;
  void check(const Tensor& x) const;

  int axes_;
  bool transposed_;
  bool channels_last_ = false;
  int64_t channels_, groups_ = 1;
  int64_t kernel_[kMaxSpatial] = {}, strides_[kMaxSpatial], padding_[kMaxSpatial],
          dilation_[kMaxSpatial], output_padding_[kMaxSpatial] = {};
  Activation activation_;
  Parameter weight_, bias_;
};

struct Conv1D : ConvLayer {
  Conv1D(int64_t channels, const Extent& kernel, const ConvOptions& o = {})
      : ConvLayer(1, channels, kernel, o) {}
};
struct Conv2D : ConvLayer {
  Conv2D(int64_t channels, const Extent& kernel, const ConvOptions& o = {})
      : ConvLayer(2, channels, kernel, o) {}
};
struct Conv3D : ConvLayer {
  Conv3D(int64_t channels, const Extent& kernel, const ConvOptions& o = {})
      : ConvLayer(3, channels, kernel, o) {}
};
struct Conv1DTranspose : ConvLayer {
  Conv1DTranspose(int64_t channels, const Extent& kernel, const ConvTransposeOptions& o = {})
      : ConvLayer(1, channels, kernel, o) {}
};
struct Conv2DTranspose : ConvLayer {
  Conv2DTranspose(int64_t channels, const Extent& kernel, const ConvTransposeOptions& o = {})
      : ConvLayer(2, channels, kernel, o) {}
};
struct Conv3DTranspose : ConvLayer {
  Conv3DTranspose(int64_t channels, const Extent& kernel, const ConvTransposeOptions& o = {})
      : ConvLayer(3, channels, kernel, o) {}
};

}  // namespace locus::nn
