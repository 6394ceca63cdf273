// Of several ranks: tests/cluster.sh starts this program by mpirun with LOCUS_TEST_RANKS=1. Each
// rank runs each test. Those that are DISABLED end the program, or are halves of one test.
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <map>
#include <string>
#include <thread>

#include <locus/core/rank_calls.h>
#include "tests/training.h"

namespace locus {
namespace {

using testing::HasSubstr;
using Values = std::vector<std::vector<double>>;

constexpr int kSteps = 100;
constexpr int64_t kBatch = 24;

struct How {
  DType dtype = f64;
  double clip = 0;
  bool compiled = false;
  bool norm = false;  // of all replicas
  friend auto operator<=>(const How&, const How&) = default;
};

// Training of a small network, from values that differ from rank to rank.
class Training {
 public:
  Training(How how, const Contexts& where) : how_(how), where_(where) {
    net_.add(nn::Dense(16, nn::tanh, {.in_units = 8}));
    if (how.norm) net_.add(nn::SyncBatchNorm({.in_channels = 16}));
    net_.add(nn::Dense(4, {}, {.in_units = 16}));
    net_.cast(how.dtype);
    random::seed(3 + static_cast<uint64_t>(cluster::rank()));
    net_.initialize(init::Xavier(), where);
    trainer_ = std::make_unique<nn::Trainer>(
        net_.parameters(), optim::SGD({.learning_rate = .1, .momentum = .9, .wd = 1e-3}));
    random::seed(17);
    const Tensor x = random::normal(0, 1, {240, 8}, {cpu(), how.dtype});
    std::vector<int> y(240);
    for (size_t i = 0; i < y.size(); ++i) y[i] = static_cast<int>(i * i % 4);
    loader_ =
        std::make_unique<data::DataLoader>(data::Dataset(x, array(y, {cpu(), i32})),
                                           data::LoaderOptions{.batch_size = kBatch,
                                                               .shuffle = true,
                                                               .seed = 9,
                                                               .num_parts = cluster::size(),
                                                               .part_index = cluster::rank()});
  }

  // Until so many steps have been made.
  Values run(int steps) {
    const nn::SoftmaxCrossEntropyLoss loss;
    nn::TrainStep compiled(net_, loss, *trainer_);
    while (trainer_->num_update() < steps)
      for (const auto& [x, y] : *loader_) {
        if (how_.compiled) {
          compiled(x, y);
          if (trainer_->num_update() == steps) break;
          continue;
        }
        const Tensors xs = split_and_load(x, where_), ys = split_and_load(y, where_);
        Tensors losses;
        {
          const autograd::Record record;
          const Tensors outs = net_.on_replicas(xs);
          for (size_t i = 0; i < xs.size(); ++i) losses.push_back(loss(outs[i], ys[i]));
        }
        autograd::backward(losses);
        if (how_.clip > 0) trainer_->clip_global_norm(how_.clip, kBatch);
        trainer_->step(kBatch);
        if (trainer_->num_update() == steps) break;
      }
    Values all;
    for (const auto& [name, p] : net_.parameters()) {
      all.push_back(test::values(p.list_data()[0]));
      for (const Tensor& replica : p.list_data()) EXPECT_EQ(test::values(replica), all.back());
    }
    return all;
  }
  checkpoint::Parts parts() { return {net_, *trainer_, *loader_}; }

 private:
  How how_;
  Contexts where_;
  nn::Sequential net_;
  std::unique_ptr<nn::Trainer> trainer_;
  std::unique_ptr<data::DataLoader> loader_;
};

double tolerance(DType d) { return d == f64 ? 1e-12 : 1e-4; }

std::string hash(const Values& values) {
  std::string bytes;
  for (const auto& v : values)
    bytes.append(reinterpret_cast<const char*>(v.data()), v.size() * sizeof(double));
  return std::to_string(cluster::hash_of(bytes));
}

class ClusterRanks : public testing::Test {
 protected:
  // What one process gives is computed before it is one of several.
  static void SetUpTestSuite() {
    if (!std::getenv("LOCUS_TEST_RANKS")) return;
    for (const How how :
         {How{f32}, How{f64}, How{f64, .05}, How{f32, 0, false, true}, How{f64, 0, false, true}}) {
      Training alone(how, cpu());
      one_process[how] = alone.run(kSteps);
    }
    cluster::init();
  }
  void SetUp() override {
    if (!std::getenv("LOCUS_TEST_RANKS"))
      GTEST_SKIP() << "needs MPI: tests/cluster.sh starts its ranks by mpirun";
    ASSERT_GE(cluster::size(), 2);
  }
  static inline std::map<How, Values> one_process;
};

// What each rank can hold here.
std::vector<Contexts> places() {
  std::vector<Contexts> all{cpu(), {cpu(0), cpu(1)}};
  for (int n = 1; n * cluster::local_size() <= num_gpus(); ++n)
    all.emplace_back(cluster::contexts(n));
  return all;
}

TEST_F(ClusterRanks, GiveTheParametersOfOneProcess) {
  for (const auto& [how, expected] : one_process)
    for (const Contexts& where : places()) {
      SCOPED_TRACE(text_of(where.list()[0], " of ", where.size()));
      test::expect_close(Training(how, where).run(kSteps), expected, tolerance(how.dtype));
    }
}

TEST_F(ClusterRanks, GiveThemWithCompiledStepsToo) {
  test::expect_close(Training({f64, 0, true}, cpu()).run(kSteps), one_process[{f64}], 1e-12);
}

TEST_F(ClusterRanks, GiveTheSameBitsEachTimeAndOnEachRank) {
  const Values once = Training({f32}, cpu()).run(kSteps);
  EXPECT_EQ(Training({f32}, cpu()).run(kSteps), once);
  for (const auto& v : once) {
    const Tensor low = array(v, {cpu(), f64}), high = array(v, {cpu(), f64});
    cluster::all_reduce({low}, ReduceOp::min);
    cluster::all_reduce({high}, ReduceOp::max);
    EXPECT_EQ(test::values(low), test::values(high));
  }
  if (cluster::rank() == 0) std::cout << "bits " << hash(once) << std::endl;
}

TEST_F(ClusterRanks, ReduceEveryDtypeAndOp) {
  const int n = cluster::size(), r = cluster::rank();
  std::vector<Context> contexts{cpu(), cpu(1), cpu_pinned()};
  if (num_gpus() >= cluster::local_size()) contexts.push_back(cluster::contexts()[0]);
  for (const Context c : contexts)
    for (const DType d : {f32, f64, f16, bf16, i32, i64, u8, i8}) {
      SCOPED_TRACE(text_of(c, " ", name(d)));
      const auto make = [&] { return array({r + 1., 2., 5. - r}).astype(d).copyto(c); };
      const auto reduced = [&](ReduceOp op) {
        const Tensor x = make();
        cluster::all_reduce({x}, op);
        return test::values(x);
      };
      double factorial = 1;
      for (int i = 1; i <= n; ++i) factorial *= i;
      using V = std::vector<double>;
      EXPECT_EQ(reduced(ReduceOp::sum), (V{n * (n + 1) / 2., 2. * n, 5. * n - n * (n - 1) / 2.}));
      EXPECT_EQ(reduced(ReduceOp::max), (V{1. * n, 2, 5}));
      EXPECT_EQ(reduced(ReduceOp::min), (V{1, 2, 6. - n}));
      EXPECT_EQ(reduced(ReduceOp::prod)[0], factorial);
      if (d == f32 || d == f64 || d == f16 || d == bf16) {
        EXPECT_EQ(reduced(ReduceOp::mean)[0], (n + 1) / 2.);
      }
      const Tensor x = make();
      cluster::broadcast({x}, n - 1);
      EXPECT_EQ(test::values(x), (V{1. * n, 2, 6. - n}));
    }
}

TEST_F(ClusterRanks, ReduceManyTensorsViewsAndEmptyOnes) {
  const double n = cluster::size();
  const Tensor all = zeros({3, 4}), column = all(Slice(), 1), none = zeros({0, 2});
  const Tensor whole = ones({2}, i64), large = ones({300000});
  ones({3}).copyto(column);
  cluster::all_reduce({column, none, whole, large});
  EXPECT_EQ(test::values(column), std::vector<double>(3, n));
  EXPECT_EQ(all.sum().item<float>(), 3 * n);
  EXPECT_EQ(test::values(whole), std::vector<double>(2, n));
  EXPECT_EQ(test::values(large), std::vector<double>(300000, n));
  EXPECT_EQ(cluster::all_reduce(cluster::rank(), ReduceOp::max), n - 1);
}

TEST_F(ClusterRanks, FindCallsThatDiffer) {
  const bool other = cluster::rank() == 1;
  const auto sum = [](const Tensors& tensors, ReduceOp op = ReduceOp::sum) {
    return [=] { cluster::all_reduce(tensors, op); };
  };
  const Tensor x = ones({3}), longer = ones({4}), whole = ones({3}, i32);
  EXPECT_THAT(test::message_of<ShapeError>(sum({other ? longer : x})),
              testing::AllOf(HasSubstr("rank 0 called cluster::all_reduce(sum) of 1 tensors"),
                             HasSubstr("and rank 1 "), HasSubstr("(4,)")));
  EXPECT_THAT(test::message_of<DTypeError>(sum({other ? whole : x})), HasSubstr("i32"));
  EXPECT_THAT(test::message_of<Error>(sum({x}, other ? ReduceOp::max : ReduceOp::sum)),
              HasSubstr("cluster::all_reduce(max)"));
  EXPECT_THAT(test::message_of<DTypeError>(sum(other ? Tensors{x, longer} : Tensors{x})),
              HasSubstr("of 2 tensors"));
  EXPECT_THAT(test::message_of<Error>([&] {
                if (other)
                  cluster::barrier();
                else
                  cluster::broadcast({x});
              }),
              HasSubstr("rank 1 barrier"));
  if (num_gpus() >= cluster::local_size()) {
    const Tensor there = x.copyto(cluster::contexts()[0]);
    EXPECT_THROW(sum({other ? there : x})(), ContextMismatch);
  }
  EXPECT_EQ(test::values(x), std::vector<double>(3, 1));  // nothing was written
  sum({x})();
  EXPECT_EQ(test::values(x), std::vector<double>(3, cluster::size()));
}

TEST_F(ClusterRanks, AllThrowWhatOneThrows) {
  const bool mine = cluster::rank() == 1;
  const auto with_rank = HasSubstr(mine ? "" : "rank 1: ");
  EXPECT_THAT(test::message_of<FormatError>([&] {
                cluster::together([&] {
                  if (mine) throw FormatError("torn");
                });
              }),
              testing::AllOf(with_rank, HasSubstr("torn")));
  EXPECT_THAT(test::message_of<Error>([&] { cluster::all_reduce({mine ? Tensor() : ones({2})}); }),
              testing::AllOf(with_rank, HasSubstr("undefined")));
  EXPECT_THROW(cluster::on_root([] { throw ValueError("no"); }), ValueError);
  cluster::barrier();
}

TEST_F(ClusterRanks, WithoutAGpuAreAnErrorOnAll) {
  if (num_gpus() == 0) {
    EXPECT_EQ(cluster::contexts(2), (std::vector<Context>{cpu(0), cpu(1)}));
    return;
  }
  // The last rank of a host lacks one.
  const int each = num_gpus() / cluster::local_size() + 1;
  EXPECT_THAT(test::message_of<DeviceError>([&] { cluster::contexts(each); }),
              HasSubstr("needs gpu("));
}

TEST_F(ClusterRanks, RefuseToBeCompiled) {
  nn::Parameter x("x", {2}, {.init = init::Zero()});
  x.initialize();
  nn::Trainer trainer({{"x", x}}, optim::SGD({.learning_rate = 1}));
  nn::TrainStep step(
      [&](const Tensor& t) {
        Tensor l;
        {
          const autograd::Record record;
          l = x.data() * t;
        }
        l.backward();
        trainer.step(1);
        return l;
      },
      trainer);
  EXPECT_THAT(test::message_of<CaptureError>([&] { step(ones({2})); }),
              HasSubstr("Trainer::allreduce_grads"));
}

TEST_F(ClusterRanks, ADistStoreSumsOverThem) {
  const auto values = [](double v) { return full({2}, v); };
  const double r = cluster::rank(), n = cluster::size();
  const auto kv = kvstore::create("dist_sync");
  EXPECT_EQ(kv->rank(), cluster::rank());
  EXPECT_EQ(kv->num_workers(), cluster::size());
  kv->init("w", values(10 + r));
  const Tensor out = values(0);
  kv->pull("w", out);
  EXPECT_EQ(test::values(out), test::values(values(10)));
  const Tensor pushed = values(r + 1);
  kv->push("w", {pushed, values(1)});
  kv->barrier();
  kv->pull("w", out);
  EXPECT_EQ(test::values(out), test::values(values(n * (n + 1) / 2 + n)));
  EXPECT_EQ(test::values(pushed), test::values(values(r + 1)));
  const auto own = kvstore::create("local");
  EXPECT_EQ(own->num_workers(), 1);
}

TEST_F(ClusterRanks, WhatOneRefusesToADistStoreAllRefuse) {
  const bool other = cluster::rank() == 1;
  const auto said = [&](const char* text) {
    return testing::AllOf(HasSubstr(other ? "" : "rank 1: "), HasSubstr(text));
  };
  const auto kv = kvstore::create("dist_sync");
  kv->init("w", ones({2}));
  EXPECT_THAT(test::message_of<ShapeError>([&] { kv->push("w", ones({other ? 3 : 2})); }),
              said("KVStore::push: key w: cpu(0) (3,)"));
  EXPECT_THAT(test::message_of<ValueError>([&] { kv->init(other ? "w" : "v", ones({2})); }),
              said("key w is there already"));
  EXPECT_THROW(kv->pull("v", ones({2})), ValueError);
  const Tensor out = zeros({2}), wide = zeros({2}, f64);
  EXPECT_THAT(test::message_of<DTypeError>(
                  [&] { kv->pushpull("w", Tensors{ones({2})}, {other ? wide : out}); }),
              said("KVStore::pushpull: key w"));
  const std::vector<Tensors> one{{ones({2})}}, none;
  EXPECT_THAT(test::message_of<Error>([&] { kv->push(kvstore::Keys{"w"}, other ? none : one); }),
              said("KVStore::push: 1 keys with 0 values"));
  EXPECT_THAT(
      test::message_of<DTypeError>([&] { kv->broadcast("v", ones({2}), {other ? wide : out}); }),
      said("KVStore::broadcast: key v"));
  kv->pushpull("w", Tensors{ones({2})}, {out});
  EXPECT_EQ(test::values(out), std::vector<double>(2, cluster::size()));
}

// Halves: LOCUS_TEST_FOLDER is where the first leaves what the second goes on from.
TEST_F(ClusterRanks, DISABLED_SaveHalfWay) {
  Training training({f64}, cpu());
  training.run(kSteps / 2 + 3);
  const std::string path = checkpoint::save(std::getenv("LOCUS_TEST_FOLDER"), training.parts());
  EXPECT_TRUE(std::filesystem::exists(path)) << path;
}
TEST_F(ClusterRanks, DISABLED_GoOnFromHalfWay) {
  Training training({f64}, cpu());
  ASSERT_TRUE(checkpoint::load(std::getenv("LOCUS_TEST_FOLDER"), training.parts()));
  test::expect_close(training.run(kSteps), one_process[{f64}], tolerance(f64));
}

// Ends of one rank; the others train on.
void train_until(int step, const std::function<void()>& end) {
  Training training({f64}, cpu());
  for (int s = 1; s < 1000000; ++s) {
    if (s == step && cluster::rank() == 1) end();
    training.run(s);
  }
}
TEST_F(ClusterRanks, DISABLED_OneIsKilled) {
  train_until(20, [] { std::raise(SIGKILL); });
}
TEST_F(ClusterRanks, DISABLED_OneThrows) {
  train_until(20, [] { throw ValueError("what rank 1 threw"); });
}
TEST_F(ClusterRanks, DISABLED_OneExits) {
  train_until(20, [] { std::exit(3); });
}
TEST_F(ClusterRanks, DISABLED_OneLeavesEarly) {
  train_until(20, [] { std::exit(0); });
}
TEST_F(ClusterRanks, DISABLED_OneHangs) {  // rank 0 in another run
  const auto hangs = cluster::size() == 2 ? 0 : 1;
  if (cluster::rank() == hangs) std::this_thread::sleep_for(std::chrono::seconds(12));
  EXPECT_THAT(test::message_of<DeviceError>([] { cluster::barrier(); }),
              HasSubstr("rank " + std::to_string(hangs) + " did not"));
  EXPECT_THAT(test::message_of<DeviceError>([] { cluster::all_reduce({ones({2})}); }),
              HasSubstr("has failed before"));
}

}  // namespace
}  // namespace locus
