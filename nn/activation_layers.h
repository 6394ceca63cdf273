// Activations: named functions, for Dense and other layers, and as layers.
//
//   net.add(nn::Dense(64, nn::silu), nn::Dense(64), nn::LeakyReLU(.1), nn::Activate("tanh"));
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include <locus/nn/block.h>
#include <locus/ops/matmul_attrs.h>

namespace locus::nn {

// A named function: `nn::relu(x)` applies it. Dense takes an Activation and fuses it if it can.
struct Activation {
  std::string_view name = "linear";
  Tensor (*apply)(const Tensor&) = nullptr;  // null: the identity
  // The function as an attribute of the op dense; none: not fused.
  locus::FusedActivation fused = locus::FusedActivation::none;

  Tensor operator()(const Tensor& x, Caller = Caller::here()) const;
};
extern const Activation relu, sigmoid, tanh, softsign, gelu, silu, mish, elu, selu, hard_swish;
extern const Activation softrelu;     // log(1 + exp(x)), without overflow
extern const Activation log_sigmoid;  // -log(1 + exp(-x))
extern const Activation relu6;        // clip(x, 0, 6)
extern const Activation
    hard_sigmoid;  // MXNet's, of slope .2; PyTorch's is hard_sigmoid(x, 1. / 6, .5)

// An activation as a layer: Gluon's nn.Activation. Layers below throw ValueError for an option out
// of range.
class Activate : public Block {
 public:
  explicit Activate(const Activation& activation) : activation_(activation) {}
  // An activation above, by name. ValueError for other names.
  explicit Activate(std::string_view name);
  Tensor forward(const Tensor& x) override { return activation_(x); }
  std::string repr() const override;

 private:
  Activation activation_;
};

// The base of the layers below: a function of the input, and the text of its options.
class ActivationLayer : public Block {
 public:
  Tensor forward(const Tensor& x) override { return function_(x); }
  std::string repr() const override { return type_name() + "(" + numbers_ + ")"; }

 protected:
  explicit ActivationLayer(std::function<Tensor(const Tensor&)> function, std::string numbers = "")
      : function_(std::move(function)), numbers_(std::move(numbers)) {}

 private:
  std::function<Tensor(const Tensor&)> function_;
  std::string numbers_;
};
// x if x > 0, else alpha x; alpha >= 0.
struct LeakyReLU : ActivationLayer {
  explicit LeakyReLU(double alpha);
};
// x if x > 0, else alpha (exp(x) - 1).
struct ELU : ActivationLayer {
  explicit ELU(double alpha = 1);
};
struct SELU : ActivationLayer {
  SELU() : ActivationLayer(selu) {}
};
struct GELU : ActivationLayer {
  GELU() : ActivationLayer(gelu) {}
};
// x sigmoid(beta x). With beta = 1 it is SiLU.
struct Swish : ActivationLayer {
  explicit Swish(double beta = 1);
};
struct SiLU : ActivationLayer {
  SiLU() : ActivationLayer(silu) {}
};
struct Mish : ActivationLayer {
  Mish() : ActivationLayer(mish) {}
};
struct ReLU6 : ActivationLayer {
  ReLU6() : ActivationLayer(relu6) {}
};
// x, limited to [a_min, a_max].
struct Hardtanh : ActivationLayer {
  explicit Hardtanh(double a_min = -1, double a_max = 1);
};
struct Softmax : ActivationLayer {
  explicit Softmax(int axis = -1);
};

struct PReLUOptions {
  init::Initializer alpha_initializer = init::Constant(.25);
  int64_t in_channels = 1;  // 1: one slope; else the length of axis 1; > 0 or ShapeError
  DType dtype = f32;
};
// x if x > 0, else alpha x, with a learned alpha (He, Zhang, Ren and Sun, 2015). alpha is cast to a
// floating x's dtype.
class PReLU : public Block {
 public:
  explicit PReLU(const PReLUOptions& = {});
  Tensor forward(const Tensor& x) override;
  std::string repr() const override;

 private:
  Parameter alpha_;
};

}  // namespace locus::nn
