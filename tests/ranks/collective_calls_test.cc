// What calls of collectives return, refuse and leave unchanged.
#include <locus/ops/collective.h>

#include <locus/core/autograd.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include "tests/ranks/groups.h"

namespace locus::test {
namespace {

using Values = std::vector<double>;

Tensors tenths(const Group& g) {
  Tensors parts;
  for (int i = 0; i < g.size(); ++i) parts.push_back(full({1003}, .1 * (i + 1), g[i]));
  return parts;
}

TEST(CollectiveCalls, ReturnTheirTargets) {
  for (const Group& g : groups()) {
    const Tensors parts = tenths(g);
    EXPECT_TRUE(all_reduce(g, parts, {.out = parts})[0].is(parts[0])) << to_string(g);
  }
}

TEST(CollectiveCalls, RefuseEmptyTensors) {
  const Group g(hosts(2));
  EXPECT_THROW(send_recv(g, {Tensor(), ones({2}, cpu(1))}, {1, -1}), EmptyTensor);
}

TEST(CollectiveCalls, OfManyTensorsWriteNothingIfOneIsRefused) {
  for (const auto& where : places(2)) {
    const Group g(where);
    const std::vector<Tensors> all{{ones({2}, g[0]), ones({2}, g[1])},
                                   {ones({2}, g[0]), ones({3}, g[1])}};
    EXPECT_THROW(all_reduce_many(g, all), ShapeError);
    EXPECT_EQ(values(all[0][0]), Values(2, 1));
  }
}

TEST(CollectiveCalls, OfManyTensorsRefuseWhatIsRecorded) {
  for (const auto& where : places(2)) {
    const Group g(where);
    const std::vector<Tensors> all{{ones({2}, g[0]), ones({2}, g[1])}};
    all[0][0].attach_grad();
    const autograd::Record record;
    EXPECT_THROW(all_reduce_many(g, all), Error);
    EXPECT_EQ(values(all[0][0].detach()), Values(2, 1));
  }
}

TEST(CollectiveCalls, ReduceManyHasTheBitsOfAllReduceMany) {
  for (const auto& where : fours()) {
    const Group g(where);
    const std::vector<Tensors> a{tenths(g)}, b{tenths(g)};
    const std::vector<int> roots{1};
    all_reduce_many(g, a);
    reduce_many(g, b, roots);
    EXPECT_EQ(values(b[0][1]), values(a[0][1])) << to_string(g);
  }
}

}  // namespace
}  // namespace locus::test
