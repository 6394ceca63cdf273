// state() and set_state() of both loaders: a stopped run continues with the same batches.
#include <optional>

#include <locus/core/base/text.h>
#include <locus/core/kernel.h>
#include <locus/nn/data.h>
#include <locus/nn/data/sample_order.h>
#include <locus/nn/prefetch.h>
#include <locus/ops/create.h>
#include "tests/support/contexts.h"

namespace locus {
namespace {

using data::DataLoader;
using data::LastBatch;
using data::LoaderState;
using data::Prefetcher;
using testing::HasSubstr;
using Labels = std::vector<std::vector<int32_t>>;

data::Dataset numbered(int64_t n) {
  return {arange(static_cast<double>(n), cpu()), arange(static_cast<double>(n), {cpu(), i32})};
}

struct Case {
  int64_t samples, batch_size;
  bool shuffle;
  LastBatch last_batch;
};
std::vector<Case> cases() {
  std::vector<Case> all;
  for (const auto& [samples, batch_size] : {std::pair{11, 4}, {12, 4}, {3, 5}, {2, 9}, {0, 2}})
    for (const bool shuffle : {false, true})
      for (const LastBatch last : {LastBatch::keep, LastBatch::discard, LastBatch::rollover})
        all.push_back({samples, batch_size, shuffle, last});
  return all;
}
DataLoader loader_of(const Case& c, Context where = cpu()) {
  return DataLoader(numbered(c.samples), {.batch_size = c.batch_size,
                                          .shuffle = c.shuffle,
                                          .last_batch = c.last_batch,
                                          .context = where,
                                          .seed = 5});
}
Prefetcher prefetcher_of(const Case& c, int num_workers, int prefetch, Context where = cpu()) {
  return Prefetcher(numbered(c.samples), {.batch_size = c.batch_size,
                                          .shuffle = c.shuffle,
                                          .last_batch = c.last_batch,
                                          .context = where,
                                          .seed = 5,
                                          .num_workers = num_workers,
                                          .prefetch = prefetch});
}

// The batches of `epochs` loops and the state after each batch; stops after `stop` batches.
struct Given {
  Labels batches;
  std::vector<LoaderState> states;
};
template <class Loader>
Given run(Loader& loader, int epochs, int64_t stop = -1) {
  Given r;
  for (int e = 0; e < epochs; ++e) {
    for (auto [x, y] : loader) {
      r.batches.push_back(y.template to_vector<int32_t>());
      r.states.push_back(loader.state());
      if (std::ssize(r.batches) == stop) return r;
    }
  }
  return r;
}

constexpr int kEpochs = 4;
template <class Loader>
void expect_rest(Loader& loader, const Given& whole, size_t k, const LoaderState& state) {
  loader.set_state(state);
  EXPECT_EQ(loader.state(), state);
  Labels rest;
  for (int e = 0; e <= kEpochs && rest.size() < whole.batches.size() - k; ++e) {
    const int64_t size = loader.size();
    int64_t count = 0;
    for (auto [x, y] : loader) {
      rest.push_back(y.template to_vector<int32_t>());
      ++count;
    }
    EXPECT_EQ(count, size);
  }
  rest.resize(std::min(rest.size(), whole.batches.size() - k));
  EXPECT_EQ(rest,
            Labels(whole.batches.begin() + static_cast<std::ptrdiff_t>(k), whole.batches.end()))
      << "after " << k << " batches";
}

TEST(LoaderState, ResumesAtEveryBatch) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(text_of(c.samples, " samples by ", c.batch_size, c.shuffle ? ", shuffled, " : ", ",
                         static_cast<int>(c.last_batch)));
    DataLoader undisturbed = loader_of(c);
    const LoaderState start = undisturbed.state();
    const Given whole = run(undisturbed, kEpochs);
    for (size_t k = 0; k <= whole.batches.size(); ++k) {
      const LoaderState state = k == 0 ? start : whole.states[k - 1];
      DataLoader fresh = loader_of(c);
      expect_rest(fresh, whole, k, state);
      // A loader within another epoch, and one that made batches ahead.
      DataLoader used = loader_of(c);
      run(used, 2, 3);
      expect_rest(used, whole, k, state);
      Prefetcher ahead = prefetcher_of(c, 3, 4);
      run(ahead, 1, 1);
      expect_rest(ahead, whole, k, state);
    }
  }
}

TEST(LoaderState, OfAPrefetcherIsOfBatchesHandedOut) {
  const Case c{11, 2, true, LastBatch::rollover};
  for (const Context where : test::contexts()) {
    DataLoader loader = loader_of(c, where);
    const Given expected = run(loader, 3);
    for (const int num_workers : {1, 4}) {
      for (const int prefetch : {1, 7}) {
        Prefetcher prefetcher = prefetcher_of(c, num_workers, prefetch, where);
        const Given got = run(prefetcher, 3);
        EXPECT_EQ(got.batches, expected.batches);
        EXPECT_EQ(got.states, expected.states);
      }
    }
  }
}

TEST(LoaderState, CountsABatchOnceALoopHasIt) {
  DataLoader loader = loader_of({6, 2, false, LastBatch::keep});
  Prefetcher prefetcher = prefetcher_of({6, 2, false, LastBatch::keep}, 2, 3);
  const auto check = [](auto& of) {
    auto i = of.begin();
    EXPECT_EQ(of.state().position, 0);
    (void)*i;
    (void)*i;
    EXPECT_EQ(of.state().position, 1);
    ++i;
    EXPECT_EQ(of.state().position, 1);
    ++i;
    EXPECT_EQ(of.state().position, 2) << "passed without a look";
    (void)*i;
    EXPECT_EQ(of.state().epoch, 1);
    EXPECT_EQ(of.state().position, 0);
    ++i;
    EXPECT_TRUE(i == of.end());
    EXPECT_EQ(of.state().epoch, 1);
  };
  check(loader);
  check(prefetcher);
}

TEST(LoaderState, OfAnotherLoaderIsRefused) {
  DataLoader loader = loader_of({11, 4, true, LastBatch::rollover});
  run(loader, 1, 1);
  const LoaderState good = loader.state();
  const auto refused = [&](auto change) {
    LoaderState bad = good;
    change(bad);
    const std::string text = test::message_of<ValueError>([&] { loader.set_state(bad); });
    EXPECT_THAT(text, HasSubstr("DataLoader: set_state: "));
    EXPECT_EQ(loader.state(), good);
    return text;
  };
  EXPECT_THAT(refused([](LoaderState& s) { s.samples = 12; }), HasSubstr("a state of 12 samples"));
  refused([](LoaderState& s) { s.batch_size = 2; });
  refused([](LoaderState& s) { s.seed = 6; });
  refused([](LoaderState& s) { s.shuffle = false; });
  refused([](LoaderState& s) { s.last_batch = LastBatch::keep; });
  refused([](LoaderState& s) { s.epoch = -1; });
  refused([](LoaderState& s) { s.epoch = INT64_MAX; });
  refused([](LoaderState& s) { s.position = -1; });
  EXPECT_THAT(refused([](LoaderState& s) { s.position = 2; }), HasSubstr("position 2 of epoch 0"));
  loader.set_state(good);
  // Refused states changed nothing.
  DataLoader other = loader_of({11, 4, true, LastBatch::rollover});
  const Given whole = run(other, kEpochs);
  expect_rest(loader, whole, 1, good);
}

TEST(LoaderState, AFarEpochNeedsNoneBeforeIt) {
  DataLoader loader = loader_of({11, 4, true, LastBatch::rollover});
  LoaderState state = loader.state();
  state.epoch = 2000001;  // 11 * 2000001 % 4 = 3 are left of the epoch before
  loader.set_state(state);
  EXPECT_EQ(loader.size(), 3);
  const Given r = run(loader, 1);
  state.epoch = 2000000;
  loader.set_state(state);
  run(loader, 1);
  EXPECT_EQ(run(loader, 1).batches, r.batches);
}

}  // namespace
}  // namespace locus
