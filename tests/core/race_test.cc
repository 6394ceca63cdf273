// Many threads and streams on all contexts. The tests check values; -DLOCUS_SANITIZE=thread checks
// the code.
#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>

#include <locus/core/capture.h>
#include <locus/core/stream.h>
#include <locus/core/tensor.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include "tests/support/contexts.h"
#include "tests/support/slow.h"

namespace locus::test {
namespace {

using testing::Each;

constexpr int kThreads = 8;

// Runs body(thread, random) on kThreads threads; `random()` is a separate sequence per thread.
template <class F>
void on_threads(F&& body) {
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([t, &body] {
      uint32_t state = 12345u + 7919u * static_cast<uint32_t>(t);
      const auto random = [&state](size_t n) {
        state = state * 1664525u + 1013904223u;
        return (state >> 16) % n;
      };
      try {
        body(t, random);
      } catch (const std::exception& e) {
        ADD_FAILURE() << "thread " << t << ": " << e.what();
      }
    });
  for (std::thread& t : threads) t.join();
}

// Each thread moves its tensor between contexts and changes it there, on private and common
// streams.
TEST(Race, EveryThreadCarriesItsTensorAround) {
  const std::vector<Context> places = distinct_contexts();
  on_threads([&](int t, auto& random) {
    std::vector<Stream> own;
    for (Context c : places) own.emplace_back(c);
    Tensor x = full({512}, t);
    double wanted = t;
    for (int i = 0; i < 150; ++i) {
      const size_t at = random(places.size());
      x = x.copyto(places[at]);
      std::optional<StreamScope> on;
      if (random(2) == 0) on.emplace(own[at]);
      if (random(4) == 0) delay(current_stream(places[at]));
      x += 1;
      ++wanted;
      if (i % 10 == 0) {
        EXPECT_THAT(values(x), Each(wanted));
      }
    }
    EXPECT_THAT(values(x), Each(wanted)) << "thread " << t;
  });
}

// All threads read the same tensors on private streams, while the last handle of some is dropped.
TEST(Race, AllThreadsReadTheSameTensors) {
  const std::vector<Context> places = contexts();
  for (int round = 0; round < 5; ++round) {
    Tensors shared;
    for (Context c : places) {
      Stream writer(c);
      const StreamScope on(writer);
      shared.push_back(zeros({1024}, c));
      delay(writer.view());
      shared.back() += 5;
    }
    on_threads([&](int, auto& random) {
      Tensors mine = shared;
      std::vector<Stream> own;
      for (Context c : places) own.emplace_back(c);
      for (int i = 0; i < 40; ++i) {
        const size_t from = random(mine.size()), to = random(mine.size());
        const StreamScope on(own[to]);
        if (random(3) == 0) delay(own[to].view());
        const Tensor there = mine[from].copyto(places[to]) * 2;
        const Tensor here = mine[to] + 1;
        if (i % 8 == 0) {
          EXPECT_THAT(values(there), Each(10.0));
          EXPECT_THAT(values(here), Each(6.0));
        }
      }
    });
    for (Tensor& x : shared) x += 1;  // after every read
    for (const Tensor& x : shared) EXPECT_THAT(values(x), Each(6.0));
  }
}

// Tensors go from thread to thread with queued work. The order belongs to the tensor, not the
// thread.
TEST(Race, TensorsAreHandedOverWithTheirPendingWork) {
  struct Item {
    Tensor x;
    double wanted;
    int hops;
  };
  std::mutex mutex;
  std::condition_variable more;
  std::deque<Item> queue;
  int left = 64;
  const std::vector<Context> places = contexts();
  for (int i = 0; i < left; ++i)
    queue.push_back({full({256}, i, places[static_cast<size_t>(i) % places.size()]), double(i), 0});
  on_threads([&](int, auto& random) {
    std::vector<Stream> own;
    for (Context c : places) own.emplace_back(c);
    for (;;) {
      Item item;
      {
        std::unique_lock lock(mutex);
        more.wait(lock, [&] { return !queue.empty() || left == 0; });
        if (left == 0) return;
        item = std::move(queue.front());
        queue.pop_front();
      }
      const size_t at = random(places.size());
      const StreamScope on(own[at]);
      if (item.x.context() == places[at]) {
        if (random(2) == 0) delay(own[at].view());
        item.x *= 2;
        item.wanted *= 2;
      } else {
        const Tensor there = item.x.copyto(places[at]);
        item.x += 100;  // while it is read
        item.wanted = item.wanted + 100;
        EXPECT_THAT(values(there + 100), Each(item.wanted));
      }
      if (item.wanted > 1e5) {
        item.x(Slice()) = 1;
        item.wanted = 1;
      }
      const bool done = ++item.hops == 12;
      if (done) {
        EXPECT_THAT(values(item.x), Each(item.wanted));
      }
      const std::lock_guard lock(mutex);
      if (!done) {
        queue.push_back(std::move(item));
      } else if (--left > 0) {
        continue;
      }
      more.notify_all();
    }
  });
}

// Several threads copy pageable memory to and from the same devices.
TEST(Race, LargePageableCopiesByManyThreads) {
  LOCUS_NEEDS_ANY_GPUS(1);
  const std::vector<Context> devices = gpus(num_gpus());
  on_threads([&](int t, auto& random) {
    for (int i = 0; i < 12; ++i) {
      const int64_t n = int64_t{1} << (10 + random(11));
      const Tensor h = full({n}, t * 100 + i);
      const Tensor d = h.copyto(devices[random(devices.size())]);
      const Tensor back = zeros({n});
      d.copyto(back);
      const std::vector<float> got = back.to_vector<float>();
      EXPECT_EQ(std::count(got.begin(), got.end(), float(t * 100 + i)), n);
    }
  });
}

// The host waits for all streams except those in a capture.
TEST(Race, SomeCaptureWhileOthersWaitForEverything) {
  LOCUS_NEEDS_ANY_GPUS(1);
  const Context c = gpu(0);
  on_threads([&](int t, auto&) {
    for (int i = 0; i < 40; ++i) {
      if (t % 2 == 0) {
        wait_all();
        continue;
      }
      const Tensor x = full({64}, t, c);
      Capture capture(c);
      const Tensor y = x + 1;
      Graph graph = capture.end();
      graph.replay();
      EXPECT_THAT(values(y), Each(t + 1.0));
    }
  });
}

TEST(Race, StreamsComeAndGo) {
  for (Context c : contexts()) {
    on_threads([&](int t, auto&) {
      Tensor x = full({128}, t, c);
      for (int i = 0; i < 40; ++i) {
        Stream s(c);
        const StreamScope on(s);
        x = x + 1;
        if (t % 2 == 0) wait_all();  // while others close streams
      }
      EXPECT_THAT(values(x), Each(40.0 + t)) << c;
    });
  }
}

}  // namespace
}  // namespace locus::test
