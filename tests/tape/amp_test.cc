#include <locus/core/amp.h>

#include <locus/core/autograd.h>
#include <locus/nn/activation_layers.h>
#include <locus/nn/block.h>
#include <locus/nn/containers.h>
#include <locus/nn/conv_layers.h>
#include <locus/nn/init.h>
#include <locus/nn/layers.h>
#include <locus/nn/loss.h>
#include <locus/nn/norm_layers.h>
#include <locus/nn/parameter.h>
#include <locus/ops/create.h>
#include <locus/ops/dense.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/matmul.h>
#include <locus/ops/random.h>
#include <locus/ops/reduce.h>
#include <locus/ops/trigonometry.h>
#include <locus/ops/unary.h>
#include "tests/support/contexts.h"

namespace locus {
namespace {

nn::Sequential network(Context c) {
  nn::Sequential net;
  net.add(nn::Conv2D(3, 3, {.activation = nn::relu}), nn::BatchNorm(), nn::Flatten(),
          nn::Dense(8, nn::relu), nn::Dense(4));
  net.initialize(init::Xavier(), c);
  return net;
}

TEST(AmpScope, ProductsAreNarrowAndLossesWide) {
  for (Context c : test::contexts()) {
    nn::Sequential net = network(c);
    const Tensor x = random::uniform(-1, 1, {5, 2, 6, 6}, c), y = zeros({5}, {c, i64});
    const Tensor wide = net(x);
    for (DType d : {bf16, f16}) {
      Tensor out, loss;
      {
        const autograd::Record record;
        const amp::Scope mixed(d);
        out = net(x);
        loss = nn::SoftmaxCrossEntropyLoss()(out, y);
      }
      EXPECT_EQ(out.dtype(), d) << c;
      EXPECT_EQ(loss.dtype(), f32) << c;
      loss.backward();
      EXPECT_EQ(net.parameter("0.weight").grad().dtype(), f32);
      EXPECT_EQ(dot(x.reshape({5, 72}), ones({72, 1}, c)).dtype(), f32) << "after the scope";
    }
    EXPECT_EQ(wide.dtype(), f32);
  }
}

TEST(AmpScope, SumsAndLossesAreWide) {
  for (Context c : test::contexts())
    for (DType d : {f16, bf16}) {
      const Tensor x = full({300, 300}, 300, {c, d}), y = zeros({300, 300}, {c, d});
      EXPECT_EQ(sum(x).dtype(), d) << "outside";
      const amp::Scope mixed(d);
      EXPECT_NEAR(sum(x).item<double>() / 27e6, 1, 2e-2) << "finite in f32";
      EXPECT_EQ(norm(x).dtype(), f32);
      EXPECT_EQ(mean(x, {.axis = 1}).dtype(), f32);
      EXPECT_EQ(max(x).dtype(), d);
      const Tensor out = zeros({}, {c, d});
      EXPECT_TRUE(mean(x, {.out = out}).is(out));
      EXPECT_NEAR(test::values(nn::L2Loss()(x, y))[0] / 45e3, 1, 2e-2);
      for (const Tensor& l :
           {nn::L1Loss()(x, y), nn::HuberLoss()(x, y), nn::SigmoidBinaryCrossEntropyLoss()(x, y),
            nn::LogisticLoss()(x, y), nn::KLDivLoss()(x, y), nn::HingeLoss()(x, y),
            nn::TripletLoss()(x, y, y), nn::PoissonNLLLoss()(y, y),
            nn::CosineEmbeddingLoss()(x, x, ones({300}, c))})
        EXPECT_EQ(l.dtype(), f32);
    }
}

TEST(AmpScope, ExponentsAndPowersAreWide) {
  for (Context c : test::contexts())
    for (DType d : {f16, bf16}) {
      const Tensor x = full({3}, .5, {c, d}), big = full({3}, 300, {c, d});
      const auto all = [&] {
        return Tensors{exp(x),        expm1(x),       log(x),      log2(x),     log10(x),
                       log1p(x),      rsqrt(x),       tan(x),      sinh(x),     cosh(x),
                       arcsin(x),     arccos(x),      power(x, x), power(x, 2), power(2, x),
                       reciprocal(x), smooth_l1(x, 1)};
      };
      for (const Tensor& y : all()) EXPECT_EQ(y.dtype(), d) << "outside";
      x.attach_grad();
      Tensor sum;
      {
        const autograd::Record record;
        const amp::Scope mixed(d);
        sum = zeros({3}, c);
        for (const Tensor& y : all()) {
          EXPECT_EQ(y.dtype(), f32);
          sum = sum + y;
        }
        EXPECT_EQ(sqrt(x).dtype(), d);
        EXPECT_EQ(tanh(x).dtype(), d);
        EXPECT_EQ(power(x.astype(f64), x).dtype(), f64);
        EXPECT_EQ(power(full({3}, 2, {c, i32}), 2).dtype(), i32);
        EXPECT_EQ(test::values(power(big, 2)), std::vector<double>(3, 90000)) << "finite in f32";
        EXPECT_EQ(test::values(power(x, 70000)), std::vector<double>(3, 0)) << "f16 has it not";
        EXPECT_NEAR(exp(full({}, 12, {c, d})).item<double>(), std::exp(12), .1);
      }
      sum.backward();
      EXPECT_EQ(x.grad().dtype(), d);
    }
}

TEST(AmpScope, DoesNotTouchWhatWasRecordedOutside) {
  for (Context c : test::contexts()) {
    const Tensor x = full({2, 2}, 1.001, c), w = full({2, 2}, 1, c);
    w.attach_grad();
    const auto gradient = [&](std::optional<DType> d) {
      Tensor l;
      {
        const autograd::Record record;
        l = dot(x, w).sum();
      }
      const amp::Scope mixed(d);
      l.backward();
      return test::values(w.grad());
    };
    EXPECT_EQ(gradient(bf16), gradient({}));
  }
}

TEST(AmpScope, IsAKeyOfWhatIsCompiled) {
  for (Context c : test::contexts()) {
    nn::Sequential net = network(c);
    const Tensor x = random::uniform(-1, 1, {5, 2, 6, 6}, c);
    net(x);
    net.hybridize();
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(net(x).dtype(), f32) << c;
      const amp::Scope mixed(f16);
      EXPECT_EQ(net(x).dtype(), f16) << c;
    }
  }
}

TEST(AmpScope, NestsAndRefusesOtherDTypes) {
  {
    const amp::Scope outer(bf16);
    {
      const amp::Scope inner(f16);
      EXPECT_EQ(amp::dtype(), f16);
    }
    EXPECT_EQ(amp::dtype(), bf16);
    EXPECT_EQ(matmul(ones({2, 2, 2}), ones({2, 2, 2})).dtype(), bf16);
    EXPECT_EQ(dot(ones({2}, {cpu(), f64}), ones({2}, {cpu(), f64})).dtype(), f64);
  }
  EXPECT_FALSE(amp::dtype());
  EXPECT_THROW(amp::Scope{f32}, DTypeError);
}

TEST(AmpScope, LeavesOperandsBesideF64Alone) {
  const Tensor wide = full({2, 2}, 1 + 1e-6, {cpu(), f64}), x = full({2, 2}, 1.001, {cpu(), f32});
  const Tensor expected = dot(wide, x), dense_expected = dense(wide, x, Tensor());
  const amp::Scope mixed(bf16);
  EXPECT_EQ(test::values(dot(wide, x)), test::values(expected));
  EXPECT_EQ(test::values(dense(wide, x, Tensor())), test::values(dense_expected));
}

TEST(AmpScope, GradientsAreThoseOfF32UpToRounding) {
  for (Context c : test::contexts()) {
    nn::Sequential net = network(c);
    const Tensor x = random::uniform(-1, 1, {5, 2, 6, 6}, c), y = zeros({5}, {c, i64});
    net(x);
    const auto gradient = [&](std::optional<DType> d) {
      Tensor loss;
      {
        const autograd::Record record;
        const amp::Scope mixed(d);
        loss = nn::SoftmaxCrossEntropyLoss()(net(x), y);
      }
      loss.backward();
      return test::values(net.parameter("4.weight").grad());
    };
    const std::vector<double> exact = gradient({}), rounded = gradient(bf16);
    for (size_t i = 0; i < exact.size(); ++i) EXPECT_NEAR(rounded[i], exact[i], .15) << c;
  }
}

}  // namespace
}  // namespace locus
