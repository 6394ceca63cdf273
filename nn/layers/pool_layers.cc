#include <locus/nn/pool_layers.h>

#include <locus/core/error.h>

namespace locus::nn {

PoolLayer::PoolLayer(Kind kind, int axes, const Extent& size, const PoolingOptions& o)
    : kind_(kind), axes_(axes), size_(size), options_(o) {
  // A literal stays valid.
  options_.layout = layout_name(channels_last(o.layout, axes, name()), axes);
  int64_t window[kMaxSpatial], strides[kMaxSpatial], padding[kMaxSpatial];
  size.spread(axes, name(), "pool_size", window);
  o.strides.spread(axes, name(), "strides", strides);
  o.padding.spread(axes, name(), "padding", padding);
  for (int i = 0; i < axes; ++i)
    if (window[i] < 1 || strides[i] < 0 || padding[i] < 0 || padding[i] >= window[i])
      throw ValueError(name(), ": size ", window[i], ", stride ", strides[i], ", padding ",
                       padding[i], " for spatial axis ", i,
                       "; expected size > 0, stride >= 0, 0 <= padding < size");
}

Tensor PoolLayer::forward(const Tensor& x) {
  if (x.ndim() != axes_ + 2)
    throw ShapeError(name(), ": input ", describe(x), "; expected ", axes_ + 2, " axes, ",
                     options_.layout);
  switch (kind_) {
    case Kind::max:
      return max_pool(x, size_, options_);
    case Kind::avg:
      return avg_pool(x, size_, options_);
    case Kind::global_max:
      return global_max_pool(x, options_.layout);
    case Kind::global_avg:
      return global_avg_pool(x, options_.layout);
    case Kind::adaptive_avg:
      break;
  }
  return adaptive_avg_pool(x, size_, options_.layout);
}

std::string PoolLayer::name() const {
  static constexpr const char* kNames[] = {"MaxPool", "AvgPool", "GlobalMaxPool", "GlobalAvgPool",
                                           "AdaptiveAvgPool"};
  return text_of(kNames[static_cast<int>(kind_)], axes_, "D");
}

std::string PoolLayer::repr() const {
  int64_t size[kMaxSpatial], strides[kMaxSpatial], padding[kMaxSpatial];
  size_.spread(axes_, name(), "pool_size", size);
  options_.strides.spread(axes_, name(), "strides", strides);
  options_.padding.spread(axes_, name(), "padding", padding);
  for (int i = 0; i < axes_; ++i)
    if (strides[i] == 0) strides[i] = size[i];
  const auto tuple = [&](const int64_t(&v)[kMaxSpatial]) {
    std::string text = "(" + std::to_string(v[0]);
    for (int i = 1; i < axes_; ++i) text += ", " + std::to_string(v[i]);
    return text + (axes_ == 1 ? ",)" : ")");
  };
  if (kind_ == Kind::adaptive_avg)
    return text_of(name(), "(size=", tuple(size), ", layout=", options_.layout, ")");
  const bool global = kind_ == Kind::global_max || kind_ == Kind::global_avg;
  const bool max = kind_ == Kind::max || kind_ == Kind::global_max;
  const auto truth = [](bool v) { return v ? "True" : "False"; };
  return text_of(name(), "(size=", tuple(size), ", stride=", tuple(strides),
                 ", padding=", tuple(padding), ", ceil_mode=", truth(global || options_.ceil_mode),
                 ", global_pool=", truth(global), ", pool_type=", max ? "max" : "avg",
                 ", layout=", options_.layout, ")");
}

}  // namespace locus::nn
