// Shared by Dense (layers.h) and the layers cut over contexts (tensor_parallel.h). Internal to nn.
#pragma once

#include <optional>
#include <string>

#include <locus/nn/activation_layers.h>
#include <locus/nn/block.h>

namespace locus::nn {

// Options of weight and bias, from a layer's options.
ParameterOptions weight_options(const auto& o) {
  return {.init = o.weight_initializer, .dtype = o.dtype};
}
ParameterOptions bias_options(const auto& o) {
  return {.init = o.bias_initializer ? o.bias_initializer : init::Zero(), .dtype = o.dtype};
}

// The number of features per sample of x. If 0, ShapeError; its text begins with `who`.
int64_t features(const std::string& who, const Tensor& x, bool flatten);

// activation(x . weight^T + bias), by the replicas on x's context. An invalid bias is skipped.
Tensor dense_layer(const Tensor& x, const Parameter& weight, const Parameter& bias,
                   const Activation& activation, bool flatten);

// "784 -> 256, relu", for the whole weight; None if the width is unknown.
std::string dense_text(const Parameter& weight, int64_t units, const Activation& activation);

}  // namespace locus::nn
