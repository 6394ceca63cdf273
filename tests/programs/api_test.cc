#include <filesystem>

#include "tests/programs/api.h"
#include "tests/support/folder.h"
#include "tests/support/slow.h"

namespace {

using namespace locus;
using test::Api, test::printed;

INSTANTIATE_TEST_SUITE_P(Pairs, Api, testing::ValuesIn(test::pairs()), &test::name_of);

TEST(ApiContexts, AreValues) {
  EXPECT_EQ(gpu(), gpu(0));
  EXPECT_NE(cpu(0), cpu(1));
  EXPECT_EQ(Context::parse("gpu(1)"), gpu(1));
  EXPECT_EQ(Context::parse("gpu:1"), gpu(1));
  EXPECT_EQ(Context::parse("gpu"), gpu(0));
  EXPECT_EQ(Context::parse("cpu"), cpu(0));
  EXPECT_EQ(Context::parse("cpu_pinned"), cpu_pinned());
  for (const char* bad : {"", "gpu(", "gpu(-1)", "gpu(x)", "tpu", "gpu(1)x", "gpu()"})
    EXPECT_THROW(Context::parse(bad), Error) << bad;
  EXPECT_EQ(gpus(2), (std::vector<Context>{gpu(0), gpu(1)}));
  EXPECT_TRUE(gpus(0).empty());
  EXPECT_THROW(gpus(-3), ValueError);
  EXPECT_EQ(best_context(), num_gpus() > 0 ? gpu(0) : cpu(0));
  EXPECT_EQ(printed(cpu()) + printed(gpu(1)), "cpu(0)gpu(1)");
  {
    ContextScope scope(cpu(1));
    EXPECT_EQ(zeros({2}).context(), cpu(1));
    EXPECT_EQ(current_context(), cpu(1));
  }
  EXPECT_EQ(zeros({2}).context(), cpu(0));
}

TEST(ApiContexts, KnowTheirMemory) {
  LOCUS_NEEDS_ANY_GPUS(1);
  for (Context c : gpus(num_gpus())) {
    const MemoryInfo memory = gpu_memory_info(c);
    EXPECT_GT(memory.free, 0u) << c;
    EXPECT_GE(memory.total, memory.free) << c;
  }
}
TEST(ApiContexts, BehindTheLastOneHaveNoMemory) {
  EXPECT_THROW(gpu_memory_info(gpu(num_gpus())), DeviceError);
}

TEST(ApiContexts, TouchADeviceOnlyAtFirstUse) {
  const Context far = gpu(63);
  EXPECT_EQ(far, gpu(63));
  const std::string text = test::message_of<DeviceError>([&] { ones({2}, far); });
  EXPECT_NE(text.find("gpu(63)"), std::string::npos) << text;
  if (num_gpus() == 0) {
    EXPECT_NE(text.find("LOCUS_EMULATED_GPUS"), std::string::npos) << text;
  }
}

TEST_P(Api, Tensors) {
  Tensor x = ones({2, 3}, c0);
  EXPECT_EQ(x.dtype(), f32);
  EXPECT_EQ(ones({2, 3}, {c0, f64}).dtype(), f64);
  random::seed(7);
  Tensor y = random::uniform(0, 1, {2, 3}, c1);
  random::seed(7);
  EXPECT_EQ(random::uniform(0, 1, {2, 3}, cpu()).to_vector<float>(), y.to_vector<float>());
  Tensor a = array({{1.f, 2.f}, {3.f, 4.f}});
  EXPECT_EQ(array({1.0, 2.0}).dtype(), f32);
  EXPECT_EQ(array({1, 2}).dtype(), i64);
  EXPECT_EQ(array({true, false}).dtype(), bool_);
  EXPECT_EQ(array(std::vector<double>{1, 2}).dtype(), f64);
  EXPECT_EQ(printed(x), at("[[1. 1. 1.]\n [1. 1. 1.]]\n<Tensor 2x3 @0>"));
  EXPECT_EQ(x.context(), c0);
  EXPECT_EQ(x.shape(), (Shape{2, 3}));
  EXPECT_EQ(x.ndim(), 2);
  EXPECT_EQ(x.size(), 6);
  EXPECT_EQ(x.strides(), (std::vector<int64_t>{3, 1}));

  EXPECT_THAT(test::message_of<ContextMismatch>([&] { x + y; }),
              testing::StartsWith("add: operands live on different contexts: lhs " + to_string(c0) +
                                  " (2,3) f32, rhs " + to_string(c1) +
                                  " (2,3) f32; move one first: rhs.as_in_context(" + to_string(c0) +
                                  ") or lhs.as_in_context(" + to_string(c1) +
                                  ") (at tests/programs/api_test.cc:"));
  Tensor z = x.copyto(c1);
  EXPECT_EQ(printed(z), at("[[1. 1. 1.]\n [1. 1. 1.]]\n<Tensor 2x3 @1>"));
  EXPECT_EQ(x.context(), c0);
  (x * 2).copyto(z);
  EXPECT_EQ(z.to_vector<float>(), std::vector<float>(6, 2.f));
  EXPECT_EQ((y + z).context(), c1);
  EXPECT_TRUE(y.as_in_context(c1).is(y));
  EXPECT_FALSE(y.copyto(c1).is(y));
  EXPECT_FALSE(y.copyto(c1).shares_memory_with(y));
  EXPECT_TRUE(x.shares_memory_with(x.reshape({3, 2})));

  float s = x.sum().item<float>();
  EXPECT_EQ(s, 6.f);
  std::vector<float> v = x.to_vector<float>();
  EXPECT_EQ(v, std::vector<float>(6, 1.f));
  x.wait_to_read();
  wait_all();

  ContextScope scope(c0);
  Tensor r = arange(10);
  EXPECT_EQ(r.context(), c0);
  EXPECT_EQ(r.dtype(), f32);
  EXPECT_EQ(r[3].item<float>(), 3.f);
  EXPECT_EQ(r(Slice(2, 7, 2)).to_vector<float>(), (std::vector<float>{2, 4, 6}));
  EXPECT_EQ(r.take(array({0, 3, 5})).to_vector<float>(), (std::vector<float>{0, 3, 5}));
  EXPECT_EQ(Tensor(r[r % 3 == 1]).to_vector<float>(), (std::vector<float>{1, 4, 7}));
  EXPECT_EQ(r(Slice(), newaxis).shape(), (Shape{10, 1}));
  EXPECT_EQ(where(r > 2, r, -r).to_vector<float>(),
            (std::vector<float>{0, -1, -2, 3, 4, 5, 6, 7, 8, 9}));
  a = a.as_in_context(c0);
  EXPECT_NEAR(softmax(a, {.axis = 1})(0, 1).item<double>(), 0.7310585786300049, 1e-7);
  EXPECT_EQ(sum(a, {.axis = {0}, .keepdims = true}).shape(), (Shape{1, 2}));
  EXPECT_EQ(dot(a, a.T()).to_vector<float>(), (std::vector<float>{5, 11, 11, 25}));
  a += 1;
  a(0, Slice()) = 7;
  r[r > 4] = 0;
  EXPECT_EQ(a.to_vector<float>(), (std::vector<float>{7, 7, 4, 5}));
  EXPECT_EQ(r.to_vector<float>(), (std::vector<float>{0, 1, 2, 3, 4, 0, 0, 0, 0, 0}));
  a = x;
  EXPECT_TRUE(a.is(x));
}

TEST_P(Api, Autograd) {
  Tensor w = array({1.f, 2.f, 3.f}, c0);
  w.attach_grad();
  Tensor l;
  {
    autograd::Record record;
    l = (w * w).sum();
  }
  l.backward();
  EXPECT_EQ(printed(w.grad()), at("[2. 4. 6.]\n<Tensor 3 @0>"));
  {
    autograd::Record record;
    l = (w * w * w).sum();
    const Tensor g = autograd::grad(l, {w}, {.create_graph = true})[0];
    l = g.sum();
  }
  l.backward();
  EXPECT_EQ(w.grad().to_vector<float>(), (std::vector<float>{6, 12, 18}));
  {
    autograd::Record record;
    l = (w.copyto(c1) * 2).sum();
  }
  l.backward();
  EXPECT_EQ(w.grad().context(), c0);
  EXPECT_EQ(w.grad().to_vector<float>(), (std::vector<float>{2, 2, 2}));
  autograd::Record record;
  EXPECT_THROW(w += 1, Error);
}

TEST_P(Api, NetworksAndTraining) {
  random::seed(3);
  nn::Sequential net;
  net.add(nn::Dense(256, nn::relu), nn::Dense(128, nn::relu), nn::Dense(10));
  net.initialize(init::Xavier(), c0);
  Tensor x = random::uniform(0, 1, {64, 784}, c0);
  Tensor out = net(x);
  EXPECT_EQ(out.context(), c0);
  EXPECT_EQ(net[0].parameter("weight").data().shape(), (Shape{256, 784}));
  const std::string refused = test::message_of<Error>([&] { net(x.copyto(c1)); });
  EXPECT_NE(refused.find(to_string(c1)), std::string::npos) << refused;
  EXPECT_NE(printed(net.summary({64, 784})).find("256"), std::string::npos);

  nn::SoftmaxCrossEntropyLoss loss_fn;
  nn::Trainer trainer(net.parameters(), optim::SGD({.learning_rate = 0.1, .momentum = 0.9}));
  const Tensor classes = random::randint(0, 10, {200}, cpu());
  const data::ArrayDataset set(random::uniform(0, 1, {200, 784}, cpu()) + one_hot(classes, 784) * 9,
                               classes);
  data::DataLoader loader(set, {.batch_size = 64, .shuffle = true, .context = c0});
  float first = 0, last = 0;
  for (int epoch = 0; epoch < 5; ++epoch)
    for (auto [image, label] : loader) {
      Tensor loss;
      {
        autograd::Record record;
        loss = loss_fn(net(image), label);
      }
      loss.backward();
      trainer.step(image.shape()[0]);
      last = loss.mean().item<float>();
      if (first == 0) first = last;
    }
  EXPECT_LT(last, first / 2);

  const test::Folder folder;
  const std::string file = folder / "mlp.params";
  net.save_parameters(file);
  nn::Sequential again;
  again.add(nn::Dense(256, nn::relu), nn::Dense(128, nn::relu), nn::Dense(10));
  again.load_parameters(file, c1);
  EXPECT_EQ(again[2].parameter("bias").data().to_vector<float>(),
            net[2].parameter("bias").data().to_vector<float>());
  EXPECT_EQ(again(x.copyto(c1)).context(), c1);
}

TEST_P(Api, LayersOptimizersAndCheckpoints) {
  random::seed(3);
  nn::Sequential lenet;
  lenet.add(nn::Conv2D(20, 5, {.activation = nn::relu}), nn::MaxPool2D(2, {.strides = 2}),
            nn::Conv2D(50, {5, 5}, {.activation = nn::relu}), nn::MaxPool2D(2, {.strides = 2}),
            nn::Flatten(), nn::Dense(500, nn::relu), nn::Dense(10));
  lenet.initialize(init::Xavier(), c0);
  const data::ArrayDataset set(random::uniform(0, 1, {16, 1, 28, 28}, cpu()),
                               random::randint(0, 10, {16}, cpu()));
  data::DataLoader loader(set, {.batch_size = 8, .shuffle = true, .context = c0});
  nn::Trainer trainer(lenet.parameters(), optim::Adam({.learning_rate = 1e-3}));
  const optim::LRScheduler schedule =
      optim::CosineScheduler({.max_update = 10, .base_lr = 1e-3, .warmup_steps = 2});
  const nn::SoftmaxCrossEntropyLoss loss_fn;
  int64_t i = 0;
  const auto epoch = [&] {
    for (auto [image, label] : loader) {
      Tensor loss;
      {
        autograd::Record record;
        loss = loss_fn(lenet(image), label);
      }
      loss.backward();
      clip_global_norm(nn::gradients(lenet), 1.0);
      trainer.set_learning_rate(schedule(++i));
      trainer.step(image.shape()[0]);
    }
    return lenet[6].parameter("weight").data().to_vector<float>();
  };
  epoch();
  const test::Folder own;
  const std::string folder = own / "run";
  checkpoint::save(folder, {lenet, trainer, loader});
  const std::vector<float> on = epoch();
  EXPECT_TRUE(checkpoint::load(folder, {lenet, trainer, loader}));
  i = 2;
  EXPECT_EQ(epoch(), on);

  lenet.cast(bf16);
  const Tensor out = lenet(zeros({2, 1, 28, 28}, {c0, bf16}));
  EXPECT_EQ(out.dtype(), bf16);
  EXPECT_EQ(out.shape(), (Shape{2, 10}));
  EXPECT_THROW(lenet(zeros({2, 1, 28, 28}, {c1, bf16})), ContextMismatch);
}

TEST_P(Api, Transfers) {
  const Tensor h = full({1024, 1024}, 3, cpu_pinned());
  const Tensor d = h.copyto(c0, {.blocking = false});
  (d * 2).copyto(h, {.blocking = false});
  h.wait_to_read();
  EXPECT_EQ(h.to_vector<float>(), std::vector<float>(1024 * 1024, 6.f));
  Stream side(c0);
  Event t0 = side.record();
  {
    StreamScope on(side);
    d * 2;
    for (int i = 0; i < 50; ++i) test::delay(side.view());
  }
  Event t1 = side.record();
  Stream later(c0);
  later.wait(t1);
  t1.wait();
  EXPECT_TRUE(t1.query());
  if (c0.type == DeviceType::gpu) {
    EXPECT_GE(t0.elapsed_ms(t1), 0.9 * 50 * test::kDelay.count() / 1000);
  }
  const std::string line = "programs/api_test.cc:" + std::to_string(__LINE__ + 1);
  const auto train = [&] { (ones({8, 8}, c0).as_in_context(c1) * 2).sum().item<float>(); };
  TransferLog log;
  train();
  const std::string table = log.table();
  EXPECT_THAT(table, testing::HasSubstr(to_string(c0) + "  " + to_string(c1)));
  EXPECT_THAT(table, testing::HasSubstr(line));
  const test::Folder folder;
  const std::string trace = folder / "trace.json";
  profiler::start(trace);
  train();
  profiler::stop();
  EXPECT_GT(std::filesystem::file_size(trace), 0u);
  MemoryPool& pool = memory_pool(c0);
  EXPECT_GT(pool.stats().reserved, 0u);
  pool.release_cached();  // the limit would not refuse a block cached by an earlier test
  pool.set_limit(1 << 30);
  EXPECT_EQ(pool.stats().limit, size_t{1} << 30);
  EXPECT_THAT(test::message_of<OutOfMemory>([&] { empty({(1 << 28) + 1}, c0); }),
              testing::AllOf(testing::HasSubstr(to_string(c0)), testing::HasSubstr("limit 1 GiB")));
  EXPECT_EQ(ones({4}, c0).sum().item<float>(), 4.f);
  pool.set_limit(0);
  pool.release_cached();
}

}  // namespace
