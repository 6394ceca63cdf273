// BatchNorm over replicas equals BatchNorm of the whole batch on one context.
#include <locus/core/autograd.h>
#include <locus/core/compile.h>
#include <locus/core/generator.h>
#include <locus/core/parallel.h>
#include <locus/nn/activation_layers.h>
#include <locus/nn/containers.h>
#include <locus/nn/conv_layers.h>
#include <locus/nn/data.h>
#include <locus/nn/layers.h>
#include <locus/nn/norm_layers.h>
#include <locus/nn/sync_norm.h>
#include <locus/nn/train_step.h>
#include <locus/ops/join.h>
#include <locus/ops/reduce.h>
#include <locus/ops/sync_norm.h>
#include "tests/ranks/groups.h"
#include "tests/tape/gradcheck.h"
#include "tests/train/training.h"

namespace locus::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;
using Values = std::vector<double>;

enum class Way { together, compiled };

// No biases before a norm, because their gradients are only rounding.
template <class Norm>
nn::Sequential convnet() {
  nn::Sequential body, net;
  body.add(nn::Conv2D(4, 3, {.padding = 1, .use_bias = false}), Norm());
  net.add(nn::Conv2D(4, 3, {.use_bias = false}), Norm(), nn::Residual(body, nn::relu),
          nn::Flatten(), nn::Dense(3));
  return net;
}

const nn::SoftmaxCrossEntropyLoss kLoss;

Tensor images(DType d, int64_t n) { return sample_values(cpu(), d, {n, 2, 6, 6}) + 3; }
Tensor classes(int64_t n) {
  std::vector<double> v(static_cast<size_t>(n));
  for (size_t i = 0; i < v.size(); ++i) v[i] = static_cast<double>(i * i % 3);
  return array(v);
}

// The parameters after training, by name.
std::vector<Values> trained_whole(DType d, Context c, int64_t n, int steps) {
  random::seed(5);
  nn::Sequential net = convnet<nn::BatchNorm>();
  net.initialize(init::Xavier(), c);
  net.cast(d);
  nn::Trainer trainer(net.parameters(), optim::SGD({.learning_rate = .005}));
  const Tensor x = images(d, n).as_in_context(c), y = classes(n).as_in_context(c);
  for (int i = 0; i < steps; ++i) eager_step(net, kLoss, trainer, x, y);
  std::vector<Values> all;
  for (const auto& [name, p] : net.parameters()) all.push_back(values(p.data()));
  return all;
}

void train(Way way, nn::Sequential& net, nn::Trainer& trainer, const Tensors& xs, const Tensors& ys,
           int steps) {
  const size_t n = xs.size();
  int64_t batch = 0;
  for (const Tensor& x : xs) batch += x.shape()[0];
  const auto step = [&](const Tensors& in) {
    Tensors losses;
    {
      const autograd::Record record;
      const Tensors outs = net.on_replicas(Tensors(in.begin(), in.begin() + ptrdiff_t(n)));
      for (size_t i = 0; i < n; ++i) losses.push_back(kLoss(outs[i], in[n + i]));
    }
    autograd::backward(losses);
    trainer.step(batch);
    return losses[0];
  };
  Tensors in = xs;
  in.insert(in.end(), ys.begin(), ys.end());
  nn::TrainStep compiled(step, trainer);
  for (int k = 0; k < steps; ++k) way == Way::together ? step(in) : compiled(in);
}

void expect_equal_to_one_context(Way way, DType d, int steps, double tolerance) {
  for (const auto& contexts : fours()) {
    SCOPED_TRACE(to_string(contexts[0]));
    const int64_t n = 4 * int64_t(contexts.size()) + 1;  // uneven
    random::seed(5);
    nn::Sequential net = convnet<nn::SyncBatchNorm>();
    net.initialize(init::Xavier(), Contexts(contexts));
    net.cast(d);
    nn::Trainer trainer(net.parameters(), optim::SGD({.learning_rate = .005}));
    train(way, net, trainer, split_and_load(images(d, n), contexts, {.even_split = false}),
          split_and_load(classes(n), contexts, {.even_split = false}), steps);
    const std::vector<Values> whole = trained_whole(d, contexts[0], n, steps);
    size_t k = 0;
    for (const auto& [name, p] : net.parameters()) {
      const Values got = values(p.list_data()[0]);
      expect_close(got, whole[k++], tolerance, name);
      for (const Tensor& replica : p.list_data())
        EXPECT_EQ(values(replica), got) << name;  // bit by bit
    }
  }
}

TEST(SyncBatchNorm, TrainsLikeOneContextWithTheWholeBatch) {
  expect_equal_to_one_context(Way::together, f32, 100, 1e-4);
  expect_equal_to_one_context(Way::together, f64, 100, 1e-12);
}

TEST(SyncBatchNorm, TrainsCompiledLikeOneContextWithTheWholeBatch) {
  expect_equal_to_one_context(Way::compiled, f32, 30, 1e-4);
  expect_equal_to_one_context(Way::compiled, f64, 100, 1e-12);
}

// x's parts on cpu(0) to cpu(2), of 1, 3 and 2 samples, normalised together.
Tensors in_three(const Tensors& in) {
  const std::vector<int64_t> ends{0, 1, 4, 6};
  Tensors parts, gamma, beta, mean, var;
  for (int i = 0; i < 3; ++i) {
    const auto at = static_cast<size_t>(i);
    parts.push_back(in[0][Slice(ends[at], ends[at + 1])].as_in_context(cpu(i)));
    gamma.push_back(in[1].as_in_context(cpu(i)));
    beta.push_back(in[2].as_in_context(cpu(i)));
    mean.push_back(zeros({2}, {cpu(i), f64}));
    var.push_back(ones({2}, {cpu(i), f64}));
  }
  const autograd::TrainMode train;
  const Tensors out = sync_batch_norm(parts, gamma, beta, mean, var, {.epsilon = .1});
  Tensors back;
  for (const Tensor& t : out) back.push_back(t.as_in_context(cpu()));
  return {concat(back, {.axis = 0})};
}

TEST(SyncBatchNorm, ItsGradientsAreThoseOfDifferences) {
  check_gradients(in_three, {sample_values(cpu(), f64, {6, 2, 3}), sample_values(cpu(), f64, {2}),
                             sample_values(cpu(), f64, {2}, -1, 1, 1)});
}

TEST(SyncBatchNorm, IsBatchNormOfAllPartsHoweverFarTheMeanIsFromZero) {
  for (double mean : {0., 1e7}) {
    const Tensor x = sample_values(cpu(), f64, {6, 2, 3}) + mean, gamma = array({1., 2.}),
                 beta = array({0., -1.}), running_mean = zeros({2}, {cpu(), f64}),
                 running_var = ones({2}, {cpu(), f64});
    const autograd::TrainMode train;
    const Tensor whole = batch_norm(x, gamma, beta, running_mean, running_var, {.epsilon = .1});
    expect_near(values(in_three({x, gamma, beta})[0]), values(whole), mean > 0 ? 1e-8 : 1e-14, "y");
  }
}

nn::SyncBatchNorm layer_on(const Contexts& contexts) {
  nn::SyncBatchNorm layer({.in_channels = 2});
  layer.initialize(contexts);
  return layer;
}
Tensors of_ones(const Contexts& contexts) {
  Tensors xs;
  for (Context c : contexts) xs.push_back(ones({3, 2}, c));
  return xs;
}
const Contexts kTwo{cpu(0), cpu(1)};

TEST(SyncBatchNorm, OneReplicaAfterTheOtherIsRefused) {
  nn::Sequential net;
  net.add(layer_on(kTwo));
  net.parameters();
  const Tensor x = ones({3, 2});
  EXPECT_EQ(values(net(x)).size(), 6u);  // predicts
  const autograd::Record record;
  EXPECT_THAT(
      message_of<Error>([&] { net(x); }),
      testing::StartsWith(
          "SyncBatchNorm: called for one replica, cpu(0) (3,2) f32, of those on [cpu(0), cpu(1)], "
          "while training needs the batches of all; expected net.on_replicas(xs), by one thread "
          "for all replicas, also instead of net(x) in parallel() (in layer '0' "
          "SyncBatchNorm(axis=1, eps=1e-05, momentum=0.9, fix_gamma=False, "
          "use_global_stats=False, in_channels=2))"));
  for (const Tensor& t : net.parameter("0.running_mean").list_data())
    EXPECT_EQ(values(t), (Values{0, 0}));
}

TEST(SyncBatchNorm, OnOneContextIsBatchNorm) {
  nn::SyncBatchNorm layer = layer_on(cpu(1));
  const autograd::Record record;
  EXPECT_EQ(values(layer(array({{1.f, 2.f}, {3.f, 2.f}}, cpu(1)))).size(), 4u);
  EXPECT_NEAR(values(layer.parameter("running_mean").data())[0], .2, 1e-6);
}

TEST(SyncBatchNorm, SomeOfTheReplicasAreRefused) {
  nn::SyncBatchNorm layer = layer_on({cpu(0), cpu(1), cpu(2)});
  const Tensors xs = of_ones(kTwo);
  const char* const text =
      "trains on [cpu(0), cpu(1)], and has replicas on [cpu(0), cpu(1), cpu(2)]";
  const autograd::Record record;
  EXPECT_THAT(message_of<Error>([&] { layer.on_replicas(xs); }), HasSubstr(text));
}

TEST(SyncBatchNorm, ThreadsThatTrainAReplicaEachAreRefused) {
  for (const bool hybrid : {false, true}) {
    nn::Sequential net;
    net.add(layer_on(kTwo));
    net.hybridize(hybrid);
    const Tensors xs = of_ones(kTwo);
    const autograd::Record record;
    EXPECT_THAT(message_of<Error>([&] { parallel(kTwo, [&](int i) { net(xs[size_t(i)]); }); }),
                AllOf(HasSubstr("net.on_replicas(xs)"), HasSubstr("parallel()")));
    for (const Tensor& t : net.parameter("0.running_mean").list_data())
      EXPECT_EQ(values(t), (Values{0, 0}));
  }
}

// Two steps from unknown shapes: parameters, statistics and gradients.
std::vector<Values> stepped(Way way, bool again, const std::vector<Context>& contexts) {
  random::seed(2);
  nn::Sequential body, net;
  body.add(nn::Dense(3), nn::SyncBatchNorm(), nn::Activate(nn::relu));
  if (again)
    net.add(nn::Recompute(body), nn::Dense(3));
  else
    net.add(body, nn::Dense(3));
  net.initialize(init::Xavier(), Contexts(contexts));
  nn::Trainer trainer(net.parameters(), optim::SGD({.learning_rate = .1}));
  const auto n = 3 * static_cast<int64_t>(contexts.size()) + 1;
  train(way, net, trainer,
        split_and_load(sample_values(cpu(), f32, {n, 2}), contexts, {.even_split = false}),
        split_and_load(classes(n), contexts, {.even_split = false}), 2);
  std::vector<Values> all;
  for (const auto& [name, p] : net.parameters()) {
    for (const Tensor& t : p.list_data()) all.push_back(values(t));
    if (p.grad_req() == GradReq::null) continue;
    for (const Tensor& t : p.list_grad()) all.push_back(values(t));
  }
  return all;
}

TEST(SyncBatchNorm, IsTheSameUnderRecompute) {
  for (const auto& contexts : fours())
    for (const Way way : {Way::together, Way::compiled}) {
      SCOPED_TRACE(text_of(contexts[0], ", way ", static_cast<int>(way)));
      const std::vector<Values> expected = stepped(way, false, contexts);
      EXPECT_EQ(stepped(way, true, contexts), expected);
    }
}

TEST(SyncBatchNorm, TogetherItsRecomputeKeepsTheInputsAlone) {
  const auto runs = [](const auto& norm) {
    int calls = 0;
    nn::Sequential body;
    body.add(norm, nn::Lambda([&calls](const Tensor& x) {
               ++calls;
               return x * 2;
             }));
    nn::Recompute net(body);
    net.initialize(kTwo);
    Tensors xs = of_ones(kTwo), ys;
    for (Tensor& x : xs) x.attach_grad();
    {
      const autograd::Record record;
      ys = net.on_replicas(xs);
    }
    autograd::backward(ys);
    return calls;
  };
  EXPECT_EQ(runs(nn::SyncBatchNorm({.in_channels = 2})), 4);
  EXPECT_EQ(runs(nn::BatchNorm({.in_channels = 2})), 4);
}

// Replicas without synchronization have separate graphs.
TEST(OnReplicas, UnderRecomputeEachMayGoBackByItself) {
  nn::Recompute net{nn::Dense(1, {}, {.in_units = 2})};
  net.initialize(init::One(), kTwo);
  Tensors ys;
  {
    const autograd::Record record;
    ys = net.on_replicas(of_ones(kTwo));
  }
  for (const Tensor& y : ys) y.backward();
  for (const Tensor& g : net.parameter("body.weight").list_grad())
    EXPECT_EQ(values(g), (Values{3, 3}));
}

TEST(SyncBatchNorm, StatisticsThatDoNotFitAreRefusedAsBatchNormDoes) {
  const Tensor x = ones({3, 2}), two = ones({2}), three = ones({3}), wide = ones({2}, {cpu(), f64});
  const autograd::TrainMode train;
  const auto call = [&](const Tensor& mean, const Tensor& var, double momentum = .9) {
    sync_batch_norm({x}, {two}, {two}, {mean}, {var}, {.momentum = momentum});
  };
  EXPECT_THAT(message_of<ShapeError>([&] { call(two, three); }),
              AllOf(StartsWith("sync_batch_norm: data cpu(0) (3,2) f32"),
                    HasSubstr("running_var cpu(0) (3,) f32"),
                    HasSubstr("expected running statistics of shape (2,), got (3,)")));
  EXPECT_THAT(message_of<DTypeError>([&] { call(two, wide); }), HasSubstr("f32 and f64"));
  EXPECT_THAT(message_of<ValueError>([&] { call(two, two, 2); }), HasSubstr("momentum"));
  EXPECT_EQ(values(two), (Values{1, 1}));
}

TEST(OnReplicas, RunsHooksOfEachReplicaAndRefusesAContextTwice) {
  nn::Concurrent branches(1);
  branches.add(nn::Dense(1), nn::Identity());
  nn::Sequential all;
  all.add(nn::Dense(2), branches);
  all.initialize(init::One(), kTwo);
  std::vector<Context> before, after;
  all.register_forward_pre_hook(
      [&](nn::Block&, const Tensors& in) { before.push_back(in[0].context()); });
  all[1].register_forward_hook(
      [&](nn::Block&, const Tensors&, const Tensors& out) { after.push_back(out[0].context()); });
  const Tensors outs = all.on_replicas(of_ones(kTwo));
  for (size_t i = 0; i < 2; ++i) EXPECT_EQ(values(outs[i]), values(all(of_ones(kTwo)[i])));
  EXPECT_EQ(before.size(), 4u);
  EXPECT_EQ((std::vector(before.begin(), before.begin() + 2)), (std::vector{cpu(0), cpu(1)}));
  EXPECT_EQ((std::vector(after.begin(), after.begin() + 2)), (std::vector{cpu(0), cpu(1)}));
  EXPECT_THROW(all.on_replicas({ones({1, 2}), ones({1, 2})}), ValueError);
}

}  // namespace
}  // namespace locus::test
