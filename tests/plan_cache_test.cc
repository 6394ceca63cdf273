#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include <locus/devices/plan_cache.h>

namespace locus {
namespace {

TEST(PlanCacheTest, MakesAPlanOnceAndForgetsTheOneUsedLongestAgo) {
  PlanCache<int, std::string> cache(2);
  int made = 0;
  const auto get = [&](int key) {
    return *cache.get(key, [&] {
      ++made;
      return std::to_string(key);
    });
  };
  EXPECT_EQ(get(1), "1");
  EXPECT_EQ(get(2), "2");
  EXPECT_EQ(get(1), "1");
  EXPECT_EQ(made, 2);
  get(3);  // 2 goes
  get(1);
  EXPECT_EQ(made, 3);
  get(2);
  EXPECT_EQ(made, 4);
}

TEST(PlanCacheTest, APlanInUseOutlivesItsPlaceInTheCache) {
  PlanCache<int, std::string> cache(1);
  const auto plan = cache.get(1, [] { return std::string("one"); });
  cache.get(2, [] { return std::string("two"); });
  EXPECT_EQ(*plan, "one");
}

TEST(PlanCacheTest, ThreadsGetTheSamePlan) {
  PlanCache<int, int> cache(64);
  std::vector<std::thread> threads;
  std::vector<std::shared_ptr<const int>> kept[4];
  for (size_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int key = 0; key < 50; ++key) kept[t].push_back(cache.get(key, [=] { return key; }));
    });
  for (std::thread& t : threads) t.join();
  for (size_t key = 0; key < 50; ++key)
    for (size_t t = 0; t < 4; ++t) {
      EXPECT_EQ(kept[t][key], kept[0][key]);
      EXPECT_EQ(*kept[t][key], static_cast<int>(key));
    }
}

TEST(PlanCacheTest, AFailureIsNotKept) {
  PlanCache<int, int> cache(4);
  EXPECT_THROW(cache.get(1, []() -> int { throw std::string("no algorithm"); }), std::string);
  EXPECT_EQ(*cache.get(1, [] { return 5; }), 5);
}

}  // namespace
}  // namespace locus
