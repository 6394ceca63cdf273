// A KVStore's optimizer and updater: states, counts, and updates that fail.
#include <locus/nn/kvstore.h>
#include <locus/ops/elementwise.h>
#include "tests/support/folder.h"
#include "tests/train/training.h"

namespace locus::test {
namespace {

using kvstore::Key;
using testing::HasSubstr;
using Values = std::vector<double>;

Tensor two(double v, const Shape& shape = {2}) { return full(shape, v); }
Values pulled(kvstore::KVStore& kv, const Key& key, const Shape& shape = {2}) {
  const Tensor out = zeros(shape);
  kv.pull(key, out);
  return values(out);
}

TEST(KVStoreStates, LoadedStatesBringTheirNumbersOfUpdates) {
  const Folder folder;
  const std::string path = folder / "kvstore.states";
  const auto kv = kvstore::create("device");
  kv->set_optimizer(optim::Adam());
  kv->init({"a", "b"}, {two(1), two(1)});
  for (int i = 0; i < 2; ++i) kv->push("a", two(1));
  kv->save_optimizer_states(path);
  kv->push("a", two(1));
  kv->push("b", two(1));
  EXPECT_EQ(kv->num_update("a"), 3);
  EXPECT_EQ(kv->num_update("b"), 1);
  EXPECT_EQ(kv->optimizer()->num_update(), 3);
  kv->load_optimizer_states(path);
  EXPECT_EQ(kv->num_update("a"), 2);
  EXPECT_EQ(kv->num_update("b"), 0);
  EXPECT_EQ(kv->optimizer()->num_update(), 2);
  EXPECT_THROW(kv->num_update("c"), ValueError);
}

TEST(KVStoreStates, AreTheStoresOwnAndTheirNumbersAreCopies) {
  const auto kv = kvstore::create("device");
  kv->set_optimizer(optim::SGD({.learning_rate = 1, .momentum = .5}));
  kv->init("a", two(0));
  kv->push("a", two(2));
  const NamedTensors states = kv->optimizer_states();
  const Tensor &momentum = *find_in(states, "a/mom"), &count = *find_in(states, "a/count");
  EXPECT_EQ(values(momentum), Values(2, -2));
  kv->push("a", two(2));
  EXPECT_EQ(values(momentum), Values(2, -3));
  EXPECT_EQ(values(count), Values(1, 1));
}

TEST(KVStoreStates, ThatDoNotFitChangeNothing) {
  const auto kv = kvstore::create("device");
  kv->set_optimizer(optim::SGD({.learning_rate = 1, .momentum = .5}));
  kv->init("a", two(0));
  NamedTensors states;
  for (const auto& [name, t] : kv->optimizer_states()) states.emplace_back(name, t.copyto(cpu()));
  kv->push("a", two(2));
  states.emplace_back("b/mom", two(0));
  EXPECT_THROW(kv->set_optimizer_states(states), FormatError);
  states.pop_back();
  states.back().second = states.back().second.astype(f64);
  EXPECT_THROW(kv->set_optimizer_states(states), DTypeError);
  EXPECT_EQ(kv->num_update("a"), 1);
  kv->push("a", two(2));
  EXPECT_EQ(pulled(*kv, "a"), Values(2, -5));
}

TEST(KVStoreStates, ANewOptimizerStartsThemAnewAndKeepsMultipliers) {
  const auto kv = kvstore::create("local");
  const optim::SGD sgd({.learning_rate = 1, .momentum = .5});
  kv->set_optimizer(sgd);
  kv->init("a", two(0));
  kv->set_multipliers("a", .5, 1);
  kv->push("a", two(2));
  EXPECT_EQ(pulled(*kv, "a"), Values(2, -1));
  kv->set_optimizer(sgd);
  EXPECT_EQ(kv->num_update("a"), 0);
  kv->push("a", two(2));  // without momentum, by the multiplier
  EXPECT_EQ(pulled(*kv, "a"), Values(2, -2));
  kv->set_value("a", two(0, {3}));
  EXPECT_EQ(kv->num_update("a"), 0);
  kv->push("a", two(2, {3}));
  EXPECT_EQ(pulled(*kv, "a", {3}), Values(3, -1));
}

TEST(KVStoreStates, AnUpdaterTakesTheOptimizersPlaceAndViceVersa) {
  const auto kv = kvstore::create("local");
  kv->init("a", two(0));
  kv->set_optimizer(optim::SGD({.learning_rate = 1}));
  kv->set_updater([](const Key&, const Tensor& merged, Tensor& stored) { stored += merged; });
  EXPECT_EQ(kv->optimizer(), nullptr);
  kv->push("a", two(2));
  EXPECT_EQ(pulled(*kv, "a"), Values(2, 2));
  EXPECT_THROW(kv->set_optimizer(optim::SGD({.learning_rate = 1}), -1), ValueError);
  EXPECT_THROW(kv->set_optimizer(std::shared_ptr<optim::Optimizer>()), Error);
  kv->push("a", two(2));  // the updater is still there
  EXPECT_EQ(pulled(*kv, "a"), Values(2, 4));
  kv->set_optimizer(optim::SGD({.learning_rate = 1}));
  kv->push("a", two(1));
  EXPECT_EQ(pulled(*kv, "a"), Values(2, 3));
  kv->set_updater({});
  EXPECT_FALSE(kv->updates());
  kv->push("a", two(7));
  EXPECT_EQ(pulled(*kv, "a"), Values(2, 7));
}

TEST(KVStoreStates, IfAKeysUpdateFailsEarlierKeysAreUpdatedAndLaterKeysAreNot) {
  for (const char* const type : {"device", "dist_sync"}) {
    const auto kv = kvstore::create(type);
    const kvstore::Keys keys{"c", "b", "a"};
    kv->init(keys, Tensors(3, two(0)));
    kv->set_updater([](const Key& key, const Tensor& merged, Tensor& stored) {
      if (key == "b") throw ValueError("no");
      stored += merged;
    });
    EXPECT_THROW(kv->push(keys, std::vector<Tensors>(3, {two(5)})), ValueError);
    EXPECT_EQ(pulled(*kv, "c"), Values(2, 5));
    EXPECT_EQ(pulled(*kv, "b"), Values(2, 0));
    EXPECT_EQ(pulled(*kv, "a"), Values(2, 0));
    kv->push("a", two(5));
    EXPECT_EQ(pulled(*kv, "a"), Values(2, 5));
  }
}

TEST(KVStoreStates, APushFromContextsOfTwoKindsIsRefused) {
  LOCUS_NEEDS_ANY_GPUS(1);
  const Tensors mixed{two(5), two(5).copyto(gpu(0))};
  const auto device = kvstore::create("device"), local = kvstore::create("local");
  for (const auto& kv : {device, local}) kv->init("a", two(1));
  EXPECT_THROW(device->push("a", mixed), ContextMismatch);
  EXPECT_EQ(pulled(*device, "a"), Values(2, 1));
  local->push("a", mixed);
  EXPECT_EQ(pulled(*local, "a"), Values(2, 10));
}

TEST(KVStoreStates, AKeyIsANumberOf64BitsWithSign) {
  EXPECT_EQ(kvstore::Key(uint64_t{INT64_MAX}).text(), "9223372036854775807");
  EXPECT_THROW(kvstore::Key(UINT64_MAX), ValueError);
}

}  // namespace
}  // namespace locus::test
