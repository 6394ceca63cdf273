// The layers: Dense, activations, and the ones without parameters.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include <locus/nn/block.h>
#include <locus/ops/dense.h>
#include <locus/ops/unary.h>

namespace locus::nn {

// A function with a name. `nn::relu(x)` applies it; Dense takes one and fuses it where it can.
struct Activation {
  std::string_view name = "linear";
  Tensor (*apply)(const Tensor&) = nullptr;  // null: the identity
  // The same as an attribute of dense, when it has it.
  locus::Activation fused = locus::Activation::none;

  Tensor operator()(const Tensor& x) const { return apply ? apply(x) : x; }
};
inline constexpr Activation relu{"relu", [](const Tensor& x) { return locus::relu(x); },
                                 locus::Activation::relu};
inline constexpr Activation sigmoid{"sigmoid", [](const Tensor& x) { return locus::sigmoid(x); }};
inline constexpr Activation tanh{"tanh", [](const Tensor& x) { return locus::tanh(x); }};
// log(1 + exp(x)), without overflow.
inline constexpr Activation softrelu{"softrelu", [](const Tensor& x) { return softplus(x); }};
inline constexpr Activation gelu{"gelu", [](const Tensor& x) { return locus::gelu(x); }};

struct DenseOptions {
  bool use_bias = true;
  bool flatten = true;   // (N, a, b) is taken as (N, a*b); false: works on the last axis
  int64_t in_units = 0;  // 0: taken from the first input
  std::optional<init::Initializer> weight_initializer = {};  // unset: the one given to initialize()
  std::optional<init::Initializer> bias_initializer = {};    // unset: zeros
  DType dtype = f32;
};

// activation(x . weight^T + bias): (N, in) -> (N, units); weight is (units, in), bias (units).
class Dense : public Block {
 public:
  explicit Dense(int64_t units, const Activation& activation = {}, const DenseOptions& = {});
  Tensor forward(const Tensor& x) override;
  std::string repr() const override;

 private:
  int64_t units_;
  Activation activation_;
  bool flatten_;
  Parameter weight_, bias_;
};

// An activation as a layer.
class Activate : public Block {
 public:
  explicit Activate(const Activation& activation) : activation_(activation) {}
  Tensor forward(const Tensor& x) override { return activation_(x); }
  std::string repr() const override;

 private:
  Activation activation_;
};

// (N, a, b, ...) -> (N, a*b*...). A view where the memory allows.
class Flatten : public Block {
 public:
  Tensor forward(const Tensor& x) override;
  std::string repr() const override { return "Flatten"; }
};

// While training, zeroes each element with probability `rate` and scales the others by
// 1 / (1 - rate); otherwise the identity. rate in [0, 1).
class Dropout : public Block {
 public:
  explicit Dropout(double rate = 0.5);
  Tensor forward(const Tensor& x) override;
  std::string repr() const override;

 private:
  double rate_;
};

// Any function of a tensor.
class Lambda : public Block {
 public:
  explicit Lambda(std::function<Tensor(const Tensor&)> function, std::string name = "function")
      : function_(std::move(function)), name_(std::move(name)) {}
  Tensor forward(const Tensor& x) override { return function_(x); }
  std::string repr() const override { return "Lambda(" + name_ + ")"; }

 private:
  std::function<Tensor(const Tensor&)> function_;
  std::string name_;
};

// The visible move of a network that spans contexts: its input, on `to`. Differentiable. Reports
// of copies name the line that created the layer.
class To : public Block {
 public:
  explicit To(Context to, Caller from = Caller::here()) : to_(to), from_(from) {}
  Tensor forward(const Tensor& x) override { return x.as_in_context(to_, from_); }
  std::string repr() const override { return "To(" + to_string(to_) + ")"; }

 private:
  Context to_;
  Caller from_;
};

}  // namespace locus::nn
