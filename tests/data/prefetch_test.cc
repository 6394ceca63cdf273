// Prefetcher: the DataLoader's batches, made and uploaded ahead.
#include <locus/nn/prefetch.h>

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <latch>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <locus/core/error.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/reduce.h>
#include <tests/support/contexts.h>
#include <tests/support/slow.h>

namespace locus {
namespace {

using data::Dataset;
using data::LastBatch;
using data::Prefetcher;
using data::PrefetchOptions;
using data::Sample;
using testing::HasSubstr;
using testing::StartsWith;
using namespace std::chrono_literals;

// Sample i is {3i, 3i + 1, 3i + 2}, its label i.
Dataset numbered(int64_t n) {
  return {arange(0, 3 * static_cast<double>(n), 1, {cpu(0), f32}).reshape({n, 3}),
          arange(0, static_cast<double>(n), 1, {cpu(0), i32})};
}
Sample sample(int64_t i) {
  const auto x = static_cast<float>(3 * i);
  return {array({x, x + 1, x + 2}), full({}, static_cast<double>(i), {cpu(0), i32})};
}

template <class Loader>
std::vector<std::vector<double>> epoch(Loader& loader) {
  std::vector<std::vector<double>> all;
  for (auto [image, label] : loader) {
    EXPECT_EQ(image.context(), loader.context());
    EXPECT_EQ(label.context(), loader.context());
    EXPECT_EQ(label.dtype(), i32);
    EXPECT_EQ(image.shape(), (Shape{label.size(), 3}));
    all.push_back(test::values(image));
    all.push_back(test::values(label));
  }
  return all;
}

TEST(Prefetcher, GivesTheBatchesOfADataLoaderEverywhere) {
  const Dataset set = numbered(23);
  for (const Context c : test::distinct_contexts()) {
    for (const LastBatch last : {LastBatch::keep, LastBatch::discard, LastBatch::rollover}) {
      for (const int num_workers : {1, 5}) {
        SCOPED_TRACE(to_string(c) + ", num_workers " + std::to_string(num_workers));
        data::DataLoader expected(
            set, {.batch_size = 4, .shuffle = true, .last_batch = last, .context = c, .seed = 9});
        const PrefetchOptions options{.batch_size = 4,
                                      .shuffle = true,
                                      .last_batch = last,
                                      .context = c,
                                      .seed = 9,
                                      .num_workers = num_workers,
                                      .prefetch = 3};
        Prefetcher rows(set, options), decoded(23, sample, options);
        for (int e = 0; e < 3; ++e) {
          EXPECT_EQ(rows.size(), expected.size());
          const auto batches = epoch(expected);
          EXPECT_EQ(epoch(rows), batches);
          EXPECT_EQ(epoch(decoded), batches);
        }
      }
    }
  }
}

TEST(Prefetcher, TheContextIsTheCurrentOneUnlessNamed) {
  const ContextScope scope(cpu(1));
  EXPECT_EQ(Prefetcher(numbered(2)).context(), cpu(1));
  EXPECT_EQ(Prefetcher(numbered(2), {.context = cpu(0)}).context(), cpu(0));
}

TEST(Prefetcher, AnEmptySetHasNoBatches) {
  Prefetcher none(0, sample, {.batch_size = 4});
  EXPECT_EQ(none.size(), 0);
  EXPECT_TRUE(epoch(none).empty());
}

TEST(Prefetcher, ABatchOutlivesTheLoop) {
  for (const Context c : test::contexts()) {
    Tensors kept;
    {
      Prefetcher loader(numbered(12), {.batch_size = 2, .context = c});
      for (auto [image, label] : loader) kept.push_back(label);
    }
    for (size_t i = 0; i < kept.size(); ++i) {
      EXPECT_EQ(test::values(kept[i]), (std::vector<double>{2.0 * i, 2.0 * i + 1})) << c;
    }
    EXPECT_EQ(kept.size(), 6u);
  }
}

TEST(Prefetcher, ALoopMayStopEarlyAndStartAgain) {
  for (const Context c : test::contexts()) {
    Prefetcher loader(numbered(100),
                      {.batch_size = 2, .context = c, .num_workers = 3, .prefetch = 4});
    for (int stop = 0; stop < 5; ++stop) {
      int taken = 0;
      for (auto [image, label] : loader) {
        EXPECT_EQ(test::values(label)[0], 2 * taken);
        if (taken++ == stop) break;
      }
    }
    EXPECT_EQ(epoch(loader).size(), 100u) << c;
  }
}

TEST(Prefetcher, WhatDecodeThrowsArrivesAtItsBatch) {
  for (const Context c : test::contexts()) {
    Prefetcher loader(40,
                      [](int64_t i) {
                        if (i == 21) throw FormatError("sample 21 is broken");
                        return sample(i);
                      },
                      {.batch_size = 4, .context = c, .num_workers = 3, .prefetch = 4});
    int taken = 0;
    const auto loop = [&] {
      for (auto [image, label] : loader) {
        EXPECT_EQ(test::values(label)[0], 4 * taken);
        ++taken;
      }
    };
    EXPECT_THAT(test::message_of<FormatError>(loop), StartsWith("sample 21 is broken (at "));
    EXPECT_EQ(taken, 5) << "the batches before it are good";
  }
}

TEST(Prefetcher, AnErrorEndsTheEpochAndTheNextOneWorks) {
  for (const Context c : test::contexts()) {
    std::atomic<bool> broken{true};
    Prefetcher loader(8,
                      [&](int64_t i) {
                        if (i == 5 && broken) throw FormatError("sample 5 is broken");
                        return sample(i);
                      },
                      {.batch_size = 2, .context = c});
    auto it = loader.begin();
    ++it;
    EXPECT_THAT(test::message_of<FormatError>([&] { ++it; }),
                StartsWith("sample 5 is broken (at "));
    EXPECT_TRUE(it == loader.end());
    broken = false;
    EXPECT_EQ(epoch(loader).size(), 2u * 4) << c;
  }
}

TEST(Prefetcher, AnIteratorOutlivesItsLoader) {
  auto loader = std::make_unique<Prefetcher>(6, sample, PrefetchOptions{.batch_size = 2});
  auto it = loader->begin();
  const auto end = loader->end();
  loader.reset();
  for (int i = 0; i < 3; ++i, ++it) {
    ASSERT_FALSE(it == end);
    EXPECT_EQ(test::values((*it).label), (std::vector<double>{2.0 * i, 2.0 * i + 1}));
  }
  EXPECT_TRUE(it == end);
}

TEST(Prefetcher, NoMoreThanPrefetchBatchesAreMadeAhead) {
  std::atomic<int> decoded{0};
  Prefetcher loader(40,
                    [&](int64_t i) {
                      ++decoded;
                      return sample(i);
                    },
                    {.batch_size = 1, .num_workers = 4, .prefetch = 3});
  int taken = 0;
  for (auto [image, label] : loader) {
    ++taken;
    std::this_thread::sleep_for(2ms);
    EXPECT_LE(decoded, taken + 3);
  }
  EXPECT_EQ(decoded, 40);
}

TEST(Prefetcher, BatchesAreMadeAheadThoughNobodyTakesThem) {
  std::atomic<int> decoded{0};
  const auto counted = [&](int64_t i) {
    ++decoded;
    return sample(i);
  };
  Prefetcher loader(40, counted, {.batch_size = 2, .num_workers = 1, .prefetch = 3});
  auto it = loader.begin();
  EXPECT_TRUE(test::eventually([&] { return decoded == 2 * (1 + 3); })) << decoded;
  ++it;
  EXPECT_TRUE(test::eventually([&] { return decoded == 2 * (2 + 3); })) << decoded;
}

// In different batches, and in one.
TEST(Prefetcher, WorkersDecodeSamplesAtOnce) {
  for (const int64_t batch_size : {1, 3}) {
    std::latch inside(2);
    const auto meet = [&](int64_t i) {
      if (i == 0) return sample(i);  // opens its batch alone
      inside.count_down();
      if (!test::eventually([&] { return inside.try_wait(); })) throw Error("no other worker came");
      return sample(i);
    };
    Prefetcher loader(3, meet, {.batch_size = batch_size, .num_workers = 2, .prefetch = 3});
    EXPECT_NO_THROW(epoch(loader)) << "batch_size " << batch_size;
  }
}

TEST(Prefetcher, UnlikeSamplesAndNonsenseAreRefused) {
  const auto text = [](data::Decode decode) {
    return [decode] {
      Prefetcher loader(4, decode, {.batch_size = 4, .num_workers = 1});
      epoch(loader);
    };
  };
  EXPECT_THAT(test::message_of<ShapeError>(text([](int64_t i) {
                return Sample{zeros({i == 2 ? 4 : 3}), zeros({})};
              })),
              HasSubstr("the data of sample 2, cpu(0) (4,) f32, differs from the first of its "
                        "batch, (3,)"));
  EXPECT_THAT(test::message_of<DTypeError>(text([](int64_t i) {
                return Sample{zeros({3}), zeros({}, {cpu(0), i == 1 ? i64 : i32})};
              })),
              HasSubstr("the label of sample 1"));
  EXPECT_THAT(test::message_of<ContextMismatch>(text([](int64_t) { return Sample{}; })),
              HasSubstr("must return tensors on cpu(0)"));
  const auto with = [](const PrefetchOptions& options) {
    return test::message_of<Error>([&] { Prefetcher(4, sample, options); });
  };
  EXPECT_THAT(with({.batch_size = 0}),
              HasSubstr("Prefetcher: batch_size 0; expected 1 to 2^31 - 1"));
  EXPECT_THAT(with({.num_workers = 0}), HasSubstr("num_workers 0; expected 1 to 256"));
  EXPECT_THAT(with({.prefetch = -1}), HasSubstr("prefetch -1; expected 1 to 1024"));
  EXPECT_THAT(test::message_of<Error>([] { Prefetcher(4, nullptr); }), HasSubstr("decode"));
  EXPECT_THROW(Prefetcher(4, sample, {.context = gpu(60)}), DeviceError);
}

// Uploads of a millisecond reveal page-locked memory that is reused too early.
TEST(Prefetcher, SlowLinksChangeNoValue) {
  LOCUS_NEEDS_EMULATED_GPUS();
  const test::LinkModelScope slow(
      emulated::LinkModel{.h2d = 0.05, .d2h = 0.05, .peer = 0.05, .latency_us = 500});
  Prefetcher loader(numbered(4000), {.batch_size = 500, .context = gpu(0), .num_workers = 3});
  Tensor sum = zeros({3}, gpu(0));
  int64_t i = 0;
  for (auto [image, label] : loader) {
    const std::vector<double> labels = test::values(label * 3);
    const std::vector<double> first = test::values(image(Slice(0, 500), 0));
    EXPECT_EQ(labels, first);
    EXPECT_EQ(labels[0], static_cast<double>(3 * i));
    i += 500;
    sum = sum + image.sum({.axis = 0});
  }
  EXPECT_EQ(test::values(sum)[0], 3.0 * 4000 * 3999 / 2);
}

}  // namespace
}  // namespace locus
