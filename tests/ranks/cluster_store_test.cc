// Dist stores after an updater or an optimizer failed on one rank.
#include <locus/core/cluster.h>
#include <locus/nn/kvstore.h>
#include <locus/ops/elementwise.h>
#include "tests/ranks/ranks.h"

namespace locus::test::ranks {
namespace {

using testing::AllOf;
using testing::HasSubstr;

bool other() { return cluster::rank() == 1; }

std::vector<double> pulled(kvstore::KVStore& kv, const char* key) {
  const Tensor out = zeros({2});
  kv.pull(key, out);
  return values(out);
}
std::vector<double> two(double v) { return std::vector<double>(2, v); }

TEST_F(ClusterRanks, AnUpdaterThatFailedOnOneIsFoundByTheNextPush) {
  const int n = cluster::size();
  const auto kv = kvstore::create("dist_sync");
  const kvstore::Keys keys{"a", "b", "c"};
  kv->init(keys, Tensors(3, zeros({2})));
  bool fails = other();
  kv->set_updater([&](const kvstore::Key& key, const Tensor& merged, Tensor& stored) {
    if (fails && key == "b") throw ValueError("no");
    stored += merged;
  });
  const std::vector<Tensors> each(3, Tensors{ones({2})});
  if (other())
    EXPECT_EQ(message_of<ValueError>([&] { kv->push(keys, each); }).substr(0, 2), "no");
  else
    kv->push(keys, each);
  fails = false;
  EXPECT_EQ(pulled(*kv, "a"), two(n));
  for (const char* const key : {"b", "c"}) {
    EXPECT_THAT(message_of<Error>([&] { kv->push(key, ones({2})); }),
                AllOf(HasSubstr("calls differ"),
                      HasSubstr(text_of("KVStore::push, after failed updates of ", key, ", of ")),
                      HasSubstr(text_of("for KVStore::push of ", key))));
    EXPECT_EQ(pulled(*kv, key), two(other() ? 0 : n));
  }
  kv->push("a", ones({2}));  // its updates did not fail
  EXPECT_EQ(pulled(*kv, "a"), two(2 * n));
  for (const char* const key : {"b", "c"}) kv->set_value(key, ones({2}));
  kv->push(keys, each);
  EXPECT_EQ(pulled(*kv, "b"), two(1 + n));
  EXPECT_EQ(pulled(*kv, "c"), two(1 + n));
}

TEST_F(ClusterRanks, AnUpdaterThatFailedOnAllIsNotHeldAgainstThem) {
  const auto kv = kvstore::create("dist_sync");
  kv->init("a", zeros({2}));
  bool fails = true;
  kv->set_updater([&](const kvstore::Key&, const Tensor& merged, Tensor& stored) {
    if (fails) throw ValueError("no");
    stored += merged;
  });
  EXPECT_THROW(kv->push("a", ones({2})), ValueError);
  fails = false;
  kv->push("a", ones({2}));
  EXPECT_EQ(pulled(*kv, "a"), two(cluster::size()));
}

struct Failing : optim::SGD {
  using SGD::SGD;
  bool fails = false;
  void update(optim::ParameterGroup& group, double rescale) override {
    if (fails) throw OutOfMemory("no memory");
    SGD::update(group, rescale);
  }
};

TEST_F(ClusterRanks, AnOptimizerThatFailedOnOneIsFoundByTheNextPush) {
  const int n = cluster::size();
  const auto kv = kvstore::create("dist_sync");
  kv->init("w", zeros({2}));
  const auto sgd = std::make_shared<Failing>(optim::SGDOptions{.learning_rate = 1, .momentum = .5});
  kv->set_optimizer(sgd);
  kv->push("w", ones({2}));
  sgd->fails = other();
  if (other())
    EXPECT_THROW(kv->push("w", ones({2})), OutOfMemory);
  else
    kv->push("w", ones({2}));
  sgd->fails = false;
  EXPECT_EQ(kv->num_update("w"), other() ? 1 : 2);
  const auto refused = [&] {
    EXPECT_THAT(message_of<Error>([&] { kv->push("w", ones({2})); }),
                AllOf(HasSubstr("calls differ"), HasSubstr("after 2 updates"),
                      HasSubstr("after 1 updates")));
  };
  refused();
  EXPECT_EQ(pulled(*kv, "w"), two(other() ? -n : -2.5 * n));
  kv->set_value("w", zeros({2}));
  refused();  // states and numbers of updates still differ
  kv->set_optimizer(sgd);
  EXPECT_THAT(message_of<Error>([&] { kv->push("w", ones({2})); }),
              AllOf(HasSubstr("num_update 2"), HasSubstr("num_update 1")));
  kv->set_optimizer(std::make_shared<optim::SGD>(optim::SGDOptions{.learning_rate = 1}));
  kv->push("w", ones({2}));
  EXPECT_EQ(pulled(*kv, "w"), two(-n));
}

}  // namespace
}  // namespace locus::test::ranks
