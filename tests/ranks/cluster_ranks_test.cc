// Calls of ranks, one by one.
#include <locus/core/autograd.h>
#include <locus/core/cluster.h>
#include <locus/nn/kvstore.h>
#include <locus/nn/layers.h>
#include <locus/ops/collective.h>
#include <locus/ops/view.h>
#include "tests/ranks/ranks.h"

namespace locus::test::ranks {
namespace {

using testing::HasSubstr;

std::vector<Context> every_kind() {
  std::vector<Context> contexts{cpu(), cpu(1), cpu_pinned()};
  if (num_gpus() >= cluster::local_size()) contexts.push_back(cluster::contexts()[0]);
  return contexts;
}

TEST_F(ClusterRanks, ReduceEveryDtypeAndOp) {
  const int n = cluster::size(), r = cluster::rank();
  for (const Context c : every_kind())
    for (const DType d : {f32, f64, f16, bf16, i32, i64, u8, i8}) {
      SCOPED_TRACE(text_of(c, " ", name(d)));
      const auto make = [&] { return array({r + 1., 2., 5. - r}).astype(d).copyto(c); };
      const auto reduced = [&](ReduceOp op) {
        const Tensor x = make();
        cluster::all_reduce({x}, op);
        return values(x);
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
      EXPECT_EQ(values(x), (V{1. * n, 2, 6. - n}));
    }
}

TEST_F(ClusterRanks, ReduceManyTensorsViewsAndEmptyOnes) {
  const double n = cluster::size();
  const Tensor all = zeros({3, 4}), column = all(Slice(), 1), none = zeros({0, 2});
  const Tensor whole = ones({2}, i64), large = ones({300000});
  ones({3}).copyto(column);
  cluster::all_reduce({column, none, whole, large});
  EXPECT_EQ(values(column), std::vector<double>(3, n));
  EXPECT_EQ(all.sum().item<float>(), 3 * n);
  EXPECT_EQ(values(whole), std::vector<double>(2, n));
  EXPECT_EQ(values(large), std::vector<double>(300000, n));
  EXPECT_EQ(cluster::all_reduce(cluster::rank(), ReduceOp::max), n - 1);
}

TEST_F(ClusterRanks, KeepWhatIsNotANumber) {
  for (const int64_t n : {1, 1000})
    for (const ReduceOp op : {ReduceOp::max, ReduceOp::min, ReduceOp::sum})
      for (const DType d : {f32, f64, f16})
        for (int odd = 0; odd < cluster::size(); ++odd) {
          const Tensor x = full({n}, cluster::rank() == odd ? NAN : 1, {cpu(), d});
          cluster::all_reduce({x}, op);
          for (const double v : values(x)) EXPECT_TRUE(std::isnan(v)) << n << name(d);
        }
}

TEST_F(ClusterRanks, FindCallsThatDiffer) {
  const bool other = cluster::rank() == 1;
  const auto sum = [](const Tensors& tensors, ReduceOp op = ReduceOp::sum) {
    return [=] { cluster::all_reduce(tensors, op); };
  };
  const Tensor x = ones({3}), longer = ones({4}), whole = ones({3}, i32);
  EXPECT_THAT(message_of<ShapeError>(sum({other ? longer : x})),
              testing::AllOf(HasSubstr("rank 0 called cluster::all_reduce(sum) of 1 tensors"),
                             HasSubstr("and rank 1 "), HasSubstr("(4,)")));
  EXPECT_THAT(message_of<DTypeError>(sum({other ? whole : x})), HasSubstr("i32"));
  EXPECT_THAT(message_of<Error>(sum({x}, other ? ReduceOp::max : ReduceOp::sum)),
              HasSubstr("cluster::all_reduce(max)"));
  EXPECT_THAT(message_of<DTypeError>(sum(other ? Tensors{x, longer} : Tensors{x})),
              HasSubstr("of 2 tensors"));
  EXPECT_THAT(message_of<Error>([&] {
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
  const Tensor repeated = broadcast_to(ones({1}), {3});
  EXPECT_THAT(message_of<Error>(sum({other ? repeated : x})), HasSubstr("is a broadcast view"));
  EXPECT_EQ(values(x), std::vector<double>(3, 1));  // nothing was written
  sum({x})();
  EXPECT_EQ(values(x), std::vector<double>(3, cluster::size()));
}

TEST_F(ClusterRanks, DoNotWriteIntoWhatOneRecords) {
  const Tensor w = ones({2}), plain = ones({2});
  w.attach_grad();
  const auto said = testing::AllOf(HasSubstr(cluster::rank() == 1 ? "" : "rank 1: "),
                                   HasSubstr("tensors that are being recorded"));
  Tensor y, l;
  {
    const autograd::Record record;
    y = w * 2;
    const Tensor& mine = cluster::rank() == 1 ? y : plain;
    EXPECT_THAT(message_of<Error>([&] { cluster::all_reduce({mine}); }), said);
    EXPECT_THAT(message_of<Error>([&] { cluster::broadcast({mine}); }), said);
    EXPECT_EQ(values(cluster::send_recv(mine, std::vector<int>(cluster::size(), 1))),
              std::vector<double>(2, 2));
    l = (y * y).sum();
  }
  l.backward();
  EXPECT_EQ(values(w.grad()), std::vector<double>(2, 8));
  EXPECT_EQ(values(plain), std::vector<double>(2, 1));
}

// The link of this test does nothing.
TEST_F(ClusterRanks, GoOverTheLinksThatTheyMade) {
  const int each = num_gpus() / cluster::local_size();
  if (each < 1 || num_gpus() < 2) GTEST_SKIP() << "needs GPUs";
  if (!context_info(gpu(0)).emulated) GTEST_SKIP() << "needs emulated GPUs";
  static int made = 0;
  static std::vector<Context> used;
  struct Link final : RankLink {
    explicit Link(Context c) : context(c) {}
    void all_reduce(std::span<const View>, ReduceOp, StreamView s) override {
      EXPECT_EQ(s.context, context);
      used.push_back(context);
    }
    void broadcast(std::span<const View>, int, StreamView) override {}
    void send_recv(std::span<const View>, const std::vector<int>&, StreamView) override {}
    const Context context;
  };
  set_rank_links(DeviceType::gpu, [](Ranks&, Context c, double) -> std::unique_ptr<RankLink> {
    ++made;
    return std::make_unique<Link>(c);
  });
  // Rank 1 goes from one to the other and back; then all do.
  std::vector<Context> expected;
  for (const int all : {0, 1})
    for (int i = 0; i < 3; ++i) {
      expected.push_back(gpu(all == 1 || cluster::rank() == 1 ? i % 2 : 0));
      cluster::all_reduce({ones({3}, expected.back())});
    }
  EXPECT_EQ(used, expected);
  EXPECT_EQ(made, 3);
  set_rank_links(DeviceType::gpu, nullptr);
}

TEST_F(ClusterRanks, SendAndReceive) {
  const int n = cluster::size(), r = cluster::rank();
  using V = std::vector<double>;
  std::vector<int> round, chain, from_last(static_cast<size_t>(n), n - 1);
  for (int i = 0; i < n; ++i) {
    round.push_back((i + n - 1) % n);
    chain.push_back(i - 1);
  }
  for (const Context c : every_kind())
    for (const DType d : {f32, f64, f16, bf16, i32, i64, u8, i8, bool_}) {
      SCOPED_TRACE(text_of(c, " ", name(d)));
      const auto of = [&](int rank) { return array({rank + 1, 0, 5 - rank}).astype(d); };
      const Tensor x = of(r).copyto(c);
      const auto expect_of = [&](const Tensor& got, int rank) {
        ASSERT_TRUE(got.defined());
        EXPECT_EQ(got.context(), c);
        EXPECT_EQ(got.dtype(), d);
        EXPECT_EQ(values(got), values(of(rank)));
      };
      expect_of(cluster::send_recv(x, round), (r + n - 1) % n);
      expect_of(cluster::send_recv(x, from_last), n - 1);
      const Tensor got = cluster::send_recv(x, chain);
      if (r == 0)
        EXPECT_FALSE(got.defined());
      else
        expect_of(got, r - 1);
      expect_of(x, r);
    }
  const double left = (r + n - 1) % n;
  const Tensor table = full({3, 4}, r);
  EXPECT_EQ(values(cluster::send_recv(table(Slice(), 1), round)), V(3, left));
  EXPECT_EQ(values(cluster::send_recv(full({300000}, r), round)), V(300000, left));
  EXPECT_EQ(cluster::send_recv(zeros({0, 2}), round).shape(), (Shape{0, 2}));
  EXPECT_FALSE(cluster::send_recv(table, std::vector<int>(from_last.size(), -1)).defined());
}

TEST_F(ClusterRanks, FindSendsThatDoNotFit) {
  const bool other = cluster::rank() == 1;
  const std::vector<int> all(static_cast<size_t>(cluster::size()), 0);
  std::vector<int> none = all, wrong = all;
  none.pop_back();
  wrong[1] = other ? 1 : 0;
  const auto send = [](const Tensor& x, const std::vector<int>& sources) {
    return [=] { cluster::send_recv(x, sources); };
  };
  const auto with_rank = HasSubstr(other ? "" : "rank 1: ");
  const Tensor x = ones({3});
  EXPECT_THAT(message_of<ShapeError>(send(other ? ones({4}) : x, all)), HasSubstr("(4,)"));
  EXPECT_THAT(message_of<DTypeError>(send(other ? ones({3}, i32) : x, all)), HasSubstr("i32"));
  EXPECT_THAT(message_of<Error>(send(x, wrong)),
              HasSubstr("rank 1 cluster::send_recv(sources 0, 1"));
  EXPECT_THAT(message_of<Error>(send(x, other ? none : all)),
              testing::AllOf(with_rank, HasSubstr("expected one each")));
  wrong[1] = cluster::size();
  EXPECT_THAT(message_of<IndexError>(send(x, wrong)), HasSubstr("expected a rank, 0 to "));
  EXPECT_THAT(message_of<Error>(send(other ? Tensor() : x, all)),
              testing::AllOf(with_rank, HasSubstr("empty Tensor")));
  if (num_gpus() >= cluster::local_size()) {
    const Tensor there = x.copyto(cluster::contexts()[0]);
    EXPECT_THROW(send(other ? there : x, all)(), ContextMismatch);
  }
  EXPECT_EQ(values(cluster::send_recv(x, all)), std::vector<double>(3, 1));
}

TEST_F(ClusterRanks, AllThrowWhatOneThrows) {
  const bool mine = cluster::rank() == 1;
  const auto with_rank = HasSubstr(mine ? "" : "rank 1: ");
  EXPECT_THAT(message_of<FormatError>([&] {
                cluster::together([&] {
                  if (mine) throw FormatError("torn");
                });
              }),
              testing::AllOf(with_rank, HasSubstr("torn")));
  EXPECT_THAT(message_of<Error>([&] { cluster::all_reduce({mine ? Tensor() : ones({2})}); }),
              testing::AllOf(with_rank, HasSubstr("empty Tensor")));
  EXPECT_THROW(cluster::on_root([] { throw ValueError("no"); }), ValueError);
  cluster::barrier();
}

TEST_F(ClusterRanks, TheLowestOneThatThrowsIsNamedAndWhatIsNoErrorOfOursIsAnError) {
  const int rank = cluster::rank();
  const auto throws = [](const auto& e) {
    return [e] {
      cluster::together([&] {
        if (cluster::rank() > 0) throw e;
      });
    };
  };
  EXPECT_EQ(message_of<ValueError>(throws(ValueError(text_of("of ", rank)))),
            rank == 1 ? "of 1" : "rank 1: of 1");
  const auto foreign = throws(std::runtime_error(text_of("of ", rank)));
  if (rank == 1) {
    EXPECT_THROW(foreign(), std::runtime_error);
  } else {
    EXPECT_EQ(message_of<Error>(foreign), "rank 1: of 1");
  }
  cluster::barrier();
}

TEST_F(ClusterRanks, SayWhatACallIsForOnlyIfTheyDifferInIt) {
  int said = 0;
  for (const int number : {0, cluster::rank() == 1 ? 1 : 2}) {
    const cluster::Purpose outer(cluster::Hash().add("outer"), [] { return "a test"; });
    const cluster::Purpose inner(cluster::Hash().add(number), [&] {
      ++said;
      return text_of("number ", number);
    });
    if (number == 0) {
      cluster::barrier();
      EXPECT_EQ(said, 0);
      continue;
    }
    EXPECT_THAT(message_of<Error>([] { cluster::barrier(); }),
                testing::AllOf(HasSubstr("rank 0 called barrier, for a test: number 2 ("),
                               HasSubstr("and rank 1 barrier, for a test: number 1 (")));
    EXPECT_EQ(said, 1);
  }
  cluster::barrier();
}

TEST_F(ClusterRanks, AllThrowWhatOneFindsWrongBeforeACollective) {
  const bool mine = cluster::rank() == 1;
  const auto with_rank = HasSubstr(mine ? "" : "rank 1: ");
  EXPECT_THAT(message_of<IndexError>([&] { cluster::broadcast({ones({2})}, mine ? 99 : 0); }),
              with_rank);
  nn::Dense net(2, {}, {.in_units = 3});
  net.initialize();
  nn::Trainer trainer(net.parameters(), optim::SGD({.learning_rate = 1}));
  const auto backward = [&] {
    const autograd::Record record;
    net(ones({1, 3})).sum().backward();
  };
  if (!mine) backward();
  EXPECT_THAT(message_of<Error>([&] { trainer.step(1); }),
              testing::AllOf(with_rank, HasSubstr("has not been updated by backward")));
  std::vector<double> expected = values(net.parameter("weight").data());
  for (double& v : expected) v = static_cast<float>(v - cluster::size());
  backward();
  trainer.step(1);
  EXPECT_EQ(values(net.parameter("weight").data()), expected);
}

TEST_F(ClusterRanks, HaveAsManyContextsEach) {
  EXPECT_THAT(message_of<Error>([&] { cluster::contexts(cluster::rank() == 1 ? 1 : 2); }),
              HasSubstr("for 1 contexts per rank"));
}

TEST_F(ClusterRanks, HaveTheHostsContextsWhereNoneHasAGpu) {
  if (num_gpus() > 0) GTEST_SKIP() << "needs no GPU";
  EXPECT_EQ(cluster::contexts(2), (std::vector<Context>{cpu(0), cpu(1)}));
}

TEST_F(ClusterRanks, WithoutAGpuAreAnErrorOnAll) {
  if (num_gpus() == 0) GTEST_SKIP() << "needs a GPU";
  // The last rank of a host lacks one.
  const int each = num_gpus() / cluster::local_size() + 1;
  EXPECT_THAT(message_of<DeviceError>([&] { cluster::contexts(each); }), HasSubstr("needs gpu("));
}

TEST_F(ClusterRanks, HaveTheGpusThatTheySee) {
  if (num_gpus() < cluster::size()) GTEST_SKIP() << "needs " << cluster::size() << " GPUs";
  if (!context_info(gpu(0)).emulated) GTEST_SKIP() << "needs emulated GPUs";
  EXPECT_EQ(cluster::contexts()[0], gpu(cluster::local_rank()));
  if (const int i = cluster::local_rank(); num_gpus() >= 2 * cluster::local_size()) {
    EXPECT_EQ(cluster::contexts(2), (std::vector<Context>{gpu(2 * i), gpu(2 * i + 1)}));
  }
  // As with srun --gpus-per-task.
  set_gpu_identity([](int i) { return text_of(cluster::rank(), ":", i); });
  EXPECT_EQ(cluster::contexts(2), (std::vector<Context>{gpu(0), gpu(1)}));
  // In another order.
  set_gpu_identity([](int i) { return std::to_string((i + cluster::rank()) % num_gpus()); });
  EXPECT_EQ(cluster::contexts()[0], gpu(0));
  // All ranks have the same first GPU.
  set_gpu_identity([](int i) { return i == 0 ? "0" : text_of(cluster::rank(), ":", i); });
  EXPECT_THAT(message_of<DeviceError>([] { cluster::contexts(); }), HasSubstr("would share one"));
  set_gpu_identity(nullptr);
}

TEST_F(ClusterRanks, ADistStoreSumsOverThem) {
  const auto pair = [](double v) { return full({2}, v); };
  const double r = cluster::rank(), n = cluster::size();
  const auto kv = kvstore::create("dist_sync");
  EXPECT_EQ(kv->rank(), cluster::rank());
  EXPECT_EQ(kv->num_workers(), cluster::size());
  kv->init("w", pair(10 + r));
  const Tensor out = pair(0);
  kv->pull("w", out);
  EXPECT_EQ(values(out), values(pair(10)));
  const Tensor pushed = pair(r + 1);
  kv->push("w", {pushed, pair(1)});
  kv->barrier();
  kv->pull("w", out);
  EXPECT_EQ(values(out), values(pair(n * (n + 1) / 2 + n)));
  EXPECT_EQ(values(pushed), values(pair(r + 1)));
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
  EXPECT_THAT(message_of<ShapeError>([&] { kv->push("w", ones({other ? 3 : 2})); }),
              said("KVStore::push: key w: cpu(0) (3,)"));
  EXPECT_THAT(message_of<ValueError>([&] { kv->init(other ? "w" : "v", ones({2})); }),
              said("key w is there already"));
  EXPECT_THROW(kv->pull("v", ones({2})), ValueError);
  const Tensor out = zeros({2}), wide = zeros({2}, f64);
  EXPECT_THAT(
      message_of<DTypeError>([&] { kv->pushpull("w", Tensors{ones({2})}, {other ? wide : out}); }),
      said("KVStore::pushpull: key w"));
  const std::vector<Tensors> one{{ones({2})}}, none;
  EXPECT_THAT(message_of<Error>([&] { kv->push(kvstore::Keys{"w"}, other ? none : one); }),
              said("KVStore::push: 1 keys with 0 values"));
  EXPECT_THAT(message_of<DTypeError>([&] { kv->broadcast("v", ones({2}), {other ? wide : out}); }),
              said("KVStore::broadcast: key v"));
  kv->init("v", ones({2}));
  EXPECT_THAT(message_of<Error>([&] { kv->push(other ? "v" : "w", ones({2})); }),
              testing::AllOf(HasSubstr("for KVStore::push of w"), HasSubstr("push of v")));
  kv->pull("v", out);
  EXPECT_EQ(values(out), std::vector<double>(2, 1));
  kv->pushpull("w", Tensors{ones({2})}, {out});
  EXPECT_EQ(values(out), std::vector<double>(2, cluster::size()));
}

}  // namespace
}  // namespace locus::test::ranks
