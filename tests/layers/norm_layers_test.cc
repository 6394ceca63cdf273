#include <locus/core/autograd.h>
#include <locus/core/compile.h>
#include <locus/core/generator.h>
#include <locus/nn/activation_layers.h>
#include <locus/nn/containers.h>
#include <locus/nn/conv_layers.h>
#include <locus/nn/layers.h>
#include <locus/nn/norm_layers.h>
#include <locus/nn/train_step.h>
#include <locus/ops/random.h>
#include "tests/support/folder.h"
#include "tests/support/launches.h"
#include "tests/tape/gradcheck.h"
#include "tests/train/training.h"

namespace locus::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Values = std::vector<double>;

TEST(NormLayers, PrintAsInGluon) {
  EXPECT_EQ(nn::BatchNorm().repr(),
            "BatchNorm(axis=1, eps=1e-05, momentum=0.9, fix_gamma=False, use_global_stats=False, "
            "in_channels=None)");
  EXPECT_EQ(nn::BatchNorm({.axis = -1, .scale = false, .use_global_stats = true, .in_channels = 4})
                .repr(),
            "BatchNorm(axis=-1, eps=1e-05, momentum=0.9, fix_gamma=True, use_global_stats=True, "
            "in_channels=4)");
  EXPECT_EQ(nn::LayerNorm({.axis = 1, .in_channels = 5}).repr(),
            "LayerNorm(eps=1e-05, axis=1, center=True, scale=True, in_channels=5)");
  EXPECT_EQ(nn::GroupNorm({.num_groups = 2}).repr(),
            "GroupNorm(eps=1e-05, num_groups=2, center=True, scale=True, in_channels=0)");
  EXPECT_EQ(nn::InstanceNorm().repr(),
            "InstanceNorm(eps=1e-05, axis=1, center=True, scale=False, in_channels=0)");
  EXPECT_EQ(nn::RMSNorm().repr(), "RMSNorm(eps=1e-05, axis=-1, scale=True, in_channels=0)");
}

TEST(NormLayers, LearnTheirWidthFromTheFirstInput) {
  nn::Sequential net;
  net.add(nn::BatchNorm(), nn::LayerNorm(), nn::GroupNorm({.num_groups = 3}), nn::InstanceNorm(),
          nn::RMSNorm());
  net.initialize();
  EXPECT_EQ(net(ones({2, 6, 4})).shape(), (Shape{2, 6, 4}));
  std::string names;
  for (const auto& [name, p] : net.parameters()) {
    names += text_of(name, p.shape(), p.grad_req() == GradReq::null ? " null " : " ");
    const bool one = name.ends_with("gamma") || name.ends_with("var");
    for (double v : values(p.data())) EXPECT_EQ(v, one) << name;
  }
  EXPECT_EQ(names,
            "0.gamma(6,) 0.beta(6,) 0.running_mean(6,) null 0.running_var(6,) null "
            "1.gamma(4,) 1.beta(4,) 2.gamma(6,) 2.beta(6,) 3.gamma(6,) null 3.beta(6,) "
            "4.gamma(4,) ");
  EXPECT_THAT(net[0].repr(), HasSubstr("in_channels=6"));
}

TEST(BatchNormLayer, TrainsOnTheBatchAndPredictsByWhatItKept) {
  for (Context c : contexts()) {
    nn::BatchNorm layer({.momentum = 0, .epsilon = 0});
    layer.initialize(c);
    const Tensor x = array({{1.f, 2.f}, {3.f, 6.f}}, c);
    layer(x);  // does not train
    EXPECT_THAT(values(layer.parameter("running_mean").data()), ElementsAre(0, 0));
    {
      const autograd::Record record;
      EXPECT_THAT(values(layer(x)), ElementsAre(-1, -1, 1, 1));
    }
    EXPECT_THAT(values(layer.parameter("running_mean").data()), ElementsAre(2, 4));
    EXPECT_THAT(values(layer.parameter("running_var").data()), ElementsAre(1, 4));
    EXPECT_THAT(values(layer(ones({1, 2}, c))), ElementsAre(-1, -1.5));
    nn::BatchNorm global({.use_global_stats = true});
    global.initialize(c);
    const autograd::Record record;
    global(x);
    EXPECT_THAT(values(global.parameter("running_mean").data()), ElementsAre(0, 0));
  }
}

// Gluon users do this to sum gradients of several batches.
TEST(BatchNormLayer, StatisticsGetNoGradientWhateverAllParametersAreSetTo) {
  nn::BatchNorm layer({.scale = false});
  layer.initialize();
  const Tensor x = array({{1.f, 2.f}, {3.f, 6.f}});
  layer(x);
  for (const auto& [name, p] : layer.parameters()) {
    p.set_grad_req(GradReq::add);
    EXPECT_EQ(p.grad_req(), name == "beta" ? GradReq::add : GradReq::null) << name;
  }
  {
    const autograd::Record record;
    layer(x).backward();
  }
  EXPECT_THAT(values(layer.parameter("beta").grad()), ElementsAre(2, 2));
}

TEST(BatchNormLayer, ReplicasKeepStatisticsOfTheirOwn) {
  const std::vector<Context> all = distinct_contexts();
  nn::BatchNorm layer({.momentum = 0, .in_channels = 1});
  layer.initialize(Contexts(all));
  double sum = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    const autograd::TrainMode train;
    layer(full({3, 1}, 1 + double(i), all[i]));
    sum += 1 + double(i);
  }
  for (size_t i = 0; i < all.size(); ++i)
    EXPECT_THAT(values(layer.parameter("running_mean").data(all[i])), ElementsAre(1 + double(i)));
  const Folder folder;
  const std::string file = folder / "batch_norm.params";
  layer.save_parameters(file);
  nn::BatchNorm other;
  other.load_parameters(file);
  EXPECT_THAT(values(other.parameter("running_mean").data()),
              ElementsAre(sum / double(all.size())));
  EXPECT_THAT(values(other.parameter("running_var").data()), ElementsAre(0));
}

enum class How { eager, hybridized, compiled };

// 100 steps of a network with all normalisations.
Outcome train(Context c, How how, bool strided) {
  random::seed(7);
  nn::Sequential net;
  net.add(nn::Dense(12), nn::BatchNorm(), nn::Activate(nn::mish), nn::Dense(24),
          nn::GroupNorm({.num_groups = 4}), nn::PReLU(), nn::LayerNorm(), nn::RMSNorm(),
          nn::BatchNorm({.axis = -1, .momentum = .5}), nn::Dense(5));
  net.initialize(init::Xavier(), c);
  if (how == How::hybridized) net.hybridize();
  const nn::SoftmaxCrossEntropyLoss loss;
  nn::Trainer trainer(net.parameters(), optim::SGD({.learning_rate = .05, .momentum = .9}));
  nn::TrainStep step(net, loss, trainer);
  const Tensor images = random::uniform(-1, 1, {64, 12}, {c, f32});
  const Tensor labels = random::randint(0, 5, {64}, {c, i32});
  Outcome o;
  for (int i = 0; i < 100; ++i) {
    const int64_t n = i % 5 == 4 ? 9 : 16, first = i % 3 * 16;
    Tensor x = images(Slice(first, first + n)), y = labels(Slice(first, first + n));
    if (strided) x = x.T().copyto(c).T();
    o.losses.push_back(
        values(how == How::compiled ? step(x, y) : eager_step(net, loss, trainer, x, y)));
    if (i % 10 == 0) o.losses.push_back(values(net(images)));  // with the running statistics
  }
  for (const auto& [name, p] : net.parameters()) o.parameters.push_back(values(p.data()));
  return o;
}

TEST(NormLayers, CompiledStepsEqualThoseThatRun) {
  for (Context c : contexts()) {
    for (bool strided : {false, true}) {
      const Outcome eager = train(c, How::eager, strided);
      EXPECT_LT(eager.losses[eager.losses.size() - 2][0], 3);
      EXPECT_EQ(eager, train(c, How::compiled, strided)) << c;
      EXPECT_EQ(eager, train(c, How::hybridized, strided)) << c;
    }
    if (c != cpu()) break;  // one GPU
  }
}

TEST(NormLayers, StepsCopyNothing) {
  const auto convolution = [] { return nn::Conv2D(4, 3, {.padding = 1, .use_bias = false}); };
  for (const How how : {How::eager, How::hybridized, How::compiled}) {
    const Launches<0> copies("copy");
    const Launches<1> norms("batch_norm");
    nn::Sequential body, net;
    body.add(convolution(), nn::BatchNorm(), nn::Activate(nn::relu), convolution(),
             nn::BatchNorm());
    net.add(convolution(), nn::BatchNorm(), nn::PReLU(), nn::Residual(body, nn::relu),
            nn::GroupNorm({.num_groups = 2}), nn::InstanceNorm(), nn::Flatten(), nn::LayerNorm(),
            nn::RMSNorm(), nn::Dense(3));
    net.initialize(init::Xavier(), cpu());
    if (how == How::hybridized) net.hybridize();
    const nn::SoftmaxCrossEntropyLoss loss;
    nn::Trainer trainer(net.parameters(), optim::SGD({.learning_rate = .05, .momentum = .9}));
    nn::TrainStep compiled(net, loss, trainer);
    const Tensor x = random::uniform(-1, 1, {2, 3, 6, 6}), y = array({0, 2});
    int copies_before = 0, norms_before = 0;
    for (int i = 0; i < 3; ++i) {
      copies_before = copies(), norms_before = norms();
      how == How::compiled ? compiled(x, y) : eager_step(net, loss, trainer, x, y);
    }
    EXPECT_EQ(copies() - copies_before, 0) << static_cast<int>(how);
    EXPECT_EQ(norms() - norms_before, 3) << static_cast<int>(how);
  }
}

TEST(NormLayers, TakeSixteenBitsWithParametersOfF32) {
  for (Context c : contexts()) {
    for (DType d : {f16, bf16}) {
      nn::Sequential net;
      net.add(nn::BatchNorm(), nn::LayerNorm(), nn::GroupNorm(), nn::InstanceNorm(), nn::RMSNorm(),
              nn::PReLU());
      net.initialize(c);
      Tensor y;
      {
        const autograd::Record record;
        y = net(sample_values(c, d, {2, 3, 4}));
      }
      y.backward();
      EXPECT_EQ(y.dtype(), d);
      for (const auto& [name, p] : net.parameters()) {
        EXPECT_EQ(p.dtype(), f32);
        if (p.grad_req() != GradReq::null) {
          EXPECT_EQ(p.grad().dtype(), f32);
        }
      }
    }
  }
}

TEST(NormLayers, SayWhatTheyDoNotTake) {
  nn::BatchNorm batch;
  batch.initialize();
  EXPECT_THAT(message_of<DTypeError>([&] {
                batch(ones({2, 3}, f64));
              }),
              HasSubstr("BatchNorm: input cpu(0) (2,3) f64; expected f32, f16 or bf16 with the "
                        "layer's parameters, which are f32"));
  EXPECT_THAT(message_of<ShapeError>([&] { batch(ones({2})); }),
              HasSubstr("BatchNorm: input cpu(0) (2,) f32; expected at least 2 axes"));
  batch(ones({2, 3}));
  EXPECT_THAT(message_of<ShapeError>([&] {
                batch(ones({2, 4}));
              }),
              HasSubstr("BatchNorm: input cpu(0) (2,4) f32; expected 3 channels on axis 1"));
  nn::BatchNorm fresh;
  fresh.initialize();
  EXPECT_THAT(message_of<ShapeError>([&] {
                fresh(ones({2, 0, 4}));
              }),
              HasSubstr("BatchNorm: input cpu(0) (2,0,4) f32 has no channels; expected at least "
                        "one on axis 1"));
  nn::LayerNorm wide({.dtype = f64});
  wide.initialize();
  EXPECT_EQ(wide(ones({2, 3}, f64)).dtype(), f64);
  EXPECT_THROW(wide(ones({2, 3})), DTypeError);
  nn::GroupNorm groups({.num_groups = 2});
  groups.initialize();
  EXPECT_THROW(groups(ones({3})), ShapeError);
  EXPECT_THROW(groups(ones({2, 3})), ShapeError);
  EXPECT_THROW(nn::GroupNorm({.num_groups = 0}), ValueError);
  EXPECT_THROW(nn::BatchNorm({.in_channels = -1}), ShapeError);
}

TEST(NormLayers, TakeInitializersAndKeepWhatIsNotLearned) {
  nn::InstanceNorm layer({.center = false,
                          .beta_initializer = init::Constant(7),
                          .gamma_initializer = init::Constant(2)});
  layer.initialize();
  const Tensor x = array({-1.f, 1.f}).reshape({1, 1, 2});
  Tensor y;
  {
    const autograd::Record record;
    x.attach_grad();
    y = layer(x);
  }
  y.backward();
  expect_near(values(y), {5, 9}, 1e-4, "result");
  EXPECT_THROW(layer.parameter("gamma").grad(), Error);
}

}  // namespace
}  // namespace locus::test
