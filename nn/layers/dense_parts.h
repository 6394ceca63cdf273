// What Dense (layers.h) and the layers that are cut over contexts (tensor_parallel.h) share.
// Internal to nn.
#pragma once

#include <optional>
#include <string>

#include <locus/nn/activation_layers.h>
#include <locus/nn/block.h>

namespace locus::nn {

// Of weight and bias, from the options of such a layer.
ParameterOptions weight_options(const auto& o) {
  return {.init = o.weight_initializer, .dtype = o.dtype};
}
ParameterOptions bias_options(const auto& o) {
  return {.init = o.bias_initializer ? o.bias_initializer : init::Zero(), .dtype = o.dtype};
}

// How many features a sample of x has. ShapeError, which `who` begins, where it has none.
int64_t features(const std::string& who, const Tensor& x, bool flatten);

// activation(x . weight^T + bias) by the replicas where x lives; a bias that is not valid is none.
Tensor dense_layer(const Tensor& x, const Parameter& weight, const Parameter& bias,
                   const Activation& activation, bool flatten);

// "784 -> 256, relu", of the whole weight; None where the width is not known yet.
std::string dense_text(const Parameter& weight, int64_t units, const Activation& activation);

}  // namespace locus::nn
