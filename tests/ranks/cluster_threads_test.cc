// Several threads of each rank, and what a rank's ledger sees of collectives.
#include <atomic>
#include <functional>
#include <latch>
#include <thread>

#include <locus/core/cluster.h>
#include <locus/core/transfer_log.h>
#include "tests/ranks/ranks.h"

namespace locus::test::ranks {
namespace {

using testing::HasSubstr;

// All calls are equal, so the threads of two ranks may come in different orders.
TEST_F(ClusterRanks, ThreadsMayCallAtOnce) {
  std::vector<std::thread> threads;
  std::vector<int> wrong(3);
  std::latch all(std::ssize(wrong));
  for (int& mine : wrong)
    threads.emplace_back([&] {
      all.arrive_and_wait();
      for (int round = 0; round < 5; ++round) {
        const Tensor x = ones({1 << 19});  // long enough to overlap
        cluster::all_reduce({x});
        const auto n = static_cast<float>(cluster::size());
        if (min(x).item<float>() != n || max(x).item<float>() != n) ++mine;
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, std::vector<int>(3));
}

TEST_F(ClusterRanks, ACallWaitsForAnotherThreadsCall) {
  const Tensor x = ones({2});
  const std::function<void()> calls[] = {[&] { cluster::all_reduce({x}); },
                                         [&] { cluster::broadcast({x}); },
                                         [] { cluster::barrier(); }};
  for (const auto& call : calls) {
    std::atomic<bool> done = false;
    std::thread other;
    cluster::barrier();
    {
      const MutexLock turn(cluster::turns());
      other = std::thread([&] {
        call();
        done = true;
      });
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      EXPECT_FALSE(done);
    }
    other.join();
  }
  EXPECT_EQ(values(x), std::vector<double>(2, cluster::size()));
}

TEST_F(ClusterRanks, ThreadsThatCallInAnotherOrderOnOneAreAnErrorOfAll) {
  const Tensor x = ones({2});
  const auto said = [](const auto& call) {
    std::string text;
    std::thread([&] { text = message_of<Error>(call); }).join();
    return text;
  };
  const auto sum = [&] { cluster::all_reduce({x}); };
  const auto barrier = [] { cluster::barrier(); };
  const bool other = cluster::rank() == 1;
  const std::string first = other ? said(sum) : said(barrier),
                    second = other ? said(barrier) : said(sum);
  for (const std::string& text : {first, second}) EXPECT_THAT(text, HasSubstr("calls differ"));
  EXPECT_EQ(values(x), std::vector<double>(2, 1));
}

TEST_F(ClusterRanks, TheirLedgerHasNoCopiesBetweenThem) {
  for (const Contexts& where : places()) {
    const Context c = where.list()[0];
    const Tensor x = ones({256}, c);
    TransferLog log;
    cluster::all_reduce({x});
    for (const TransferEntry& e : log.entries()) EXPECT_NE(e.from, e.to);
    EXPECT_EQ(log.entries().empty(), c.type == DeviceType::cpu) << c;
    EXPECT_EQ(values(x), std::vector<double>(256, cluster::size()));
  }
}

}  // namespace
}  // namespace locus::test::ranks
