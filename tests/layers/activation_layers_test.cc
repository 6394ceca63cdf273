#include <locus/core/autograd.h>
#include <locus/core/base/text.h>
#include <locus/core/kernel.h>
#include <locus/nn/activation_layers.h>
#include <locus/nn/block.h>
#include <locus/nn/parameter.h>
#include <locus/ops/activation.h>
#include <locus/ops/create.h>

#include <cmath>

#include "tests/support/contexts.h"
#include "tests/tape/gradcheck.h"

namespace locus::test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using Values = std::vector<double>;

double sigmoid_of(double x) { return 1 / (1 + std::exp(-x)); }
double elu_of(double x, double alpha) { return x > 0 ? x : alpha * std::expm1(x); }

struct Case {
  std::string text;
  std::shared_ptr<nn::Block> layer;
  double (*exact)(double);
};
template <class L>
Case a_case(const char* text, const L& layer, double (*exact)(double)) {
  return {text, std::make_shared<L>(layer), exact};
}

std::vector<Case> cases() {
  return {
      a_case("Activation(relu)", nn::Activate("relu"), [](double x) { return std::max(x, 0.); }),
      a_case("Activation(sigmoid)", nn::Activate("sigmoid"), sigmoid_of),
      a_case("Activation(tanh)", nn::Activate("tanh"), std::tanh),
      a_case("Activation(softrelu)", nn::Activate("softrelu"),
             [](double x) { return std::log1p(std::exp(x)); }),
      a_case("Activation(softsign)", nn::Activate("softsign"),
             [](double x) { return x / (1 + std::abs(x)); }),
      a_case("Activation(log_sigmoid)", nn::Activate(nn::log_sigmoid),
             [](double x) { return std::log(sigmoid_of(x)); }),
      a_case("Activation(hard_sigmoid)", nn::Activate("hard_sigmoid"),
             [](double x) { return std::clamp(.2 * x + .5, 0., 1.); }),
      a_case("Activation(hard_swish)", nn::Activate("hard_swish"),
             [](double x) { return x * std::clamp(x + 3, 0., 6.) / 6; }),
      a_case("Activation(elu)", nn::Activate(nn::elu), [](double x) { return elu_of(x, 1); }),
      a_case("LeakyReLU(0.1)", nn::LeakyReLU(.1), [](double x) { return x > 0 ? x : .1 * x; }),
      a_case("ELU(0.5)", nn::ELU(.5), [](double x) { return elu_of(x, .5); }),
      a_case("SELU()", nn::SELU(),
             [](double x) { return 1.0507009873554805 * elu_of(x, 1.6732632423543772); }),
      a_case("GELU()", nn::GELU(), [](double x) { return x / 2 * std::erfc(-x / std::sqrt(2.)); }),
      a_case("Swish(1)", nn::Swish(), [](double x) { return x * sigmoid_of(x); }),
      a_case("Swish(2)", nn::Swish(2), [](double x) { return x * sigmoid_of(2 * x); }),
      a_case("SiLU()", nn::SiLU(), [](double x) { return x * sigmoid_of(x); }),
      a_case("Mish()", nn::Mish(), [](double x) { return x * std::tanh(std::log1p(std::exp(x))); }),
      a_case("ReLU6()", nn::ReLU6(), [](double x) { return std::clamp(x, 0., 6.); }),
      a_case("Hardtanh(-1, 2)", nn::Hardtanh(-1, 2),
             [](double x) { return std::clamp(x, -1., 2.); }),
      a_case("PReLU(1)", nn::PReLU(), [](double x) { return x > 0 ? x : .25 * x; }),
  };
}

TEST(ActivationLayers, AgreeWithTheirFormulas) {
  for (Context c : contexts()) {
    for (const Case& one : cases()) {
      SCOPED_TRACE(text_of(c, " ", one.text));
      EXPECT_EQ(one.layer->repr(), one.text);
      one.layer->initialize(c);
      const Tensor x = linspace(-9, 9, 181, c);
      Values wanted;
      for (double v : values(x)) wanted.push_back(one.exact(v));
      expect_near(values((*one.layer)(x)), wanted, 1e-6, "result");
      EXPECT_EQ((*one.layer)(x.astype(bf16)).dtype(), bf16);
    }
    EXPECT_THAT(values(nn::Softmax(0)(zeros({2, 1}, c))), ElementsAre(.5, .5));
  }
}

TEST(ActivationLayers, AnUnknownNameIsRefused) {
  EXPECT_THAT(message_of<ValueError>([] { nn::Activate("reul"); }),
              HasSubstr("no activation 'reul'; expected one of relu, sigmoid"));
}

TEST(PReLU, LearnsASlopeForEachChannel) {
  for (Context c : contexts()) {
    nn::PReLU layer({.in_channels = 2});
    layer.initialize(c);
    layer.parameter("alpha").set_data(array({.5f, 2.f}));
    const Tensor x = array({-1.f, 3.f, -2.f, -4.f}, c).reshape({1, 2, 2});
    x.attach_grad();
    Tensor y;
    {
      const autograd::Record record;
      y = layer(x);
    }
    y.backward();
    EXPECT_THAT(values(y), ElementsAre(-.5, 3, -4, -8));
    EXPECT_THAT(values(x.grad()), ElementsAre(.5, 1, 2, 2));
    EXPECT_THAT(values(layer.parameter("alpha").grad()), ElementsAre(-1, -6));
    EXPECT_THROW(layer(ones({1, 3}, c)), ShapeError);
  }
}

TEST(PReLU, OfTensorsTakesOneSlopeOrThoseOfAxisOne) {
  const Tensor x = sample_values(cpu(), f64, {2, 3, 2}), one = full({1}, .3, f64),
               three = ones({3}, f64);
  for (const Tensor& alpha : {one, three})
    check_gradients([](const Tensors& in) { return Tensors{prelu(in[0], in[1])}; }, {x, alpha});
  EXPECT_THAT(values(prelu(array({-2., 2.}, f64), one)), ElementsAre(-.6, 2));
  EXPECT_THAT(values(prelu(array({-HUGE_VAL, HUGE_VAL}, f64), one)),
              ElementsAre(-INFINITY, INFINITY));
  EXPECT_EQ(prelu(full({}, -2, f64), one).shape(), Shape{});
  EXPECT_EQ(prelu(x, full({1, 1}, .3, f64)).shape(), x.shape());
  for (const Shape& shape : {Shape{2}, Shape{2, 3}, Shape{1, 3}, Shape{3, 1}, Shape{0}})
    EXPECT_THAT(message_of<ShapeError>([&] { prelu(x, ones(shape, f64)); }),
                AllOf(HasSubstr("prelu: data cpu(0) (2,3,2) f64, alpha cpu(0) " + to_string(shape)),
                      HasSubstr("or of shape (3,), a slope for each channel")));
  EXPECT_THAT(message_of<ShapeError>([&] { prelu(ones({3}, f64), three); }),
              HasSubstr("one number, since the data has no axis 1"));
}

TEST(Mish, IsFiniteAtTheEnds) {
  EXPECT_THAT(values(mish(array({-HUGE_VAL, -1e4, 0., 1e4, HUGE_VAL}))),
              ElementsAre(0, 0, 0, 1e4, INFINITY));
}

}  // namespace
}  // namespace locus::test
