// Pooling layers, with Gluon's names and defaults.
//
//   nn::MaxPool2D(2, {.strides = 2})
//   nn::GlobalAvgPool2D()
//
// A window of 2 means 2 x 2. Strides default to the window. Global pooling maps (N, C, H, W) to
// (N, C, 1, 1) and also takes "NHWC".
//
// ops/pooling.h describes the options. Errors name the layer as repr() does.
#pragma once

#include <string>

#include <locus/nn/block.h>
#include <locus/ops/pooling.h>

namespace locus::nn {

// The base of these layers.
class PoolLayer : public Block {
 public:
  Tensor forward(const Tensor& x) override;
  // "MaxPool2D(size=(2, 2), stride=(2, 2), padding=(0, 0), ceil_mode=False, global_pool=False,
  // pool_type=max, layout=NCHW)".
  std::string repr() const override;

 protected:
  enum class Kind : uint8_t { max, avg, global_max, global_avg, adaptive_avg };
  PoolLayer(Kind, int axes, const Extent& size, const PoolingOptions&);

 private:
  std::string name() const;

  Kind kind_;
  int axes_;
  Extent size_;
  PoolingOptions options_;
};

struct MaxPool1D : PoolLayer {
  explicit MaxPool1D(const Extent& pool_size = 2, const PoolingOptions& o = {})
      : PoolLayer(Kind::max, 1, pool_size, o) {}
};
struct MaxPool2D : PoolLayer {
  explicit MaxPool2D(const Extent& pool_size = 2, const PoolingOptions& o = {})
      : PoolLayer(Kind::max, 2, pool_size, o) {}
};
struct MaxPool3D : PoolLayer {
  explicit MaxPool3D(const Extent& pool_size = 2, const PoolingOptions& o = {})
      : PoolLayer(Kind::max, 3, pool_size, o) {}
};
struct AvgPool1D : PoolLayer {
  explicit AvgPool1D(const Extent& pool_size = 2, const PoolingOptions& o = {})
      : PoolLayer(Kind::avg, 1, pool_size, o) {}
};
struct AvgPool2D : PoolLayer {
  explicit AvgPool2D(const Extent& pool_size = 2, const PoolingOptions& o = {})
      : PoolLayer(Kind::avg, 2, pool_size, o) {}
};
struct AvgPool3D : PoolLayer {
  explicit AvgPool3D(const Extent& pool_size = 2, const PoolingOptions& o = {})
      : PoolLayer(Kind::avg, 3, pool_size, o) {}
};
struct GlobalMaxPool1D : PoolLayer {
  explicit GlobalMaxPool1D(std::string_view layout = {})
      : PoolLayer(Kind::global_max, 1, 1, {.layout = layout}) {}
};
struct GlobalMaxPool2D : PoolLayer {
  explicit GlobalMaxPool2D(std::string_view layout = {})
      : PoolLayer(Kind::global_max, 2, 1, {.layout = layout}) {}
};
struct GlobalMaxPool3D : PoolLayer {
  explicit GlobalMaxPool3D(std::string_view layout = {})
      : PoolLayer(Kind::global_max, 3, 1, {.layout = layout}) {}
};
struct GlobalAvgPool1D : PoolLayer {
  explicit GlobalAvgPool1D(std::string_view layout = {})
      : PoolLayer(Kind::global_avg, 1, 1, {.layout = layout}) {}
};
struct GlobalAvgPool2D : PoolLayer {
  explicit GlobalAvgPool2D(std::string_view layout = {})
      : PoolLayer(Kind::global_avg, 2, 1, {.layout = layout}) {}
};
struct GlobalAvgPool3D : PoolLayer {
  explicit GlobalAvgPool3D(std::string_view layout = {})
      : PoolLayer(Kind::global_avg, 3, 1, {.layout = layout}) {}
};
// Averages any input size to output_size. MXNet's op AdaptiveAvgPooling2D, PyTorch's layer.
struct AdaptiveAvgPool2D : PoolLayer {
  explicit AdaptiveAvgPool2D(const Extent& output_size = 1, std::string_view layout = {})
      : PoolLayer(Kind::adaptive_avg, 2, output_size, {.layout = layout}) {}
};

}  // namespace locus::nn
