// Tests of ranks that need one process only, and the ranks' parts of batches.
#include <algorithm>
#include <numeric>

#include <locus/core/autograd.h>
#include <locus/core/ranks/rank_purpose.h>
#include <locus/nn/prefetch.h>

#include <locus/core/cluster.h>
#include <locus/core/group.h>
#include <locus/nn/data.h>
#include <locus/ops/view.h>
#include "tests/train/training.h"

namespace locus {
namespace {

using testing::HasSubstr;
using Values = std::vector<double>;

TEST(Cluster, AProcessAloneIsRank0Of1) {
  cluster::init();
  EXPECT_EQ(cluster::rank(), 0);
  EXPECT_EQ(cluster::size(), 1);
  EXPECT_EQ(cluster::local_rank(), 0);
  EXPECT_EQ(cluster::local_size(), 1);
  EXPECT_EQ(cluster::contexts()[0], best_context());
  EXPECT_THROW(cluster::contexts(0), ValueError);
  EXPECT_THROW(cluster::contexts(2000000000), ValueError);
  if (num_gpus() == 0)
    EXPECT_EQ(cluster::contexts(2), (std::vector<Context>{cpu(0), cpu(1)}));
  else
    EXPECT_THROW(cluster::contexts(num_gpus() + 1), DeviceError);
  cluster::barrier();
}

TEST(Cluster, SaysHowManyTheLauncherStarted) {
  const char* const kName = "OMPI_COMM_WORLD_SIZE";
  unsetenv(kName);
  EXPECT_EQ(cluster::launched(), 1);
  setenv(kName, "4", 1);
  EXPECT_EQ(cluster::launched(), 4);
  unsetenv(kName);
  EXPECT_EQ(cluster::size(), 1);
}

TEST(Cluster, AloneItsVariablesAreReadToo) {
  setenv("LOCUS_CLUSTER_TIMEOUT", "abc", 1);
  EXPECT_THAT(test::message_of<Error>([] { cluster::init(); }),
              HasSubstr("LOCUS_CLUSTER_TIMEOUT=abc: expected a whole number"));
  unsetenv("LOCUS_CLUSTER_TIMEOUT");
  cluster::init();
  EXPECT_EQ(cluster::size(), 1);
}

TEST(Cluster, AloneCollectivesLeaveTheirTensors) {
  for (const Context c : test::contexts()) {
    const Tensor x = array({1, 2, 3}, {c, f32});
    cluster::all_reduce({x});
    cluster::all_reduce({x}, ReduceOp::mean);
    cluster::broadcast({x});
    EXPECT_EQ(test::values(x), (Values{1, 2, 3}));
  }
  EXPECT_EQ(cluster::all_reduce(2.5, ReduceOp::max), 2.5);
  cluster::all_reduce(Tensors());
}

TEST(Cluster, AloneASendIsACopy) {
  for (const Context c : test::contexts()) {
    const Tensor x = array({1, 2, 3}, {c, f32}), y = cluster::send_recv(x, {0});
    EXPECT_EQ(test::values(y), (Values{1, 2, 3}));
    EXPECT_FALSE(y.shares_memory_with(x));
    EXPECT_FALSE(cluster::send_recv(x, {-1}).defined());
    EXPECT_THAT(test::message_of<IndexError>([&] { cluster::send_recv(x, {1}); }),
                HasSubstr("source 1; expected a rank, 0 to 0"));
  }
}

TEST(Cluster, RunsAFunctionAndPassesOnWhatItThrows) {
  int calls = 0;
  cluster::together([&] { ++calls; });
  cluster::on_root([&] { ++calls; });
  EXPECT_EQ(calls, 2);
  EXPECT_THROW(cluster::together([] { throw ShapeError("no"); }), ShapeError);
}

TEST(Cluster, AHashDependsOnAllThatWasAddedAndOnTheOrder) {
  using cluster::Hash;
  const auto of = [](int64_t number, std::string_view a, std::string_view b, double rate) {
    return Hash().add(number).add(a).add(b).add(rate).value();
  };
  const uint64_t first = of(1, "push", "", .5);
  EXPECT_EQ(first, of(1, "push", "", .5));
  for (const uint64_t other :
       {of(2, "push", "", .5), of(1, "", "push", .5), of(1, "pus", "h", .5), of(1, "push", "", .25),
        of(1, "push", std::string_view("\0", 1), .5), Hash().value()})
    EXPECT_NE(first, other);
}

TEST(Cluster, ATimeoutThatIsNoNumberIsAnErrorOfInit) {
  const char* const before = std::getenv("LOCUS_CLUSTER_TIMEOUT");
  const std::string kept = before ? before : "";
  ::setenv("LOCUS_CLUSTER_TIMEOUT", "soon", 1);
  EXPECT_THAT(test::message_of<Error>([] { cluster::init(); }),
              HasSubstr("LOCUS_CLUSTER_TIMEOUT=soon"));
  before ? ::setenv("LOCUS_CLUSTER_TIMEOUT", kept.c_str(), 1) : ::unsetenv("LOCUS_CLUSTER_TIMEOUT");
}

TEST(Cluster, RefusesWhatCannotBeSummed) {
  const Tensor x = ones({2}), whole = ones({2}, i32), flags = ones({2}, bool_);
  EXPECT_THAT(test::message_of<Error>([&] {
                cluster::all_reduce({x, Tensor()});
              }),
              HasSubstr("cluster::all_reduce(sum): tensor 1 is an empty Tensor"));
  EXPECT_THAT(test::message_of<DTypeError>([&] { cluster::all_reduce({flags}); }),
              HasSubstr("bool"));
  EXPECT_THAT(test::message_of<DTypeError>([&] { cluster::all_reduce({whole}, ReduceOp::mean); }),
              HasSubstr("expected a floating dtype"));
  EXPECT_THAT(
      test::message_of<ValueError>([&] { cluster::all_reduce({x}, static_cast<ReduceOp>(9)); }),
      HasSubstr("cluster::all_reduce(9): expected a ReduceOp"));
  EXPECT_THROW(cluster::all_reduce(1., static_cast<ReduceOp>(9)), ValueError);
  EXPECT_THAT(test::message_of<Error>([&] {
                cluster::all_reduce({x, x});
              }),
              HasSubstr("tensors 0 and 1"));
  const Tensor a = zeros({2, 4});
  EXPECT_THAT(test::message_of<Error>([&] {
                cluster::all_reduce({a(0)(Slice(0, 3)), a(0)(Slice(1, 4))});
              }),
              HasSubstr("share memory"));
  cluster::all_reduce({a(0), a(1)});
  cluster::all_reduce({a(Slice(), 0), a(Slice(), 1)});
  EXPECT_THAT(test::message_of<Error>([&] { cluster::broadcast({broadcast_to(x(0), {4})}); }),
              HasSubstr("is a broadcast view"));
  EXPECT_EQ(test::values(cluster::send_recv(broadcast_to(x(0), {4}), {0})), Values(4, 1));
  EXPECT_THAT(test::message_of<IndexError>([&] { cluster::broadcast({x}, 1); }),
              HasSubstr("expected a rank, 0 to 0"));
  cluster::broadcast({flags});
}

TEST(Cluster, RefusesToWriteIntoWhatIsRecorded) {
  const Tensor w = ones({2});
  w.attach_grad();
  const autograd::Record record;
  const Tensor y = w * 2;
  EXPECT_THAT(test::message_of<Error>([&] { cluster::all_reduce({y}); }),
              testing::AllOf(HasSubstr("cluster::all_reduce(sum): in-place operations"),
                             HasSubstr("tensors that are being recorded")));
  EXPECT_THROW(cluster::broadcast({y}), Error);
  EXPECT_EQ(test::values(cluster::send_recv(y, {0})), Values(2, 2));
  cluster::all_reduce({ones({2})});
}

data::Dataset numbers(int64_t n) {
  Values v(static_cast<size_t>(n));
  std::iota(v.begin(), v.end(), 0.);
  return {array(v).reshape({n, 1}), array(v, {cpu(), i32})};
}

// The labels of each batch of two epochs.
std::vector<Values> batches(auto&& loader) {
  std::vector<Values> all;
  for (int epoch = 0; epoch < 2; ++epoch)
    for (const auto& [x, y] : loader) {
      EXPECT_EQ(test::values(x), test::values(y));
      all.push_back(test::values(y));
    }
  return all;
}

template <class Loader, class Options>
void expect_parts_of(int64_t samples, data::LastBatch last) {
  const data::Dataset set = numbers(samples);
  Options o{.batch_size = 8, .shuffle = true, .last_batch = last, .context = cpu(), .seed = 5};
  const std::vector<Values> whole = batches(Loader(set, o));
  std::vector<std::vector<Values>> parts;
  o.num_parts = 4;
  for (o.part_index = 0; o.part_index < 4; ++o.part_index) {
    parts.push_back(batches(Loader(set, o)));
    ASSERT_EQ(parts.back().size(), whole.size());
  }
  for (size_t i = 0; i < whole.size(); ++i) {
    Values joined;
    for (const auto& part : parts) {
      EXPECT_EQ(part[i].size(), whole[i].size() / 4);
      joined.insert(joined.end(), part[i].begin(), part[i].end());
    }
    EXPECT_EQ(joined, whole[i]) << "batch " << i;
  }
}

TEST(BatchParts, TogetherAreTheBatchesOfOneLoader) {
  using data::LastBatch;
  for (const auto& [samples, last] :
       {std::pair(36, LastBatch::keep), {37, LastBatch::discard}, {37, LastBatch::rollover}}) {
    expect_parts_of<data::DataLoader, data::LoaderOptions>(samples, last);
    expect_parts_of<data::Prefetcher, data::PrefetchOptions>(samples, last);
  }
}

TEST(BatchParts, HaveOneStateThatOtherNumbersOfPartsGoOnFrom) {
  const data::Dataset set = numbers(32);
  data::LoaderOptions o{.batch_size = 8, .shuffle = true};
  data::DataLoader one(set, o);
  o.num_parts = 2;
  o.part_index = 1;
  data::DataLoader second(set, o);
  auto i = one.begin();
  auto k = second.begin();
  static_cast<void>(*i);
  static_cast<void>(*k);
  EXPECT_EQ(one.state(), second.state());
  EXPECT_EQ(one.size(), second.size());
  second.set_state(one.state());
  const Values next = test::values((*++i).label);
  EXPECT_EQ(test::values((*second.begin()).label), Values(next.begin() + 4, next.end()));
}

TEST(BatchParts, AreOfEqualSizeElseAnError) {
  const auto loader = [](int64_t samples, int64_t batch, int parts, int index,
                         data::LastBatch last = data::LastBatch::keep) {
    return [=] {
      data::DataLoader(
          numbers(samples),
          {.batch_size = batch, .last_batch = last, .num_parts = parts, .part_index = index});
    };
  };
  EXPECT_THAT(test::message_of<ValueError>(loader(32, 6, 4, 0)),
              HasSubstr("batch_size 6 for 4 parts"));
  EXPECT_THAT(test::message_of<ValueError>(loader(32, 2, 4, 0)), HasSubstr("a multiple of 4"));
  EXPECT_THAT(test::message_of<ValueError>(loader(34, 8, 4, 0)),
              HasSubstr("the last batch has 2 of 34 samples"));
  loader(34, 8, 4, 0, data::LastBatch::discard)();
  EXPECT_THROW(loader(32, 8, 4, 4)(), ValueError);
  EXPECT_THROW(loader(32, 8, 0, 0)(), ValueError);
}

TEST(Cluster, RefusesEmptyFunctions) {
  EXPECT_THROW(cluster::together({}), ValueError);
  EXPECT_THROW(cluster::share_failure({}), ValueError);
  EXPECT_THROW(cluster::on_root({}), ValueError);
}

}  // namespace
}  // namespace locus
