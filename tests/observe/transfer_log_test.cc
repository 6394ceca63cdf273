// The transfer log: entries, their lines, and the table.
#include <locus/core/transfer_log.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <thread>

#include <locus/core/autograd.h>
#include <locus/core/compile.h>
#include <locus/core/device.h>
#include <locus/core/io.h>
#include <locus/core/stream.h>
#include <locus/nn/activation_layers.h>
#include <locus/nn/containers.h>
#include <locus/nn/data.h>
#include <locus/nn/layers.h>
#include <locus/nn/optimizer.h>
#include <locus/nn/prefetch.h>
#include <locus/nn/trainer.h>
#include <locus/ops/compare.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/index.h>
#include "tests/support/contexts.h"
#include "tests/support/folder.h"

namespace {

using namespace locus;
using testing::HasSubstr;
using testing::Not;

std::vector<TransferEntry> of(const TransferLog& log, TransferKind kind) {
  std::vector<TransferEntry> list = log.entries();
  std::erase_if(list, [&](const TransferEntry& e) { return e.kind != kind; });
  return list;
}

void expect_line(const TransferEntry& e, unsigned line) {
  ASSERT_NE(e.caller.file, nullptr);
  EXPECT_THAT(e.caller.file, HasSubstr("transfer_log_test.cc"));
  EXPECT_EQ(e.caller.line, line);
}

// A context with separate memory if there is one.
Context elsewhere() { return num_gpus() > 0 ? gpu(0) : cpu(1); }

TEST(TransferLog, IsEmptyAtFirst) {
  const TransferLog log;
  const Tensor x = ones({4, 4});
  x.sum().item<float>();  // host memory: no copy, no wait
  EXPECT_TRUE(log.entries().empty());
  EXPECT_EQ(log.table(), "No copies between contexts, and no waits of the host.\n");
}

TEST(TransferLog, ReplayedCopiesAreOfTheLineThatAskedForThem) {
  LOCUS_NEEDS_ANY_GPUS(2);
  const Tensor x = ones({1000}, gpu(0));
  const unsigned line = __LINE__ + 1;
  Compiled f([](const Tensors& in) { return Tensors{in[0].as_in_context(gpu(1)) + 1}; });
  f({x});
  const TransferLog log;
  for (int i = 0; i < 3; ++i) f({x});
  const std::vector<TransferEntry> copies = of(log, TransferKind::copy);
  ASSERT_EQ(copies.size(), 1u);
  EXPECT_EQ(copies[0].count, 3u);
  EXPECT_EQ(copies[0].bytes, 12000u);
  expect_line(copies[0], line);
}

TEST(TransferLog, ReplayedCopiesBetweenContextsOfTheHostAreOfTheLineThatAskedForThem) {
  const Tensor x = ones({1000}, cpu(0));
  const unsigned line = __LINE__ + 1;
  Compiled f([](const Tensors& in) { return Tensors{in[0].T().as_in_context(cpu(1)) + 1}; });
  f({x});
  const TransferLog log;
  for (int i = 0; i < 3; ++i) f({x});
  const std::vector<TransferEntry> copies = of(log, TransferKind::copy);
  ASSERT_EQ(copies.size(), 1u);
  EXPECT_EQ(copies[0].count, 3u);
  EXPECT_EQ(copies[0].bytes, 12000u);
  EXPECT_EQ(copies[0].from, cpu(0));
  EXPECT_EQ(copies[0].to, cpu(1));
  expect_line(copies[0], line);
}

TEST(TransferLog, CountsCopiesByLine) {
  const Context there = elsewhere();
  const Tensor x = ones({4, 8}), y = ones({3}, {cpu(), f64});
  const TransferLog log;
  const unsigned line = __LINE__ + 1;
  for (int i = 0; i < 5; ++i) x.copyto(there);
  y.as_in_context(there);
  y.as_in_context(cpu());  // there already
  x.copyto(cpu());         // not between contexts
  auto copies = of(log, TransferKind::copy);
  ASSERT_EQ(copies.size(), 2u);
  std::sort(copies.begin(), copies.end(),
            [](const auto& a, const auto& b) { return a.caller.line < b.caller.line; });
  EXPECT_EQ(copies[0].from, cpu());
  EXPECT_EQ(copies[0].to, there);
  EXPECT_EQ(copies[0].count, 5u);
  EXPECT_EQ(copies[0].bytes, 5u * 4 * 8 * 4);
  EXPECT_EQ(copies[0].emulated, test::emulated_gpus());
  expect_line(copies[0], line);
  EXPECT_EQ(copies[1].count, 1u);
  EXPECT_EQ(copies[1].bytes, 3u * 8);
  expect_line(copies[1], line + 1);
}

TEST(TransferLog, GradientsGoBackOnTheSameLine) {
  const Context there = elsewhere();
  const Tensor x = ones({6});
  x.attach_grad();
  Tensor y;
  const TransferLog log;
  const unsigned line = __LINE__ + 3;
  {
    const autograd::Record record;
    y = (x.copyto(there) * 2).sum();
  }
  y.backward();
  const auto copies = of(log, TransferKind::copy);
  ASSERT_EQ(copies.size(), 2u);
  for (const TransferEntry& e : copies) {
    EXPECT_EQ(e.bytes, 24u);
    expect_line(e, line);
  }
  EXPECT_EQ(copies[0].from, copies[1].to);
}

TEST(TransferLog, CountsBytesAsSent) {
  const Context there = elsewhere();
  const Tensor x = ones({10, 10}), into = zeros({10, 10}, {there, f16});
  const TransferLog log;
  x.copyto(into);
  const auto copies = of(log, TransferKind::copy);
  ASSERT_EQ(copies.size(), 1u);
  EXPECT_EQ(copies[0].bytes, 200u);
}

TEST(TransferLog, NamesWhatTheHostWaitsIn) {
  LOCUS_NEEDS_ANY_GPUS(1);
  const Tensor x = ones({100}, gpu(0)), pinned = ones({100}, cpu_pinned());
  wait_all();
  const TransferLog log;
  std::ostringstream os;
  const unsigned line = __LINE__ + 1;
  for (int i = 0; i < 3; ++i) x.sum().item<float>();
  x.to_vector<float>();
  os << x;
  x.wait_to_read();
  wait_all();
  x.copyto(cpu());
  pinned.copyto(gpu(0), {.blocking = false});
  Stream side(gpu(0));
  Event event = side.record();
  event.wait();
  side.synchronize();
  const std::pair<TransferKind, unsigned> expected[] = {
      {TransferKind::item, 0},         {TransferKind::to_vector, 1}, {TransferKind::print, 2},
      {TransferKind::wait_to_read, 3}, {TransferKind::wait_all, 4},  {TransferKind::copyto, 5},
      {TransferKind::event, 9},        {TransferKind::stream, 10}};
  for (const auto& [kind, offset] : expected) {
    auto waits = of(log, kind);
    std::erase_if(waits, [](const TransferEntry& e) { return e.from != gpu(0); });
    ASSERT_EQ(waits.size(), 1u) << name(kind);
    EXPECT_EQ(waits[0].count, kind == TransferKind::item ? 3u : 1u) << name(kind);
    EXPECT_EQ(waits[0].to, cpu());
    EXPECT_EQ(waits[0].bytes, kind == TransferKind::item ? 12u
                              : kind == TransferKind::to_vector || kind == TransferKind::print ||
                                      kind == TransferKind::copyto
                                  ? 400u
                                  : 0u)
        << name(kind);
    expect_line(waits[0], line + offset);
  }
}

TEST(TransferLog, BlockingAndPinned) {
  LOCUS_NEEDS_ANY_GPUS(1);
  const Tensor pageable = ones({1000}), pinned = ones({1000}, cpu_pinned());
  const TransferLog log;
  pinned.copyto(gpu(0), {.blocking = false});
  EXPECT_TRUE(of(log, TransferKind::copyto).empty());
  pinned.copyto(gpu(0));
  pageable.copyto(gpu(0));
  EXPECT_EQ(of(log, TransferKind::copyto).size(), 2u);
  EXPECT_EQ(of(log, TransferKind::copy).size(), 3u);
}

TEST(TransferLog, BetweenGpus) {
  LOCUS_NEEDS_ANY_GPUS(2);
  const Tensor x = ones({256}, gpu(0));
  const TransferLog log;
  const Tensor y = x.copyto(gpu(1));
  const auto list = log.entries();
  ASSERT_EQ(list.size(), 1u);
  EXPECT_EQ(list[0].from, gpu(0));
  EXPECT_EQ(list[0].to, gpu(1));
  EXPECT_EQ(list[0].bytes, 1024u);
}

TEST(TransferLog, Nests) {
  const Context there = elsewhere();
  const Tensor x = ones({8});
  const auto count = [](const TransferLog& log) {
    uint64_t n = 0;
    for (const TransferEntry& e : of(log, TransferKind::copy)) n += e.count;
    return n;
  };
  TransferLog outer;
  x.copyto(there);
  {
    TransferLog inner;
    x.copyto(there);
    EXPECT_EQ(count(inner), 1u);
    inner.clear();
    EXPECT_EQ(count(inner), 0u);
    x.copyto(there);
    x.copyto(there);
    EXPECT_EQ(count(inner), 2u);
  }
  x.copyto(there);
  EXPECT_EQ(count(outer), 5u);
}

TEST(TransferLog, SeesAllThreads) {
  const Context there = elsewhere();
  const TransferLog log;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      const Tensor x = ones({16});
      for (int i = 0; i < 100; ++i) {
        const Tensor y = x.copyto(there);
        if (i % 10 == 0) log.entries();
      }
    });
  for (std::thread& t : threads) t.join();
  const auto copies = of(log, TransferKind::copy);
  ASSERT_EQ(copies.size(), 1u);
  EXPECT_EQ(copies[0].count, 400u);
  EXPECT_EQ(copies[0].bytes, 400u * 64);
}

TEST(TransferLog, NothingIsLostInALongRun) {
  const Context there = elsewhere();
  const Tensor x = ones({2}, cpu_pinned());
  const TransferLog log;
  for (int i = 0; i < 3000; ++i) x.copyto(there, {.blocking = false});
  const auto copies = of(log, TransferKind::copy);
  ASSERT_EQ(copies.size(), 1u);
  EXPECT_EQ(copies[0].count, 3000u);
}

TEST(TransferLog, TheCostliestComesFirst) {
  const Context there = elsewhere();
  const TransferLog log;
  ones({1 << 20}).copyto(there);
  ones({4}).copyto(there);
  ones({1 << 10}).copyto(there).to_vector<float>();
  const auto list = log.entries();
  ASSERT_GE(list.size(), 2u);
  EXPECT_GT(list[0].seconds, 0);
  EXPECT_TRUE(std::is_sorted(list.begin(), list.end(),
                             [](const auto& a, const auto& b) { return a.seconds > b.seconds; }));
}

// Copies and waits on the user's behalf name the user's line.
void expect_lines(const TransferLog& log, std::initializer_list<unsigned> lines) {
  std::vector<unsigned> found;
  for (const TransferEntry& e : log.entries()) {
    expect_line(e, e.caller.line);
    if (std::count(found.begin(), found.end(), e.caller.line) == 0) found.push_back(e.caller.line);
  }
  EXPECT_THAT(found, testing::UnorderedElementsAreArray(lines));
}

TEST(TransferLog, ParametersAreUploadedOnTheLineThatInitializes) {
  const Context there = elsewhere();
  nn::Sequential net;
  net.add(nn::Dense(4, nn::relu, {.in_units = 3}), nn::Dense(2));
  const Tensor x = ones({5, 3}, there);
  const TransferLog log;
  const unsigned line = __LINE__ + 1;
  net.initialize(init::Xavier(), there);
  net(x);  // the last layer's weight gets its shape and memory here
  expect_lines(log, {line});
  EXPECT_EQ(net.parameter("1.weight").data().context(), there);
}

TEST(TransferLog, LoadersNameTheirMakerAndTheirLoop) {
  LOCUS_NEEDS_ANY_GPUS(1);
  const data::Dataset set(ones({6, 3}), zeros({6}));
  const TransferLog log;
  const unsigned line = __LINE__ + 1;
  data::DataLoader loader(set, {.batch_size = 2, .context = gpu(0)});
  for (auto [image, label] : loader) EXPECT_EQ(image.context(), gpu(0));
  expect_lines(log, {line, line + 1});
}

TEST(TransferLog, PrefetchedBatchesNameTheLoop) {
  LOCUS_NEEDS_ANY_GPUS(1);
  const data::Dataset set(ones({6, 3}, gpu(0)), zeros({6}));
  const TransferLog log;
  const unsigned line = __LINE__ + 1;
  data::Prefetcher loader(set, {.batch_size = 2, .context = gpu(0)});
  for (auto [image, label] : loader) EXPECT_EQ(image.context(), gpu(0));
  expect_lines(log, {line, line + 1});
}

TEST(TransferLog, ATrainerAddsUpGradientsOnTheLineOfItsStep) {
  std::vector<Contexts> all{{cpu(0), cpu(1)}};
  if (num_gpus() >= 2) all.emplace_back(gpus(2));
  for (const Contexts& places : all) {
    nn::Dense layer(2, {}, {.in_units = 3});
    layer.initialize(init::One(), places);
    nn::Trainer trainer(layer.parameters(), optim::SGD({.learning_rate = 0.1}));
    for (const Context& c : places) {
      const Tensor x = ones({1, 3}, c);
      Tensor y;
      {
        const autograd::Record record;
        y = layer(x).sum();
      }
      y.backward();
    }
    const TransferLog log;
    const unsigned line = __LINE__ + 1;
    trainer.step(2);
    expect_lines(log, {line});
  }
}

TEST(TransferLog, FilesAreReadOntoTheContextOnTheLineThatLoads) {
  LOCUS_NEEDS_ANY_GPUS(1);
  const test::Folder folder;
  const std::string path = folder / "log.params";
  save(path, {{"a", ones({3})}, {"b", ones({2})}});
  const TransferLog log;
  const unsigned line = __LINE__ + 1;
  load(path, gpu(0));
  expect_lines(log, {line});
}

TEST(TransferLog, IndexingByMasksWaitsOnItsLine) {
  LOCUS_NEEDS_ANY_GPUS(1);
  const Tensor x = arange(12, gpu(0)).reshape({3, 4}), mask = arange(3, gpu(0)) > 0;
  const Tensor columns = arange(4, gpu(0)) > 1, two = array({0, 1}, gpu(0));
  wait_all();
  const TransferLog log;
  const unsigned line = __LINE__ + 1;
  Tensor a = x[mask];
  a = x(mask, Slice());
  a = x(Slice(), columns);
  a = x(two, columns);
  x(mask, 0) += 1;
  x(Slice(0, 2)) = x(mask, Slice());
  const Tensors where = nonzero(x);
  expect_lines(log, {line, line + 1, line + 2, line + 3, line + 4, line + 5, line + 6});
}

TEST(TransferLog, AssignmentIntoPinnedMemoryNamesItsLine) {
  const Tensor pinned = zeros({2, 3}, cpu_pinned()), row = ones({3}), rows = ones({2, 3});
  const TransferLog log;
  const unsigned line = __LINE__ + 1;
  pinned(Slice()) = rows;
  pinned(Slice()) = row;
  expect_lines(log, {line, line + 1});
}

// LOCUS_TRANSFERS is read once per process.
TEST(TransferEnvironmentDeathTest, PrintsAtTheEndOfAnyProgram) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  const auto program = [] {
    ones({2}).copyto(elsewhere());
    std::exit(0);
  };
  setenv("LOCUS_TRANSFERS", "summary", 1);
  EXPECT_EXIT(program(), testing::ExitedWithCode(0), "what .*copy .*cpu.0. .*8 B.*Costliest");
  setenv("LOCUS_TRANSFERS", "full", 1);
  EXPECT_EXIT(program(), testing::ExitedWithCode(0), "locus: copy cpu.0. to .*8 bytes.*Costliest");
  setenv("LOCUS_TRANSFERS", "loud", 1);
  EXPECT_EXIT(
      {
        try {
          ones({2});
        } catch (const Error& e) {
          std::fputs(e.what(), stderr);
          std::exit(3);
        }
      },
      testing::ExitedWithCode(3), "LOCUS_TRANSFERS=loud: expected summary or full");
  unsetenv("LOCUS_TRANSFERS");
}

}  // namespace
