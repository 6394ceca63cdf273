// The documentation's programs for several contexts.
#include "tests/programs/api.h"

namespace {

using namespace locus;
using test::printed;

struct ApiSeveral : test::Api {};
INSTANTIATE_TEST_SUITE_P(Pairs, ApiSeveral, testing::ValuesIn(test::pairs()), &test::name_of);

TEST_P(ApiSeveral, Collectives) {
  if (c0.type != c1.type) {
    EXPECT_THROW(Group({c0, c1}), ContextMismatch);
    return;
  }
  const Group g({c0, c1});
  const Tensors parts{array({1.f, 2.f}, c0), array({3.f, 4.f}, c1)};
  const Tensors sums = all_reduce(g, parts);
  EXPECT_EQ(printed(sums[0]), at("[4. 6.]\n<Tensor 2 @0>"));
  EXPECT_EQ(printed(sums[1]), at("[4. 6.]\n<Tensor 2 @1>"));
  EXPECT_EQ(broadcast(g, parts[0])[1].to_vector<float>(), (std::vector<float>{1, 2}));
  EXPECT_EQ(all_gather(g, parts, {.axis = 0})[1].to_vector<float>(),
            (std::vector<float>{1, 2, 3, 4}));
  EXPECT_EQ(printed(reduce_scatter(g, parts)[1]), at("[6.]\n<Tensor 1 @1>"));
  const Tensors swapped = send_recv(g, parts, {1, 0});
  EXPECT_EQ(printed(swapped[0]), at("[3. 4.]\n<Tensor 2 @0>"));
  EXPECT_EQ(printed(swapped[1]), at("[1. 2.]\n<Tensor 2 @1>"));
  EXPECT_FALSE(send_recv(g, parts, {-1, 0})[0].defined());
  EXPECT_THROW(send_recv(g, {parts[1], parts[0]}, {1, 0}), ContextMismatch);
}

TEST_P(ApiSeveral, Replicas) {
  if (c0.type != c1.type) GTEST_SKIP() << "needs two GPUs, or none: replicas are of one kind";
  const Contexts where{c0, c1};
  random::seed(5);
  const Tensors xs = split_and_load(random::uniform(-1, 1, {8, 6}, cpu()), where),
                ys = split_and_load(random::randint(0, 3, {8}, cpu()), where);
  const nn::SoftmaxCrossEntropyLoss loss_fn;
  const auto train = [&](const nn::TrainerOptions& options) {
    random::seed(3);
    nn::Sequential net;
    net.add(nn::Dense(5, nn::relu), nn::Dense(3));
    net.initialize(init::Xavier(), where);
    nn::Trainer trainer(net.parameters(), optim::Adam({.learning_rate = .01}), options);
    for (int step = 0; step < 3; ++step) {
      parallel(where, [&](int i) {
        const auto k = static_cast<size_t>(i);
        Tensor loss;
        {
          autograd::Record record;
          loss = loss_fn(net(xs[k]), ys[k]);
        }
        loss.backward();
      });
      trainer.step(8);
    }
    std::vector<float> all;
    for (const auto& [name, p] : net.parameters()) {
      const std::vector<float> first = p.data(c0).to_vector<float>();
      EXPECT_EQ(p.data(c1).to_vector<float>(), first) << name;
      all.insert(all.end(), first.begin(), first.end());
    }
    return all;
  };
  const std::vector<float> plain = train({});
  EXPECT_EQ(train({.overlap = true}), plain);
  EXPECT_EQ(train({.zero = 1}), plain);
  EXPECT_EQ(train({.zero = 2}), plain);
  EXPECT_THAT(train({.kvstore = kvstore::create("device")}),
              testing::Pointwise(testing::FloatNear(1e-5f), plain));

  const auto store = kvstore::create("local");
  store->init(3, ones({2}, c0));
  store->push(3, Tensors{array({1.f, 2.f}, c0), array({3.f, 4.f}, c1)});
  const Tensor out = zeros({2}, c1);
  store->pull(3, {out});
  EXPECT_EQ(printed(out), at("[4. 6.]\n<Tensor 2 @1>"));
}

TEST_P(ApiSeveral, ReplicasCompiled) {
  if (c0.type != c1.type) GTEST_SKIP() << "needs two GPUs, or none: replicas are of one kind";
  const Contexts where{c0, c1};
  const nn::SoftmaxCrossEntropyLoss loss_fn;
  const auto train = [&](bool compiled) {
    random::seed(3);
    nn::Sequential net;
    net.add(nn::Dense(5, nn::relu), nn::Dense(3));
    net.initialize(init::Xavier(), where);
    nn::Trainer trainer(net.parameters(), optim::Adam({.learning_rate = .01}));
    const auto run = [&](const Tensors& in) {
      const size_t n = in.size() / 2;
      Tensors losses;
      int64_t samples = 0;
      {
        autograd::Record record;
        for (size_t i = 0; i < n; ++i) losses.push_back(loss_fn(net(in[i]), in[n + i]));
      }
      for (size_t i = 0; i < n; ++i) samples += in[i].shape()[0], losses[i].backward();
      trainer.step(samples);
      return losses[0];
    };
    nn::TrainStep step(run, trainer);
    std::vector<float> all;
    for (int i = 0; i < 12; ++i) {
      Tensors in = split_and_load(random::uniform(-1, 1, {8, 6}, c0), where);
      for (const Tensor& y : split_and_load(random::randint(0, 3, {8}, c0), where)) in.push_back(y);
      all.push_back((compiled ? step(in) : run(in)).mean().item<float>());
    }
    for (const auto& [name, p] : net.parameters())
      for (const Tensor& replica : p.list_data())
        for (const float v : replica.to_vector<float>()) all.push_back(v);
    return all;
  };
  EXPECT_EQ(train(true), train(false));
}

TEST_P(ApiSeveral, NetworksInParts) {
  random::seed(5);
  const Tensor image = random::uniform(-1, 1, {8, 6}, cpu()),
               label = random::randint(0, 3, {8}, cpu());
  const nn::SoftmaxCrossEntropyLoss loss_fn;
  // Losses of some steps of a seeded network; they fall.
  const auto train = [&](nn::Block& net, const auto& forward_backward) {
    nn::Trainer trainer(net.parameters(), optim::SGD({.learning_rate = 0.5}));
    std::vector<float> losses;
    for (int step = 0; step < 10; ++step) {
      const Tensor l = forward_backward();
      trainer.step(8);
      losses.push_back(l.mean().item<float>());
    }
    EXPECT_LT(losses.back(), losses.front());
    return losses;
  };
  const auto recorded = [&](const auto& forward, Context c) {
    Tensor l;
    {
      autograd::Record record;
      l = loss_fn(forward(), label.as_in_context(c));
    }
    l.backward();
    return l;
  };

  nn::Sequential whole;
  whole.add(nn::Dense(5, nn::relu), nn::Dense(3));
  random::seed(3);
  whole.initialize(init::Xavier(), c0);
  const Tensor x = image.as_in_context(c0);
  const auto expected =
      testing::Pointwise(testing::FloatNear(1e-4f),
                         train(whole, [&] { return recorded([&] { return whole(x); }, c0); }));

  nn::Sequential first, second;
  first.add(nn::Dense(5, nn::relu));
  second.add(nn::Dense(3));
  nn::Pipeline pipe({first, second}, {c0, c1},
                    {.microbatches = 4, .schedule = nn::Schedule::one_f1b});
  random::seed(3);
  pipe.initialize(init::Xavier());
  EXPECT_THAT(train(pipe, [&] { return pipe.forward_backward(image, label, loss_fn); }), expected);
  EXPECT_EQ(pipe(x).context(), c1);

  const nn::Plan plan = nn::Plan::parse("plan-1\nmicrobatches 2\nlayers 0 on " + to_string(c0) +
                                        "\nlayers 1 on " + to_string(c1) + "\n");
  nn::Sequential layers;
  layers.add(nn::Dense(5, nn::relu), nn::Dense(3));
  nn::Planned planned(layers, plan);
  random::seed(3);
  planned.initialize(init::Xavier());
  EXPECT_THAT(train(planned, [&] { return planned.forward_backward(image, label, loss_fn); }),
              expected);
  EXPECT_EQ(nn::Plan::parse(plan.text()), plan);

  const Contexts both{c0, c1};
  if (c0.type != c1.type) {
    EXPECT_THROW(nn::ColumnParallelDense(5, both), ContextMismatch);
    return;
  }
  nn::Sequential wide;
  wide.add(nn::ColumnParallelDense(5, both, nn::relu), nn::RowParallelDense(3, both));
  random::seed(3);
  wide.initialize(init::Xavier());
  const auto of_one = [&] { return wide(broadcast(Group(both), x))[0]; };
  EXPECT_THAT(train(wide, [&] { return recorded(of_one, c0); }), expected);
  EXPECT_EQ(wide.parameter("0.weight.1").list_ctx(), std::vector<Context>{c1});
}

}  // namespace
