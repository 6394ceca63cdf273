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
  } else if (name == "autoencoder") {
    m.net = std::make_shared<Autoencoder>();
  } else {
    throw ValueError("model '", name, "'; expected mlp, lenet, resnet20 or autoencoder");
  }
  m.net->load_parameters(file, c);
  return m;
}

}  // namespace training
