#include <locus/core/base/lru.h>

#include <gtest/gtest.h>

#include <memory>

namespace locus {
namespace {

using Key = std::array<int64_t, 2>;

TEST(Lru, WhatWasUsedLongestAgoMakesRoom) {
  Lru<Key, int, HashNumbers> table(2);
  EXPECT_EQ(table.find({1, 0}), nullptr);
  EXPECT_EQ(table.put({1, 0}, 10), 0);
  EXPECT_EQ(table.put({0, 1}, 20), 0);
  EXPECT_EQ(*table.find({1, 0}), 10);
  EXPECT_EQ(table.put({2, 2}, 30), 20);
  EXPECT_EQ(table.find({0, 1}), nullptr);
  EXPECT_EQ(*table.find({1, 0}), 10);
  EXPECT_EQ(*table.find({2, 2}), 30);
  EXPECT_EQ(table.put({1, 0}, 11), 10);
  EXPECT_EQ(table.size(), 2u);
  table.clear();
  EXPECT_EQ(table.size(), 0u);
  EXPECT_EQ(table.find({1, 0}), nullptr);
}

TEST(Lru, WhatMakesRoomLivesWithWhoeverHasIt) {
  Lru<Key, std::shared_ptr<int>, HashNumbers> table(1);
  table.put({1, 1}, std::make_shared<int>(5));
  const std::shared_ptr<int> held = *table.find({1, 1});
  EXPECT_EQ(table.put({2, 2}, nullptr), held);
  EXPECT_EQ(*held, 5);
  EXPECT_EQ(held.use_count(), 1);
}

}  // namespace
}  // namespace locus
