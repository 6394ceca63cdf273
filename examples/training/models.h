// The networks of the training programs, which inference loads.
#pragma once

#include <string>
#include <vector>

#include <locus/nn/containers.h>

namespace training {

// Dense layers with relu between them, (N, 784) -> (N, 10).
locus::nn::Sequential mlp(const std::vector<int64_t>& hidden);
// LeCun et al. (1998), in the usual variant: Conv2D 20 5x5, relu, MaxPool 2, Conv2D 50 5x5, relu,
// MaxPool 2, Dense 500, relu, Dense 10. (N, 1, 28, 28) -> (N, 10).
locus::nn::Sequential lenet();
// The residual network of He et al. (2015), section 4.2, for small images: 6 n + 2 layers, n blocks
// of 16, 32 and 64 channels each, with 1x1 convolutions where the shape changes. (N, 3, 32, 32) ->
// (N, 10). synchronised: BatchNorm statistics are over all replicas and ranks.
locus::nn::Sequential resnet(int n, bool synchronised = false);
// ResNet-18 of the same authors, for ImageNet, with torchvision's layers: 7x7/2 with 64 channels,
// MaxPool 3/2, two blocks each of 64, 128, 256 and 512 channels. (N, 3, H, W) -> (N, classes).
locus::nn::Sequential resnet18(int64_t classes = 1000);

// Dense 784-256-64-2 and back. The code of an image is two numbers.
struct Autoencoder : locus::nn::Block {
  Autoencoder();
  locus::Tensor forward(const locus::Tensor& x) override;  // (N, 784) in [0, 1], input and result
  locus::nn::Sequential encoder, decoder;
};

// Loads a model by name, with the parameters of the file, onto a context: mlp (widths from the
// file), lenet, resnet20, autoencoder.
struct Model {
  std::string name;
  std::shared_ptr<locus::nn::Block> net;
  locus::Shape sample;  // of one input
};
Model load_model(const std::string& name, const std::string& file, locus::Context c);

}  // namespace training
