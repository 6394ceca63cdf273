#include "training/models.h"

#include <memory>

#include <locus/locus.h>

namespace training {

using namespace locus;

nn::Sequential mlp(const std::vector<int64_t>& hidden) {
  nn::Sequential net;
  for (const int64_t width : hidden) net.add(nn::Dense(width, nn::relu));
  net.add(nn::Dense(10));
  return net;
}

nn::Sequential lenet() {
  nn::Sequential net;
  net.add(nn::Conv2D(20, 5, {.activation = nn::relu}), nn::MaxPool2D(2, {.strides = 2}),
          nn::Conv2D(50, 5, {.activation = nn::relu}), nn::MaxPool2D(2, {.strides = 2}),
          nn::Flatten(), nn::Dense(500, nn::relu), nn::Dense(10));
  return net;
}

namespace {

nn::Conv2D convolution(int64_t channels, int64_t kernel, int64_t stride) {
  return {channels, kernel, {.strides = stride, .padding = kernel / 2, .use_bias = false}};
}

// Blocks of two 3x3 convolutions with equal channels. Unless stride is 1, the first block strides
// and has a 1x1 convolution in the shortcut.
template <class Norm>
void add_blocks(nn::Sequential& net, int blocks, int64_t channels, int64_t stride) {
  for (int i = 0; i < blocks; ++i, stride = 1) {
    nn::Sequential body, shortcut;
    body.add(convolution(channels, 3, stride), Norm(), nn::Activate(nn::relu),
             convolution(channels, 3, 1), Norm());
    if (stride == 1) {
      net.add(nn::Residual(body, nn::relu));
      continue;
    }
    shortcut.add(convolution(channels, 1, stride), Norm());
    net.add(nn::Residual(body, shortcut, nn::relu));
  }
}

template <class Norm>
nn::Sequential resnet_with(int n) {
  nn::Sequential net;
  net.add(convolution(16, 3, 1), Norm(), nn::Activate(nn::relu));
  for (const int64_t channels : {16, 32, 64})
    add_blocks<Norm>(net, n, channels, channels == 16 ? 1 : 2);
  net.add(nn::GlobalAvgPool2D(), nn::Flatten(), nn::Dense(10));
  return net;
}

}  // namespace

nn::Sequential resnet(int n, bool synchronised) {
  return synchronised ? resnet_with<nn::SyncBatchNorm>(n) : resnet_with<nn::BatchNorm>(n);
}

nn::Sequential resnet18(int64_t classes) {
  nn::Sequential net;
  net.add(convolution(64, 7, 2), nn::BatchNorm(), nn::Activate(nn::relu),
          nn::MaxPool2D(3, {.strides = 2, .padding = 1}));
  for (const int64_t channels : {64, 128, 256, 512})
    add_blocks<nn::BatchNorm>(net, 2, channels, channels == 64 ? 1 : 2);
  net.add(nn::GlobalAvgPool2D(), nn::Flatten(), nn::Dense(classes));
  return net;
}

Autoencoder::Autoencoder() {
  encoder.add(nn::Dense(256, nn::relu), nn::Dense(64, nn::relu), nn::Dense(2));
  decoder.add(nn::Dense(64, nn::relu), nn::Dense(256, nn::relu), nn::Dense(784, nn::sigmoid));
  add_child("encoder", encoder);
  add_child("decoder", decoder);
}

Tensor Autoencoder::forward(const Tensor& x) { return decoder(encoder(x)); }

Model load_model(const std::string& name, const std::string& file, Context c) {
  Model m{name, nullptr, {784}};
  if (name == "mlp") {
    std::vector<int64_t> widths;
    for (const auto& [key, tensor] : load(file))
      if (key.ends_with("weight") && tensor.ndim() == 2) widths.push_back(tensor.shape()[0]);
    if (!widths.empty()) widths.pop_back();
    m.net = std::make_shared<nn::Sequential>(mlp(widths));
  } else if (name == "lenet") {
    m.net = std::make_shared<nn::Sequential>(lenet());
    m.sample = {1, 28, 28};
  } else if (name == "resnet20") {
    m.net = std::make_shared<nn::Sequential>(resnet(3));
    m.sample = {3, 32, 32};
  } else if (name == "autoencoder") {
    m.net = std::make_shared<Autoencoder>();
  } else {
    throw ValueError("model '", name, "'; expected mlp, lenet, resnet20 or autoencoder");
  }
  m.net->load_parameters(file, c);
  return m;
}

}  // namespace training
