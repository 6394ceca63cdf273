// KVStore against MXNet 1.9.1's results for the same calls.
#include <locus/core/autograd.h>
#include <locus/nn/kvstore.h>
#include <locus/ops/collective.h>
#include "tests/ranks/groups.h"
#include "tests/support/folder.h"
#include "tests/train/training.h"

namespace locus::test {
namespace {

using kvstore::Key;
using testing::HasSubstr;
using testing::StartsWith;
using Values = std::vector<double>;

Tensor full_of(double v, Context c = cpu(), const Shape& shape = {2}, DType d = f32) {
  return full(shape, v, {c, d});
}
Tensors ones_on(const std::vector<Context>& contexts) {
  Tensors all;
  for (Context c : contexts) all.push_back(full_of(1, c));
  return all;
}
// v, 2 v, ... on cpu(0), cpu(1), ...
Tensors rising(int n, double v = 1) {
  Tensors all;
  for (int i = 0; i < n; ++i) all.push_back(full_of(v * (i + 1), cpu(i)));
  return all;
}
Values pulled(kvstore::KVStore& kv, const Key& key) {
  const Tensor out = full_of(-1);
  kv.pull(key, out);
  return values(out);
}

struct KVStoreOf : testing::TestWithParam<const char*> {
  std::shared_ptr<kvstore::KVStore> kv = kvstore::create(GetParam());
};
INSTANTIATE_TEST_SUITE_P(Types, KVStoreOf,
                         testing::Values("local", "device", "nccl", "dist_sync",
                                         "dist_device_sync"),
                         [](const auto& type) { return std::string(type.param); });

TEST_P(KVStoreOf, APushReplacesTheValueByTheSum) {
  EXPECT_EQ(kv->type(), GetParam());
  EXPECT_EQ(kv->rank(), 0);
  EXPECT_EQ(kv->num_workers(), 1);
  kv->barrier();
  kv->init("a", full_of(1));
  EXPECT_EQ(pulled(*kv, "a"), Values(2, 1));
  kv->push("a", rising(4));
  EXPECT_EQ(pulled(*kv, "a"), Values(2, 10));
  kv->push("a", Tensors{full_of(7)});
  kv->push("a", full_of(2, cpu(1)), -1);
  const Tensors outs = rising(4, 0);
  kv->pull("a", outs);
  for (const Tensor& t : outs) EXPECT_EQ(values(t), Values(2, 2));
}

TEST_P(KVStoreOf, PushpullAndBroadcastGiveEachItsValue) {
  kv->init("a", full_of(1));
  const Tensors outs = rising(4, 0), in_place = rising(3);
  kv->pushpull("a", rising(3), outs);
  for (const Tensor& t : outs) EXPECT_EQ(values(t), Values(2, 6));
  EXPECT_EQ(pulled(*kv, "a"), Values(2, 6));
  kv->pushpull("a", in_place);
  for (const Tensor& t : in_place) EXPECT_EQ(values(t), Values(2, 6));
  kv->broadcast("b", full_of(4), outs);
  for (const Tensor& t : outs) EXPECT_EQ(values(t), Values(2, 4));
  EXPECT_THROW(kv->broadcast("b", full_of(9), outs), ValueError);
}

TEST_P(KVStoreOf, TakesListsOfKeys) {
  kv->init({"x", "y"}, {full_of(1), full_of(2)});
  kv->push({"x", "y"}, {{full_of(1), full_of(1, cpu(1))}, {full_of(2), full_of(5, cpu(1))}});
  const Tensor x = full_of(0), y = full_of(0);
  kv->pull({"x", "y"}, {{x}, {y}});
  EXPECT_EQ(values(x), Values(2, 2));
  EXPECT_EQ(values(y), Values(2, 7));
  kv->push({"x", "x"}, {{full_of(3)}, {full_of(4, cpu(1))}});  // one sum
  EXPECT_EQ(pulled(*kv, "x"), Values(2, 7));
  kv->push("x", {full_of(1), full_of(3)});  // of one context
  EXPECT_EQ(pulled(*kv, "x"), Values(2, 4));
}

TEST_P(KVStoreOf, AnUpdaterIsCalledWithTheSum) {  // test_kvstore.py::test_updater
  for (const auto& contexts : fours()) {
    const auto store = kvstore::create(GetParam());
    store->init({3, 5}, {full_of(0, contexts[0]), full_of(1, contexts[0])});
    std::vector<Key> keys;
    store->set_updater([&](const Key& key, const Tensor& merged, Tensor& stored) {
      keys.push_back(key);
      EXPECT_EQ(merged.context(), stored.context());
      stored += merged;
    });
    for (int i = 0; i < 4; ++i) store->push(3, ones_on(contexts));
    EXPECT_EQ(pulled(*store, 3), Values(2, 4. * double(contexts.size())));
    store->pushpull({5}, {ones_on(contexts)});
    EXPECT_EQ(pulled(*store, 5), Values(2, 1. + double(contexts.size())));
    EXPECT_EQ(keys, (std::vector<Key>{3, 3, 3, 3, 5}));
  }
}

TEST_P(KVStoreOf, AnUpdaterWritesIntoWhatItIsGiven) {
  kv->init("x", full_of(1));
  kv->set_updater(
      [](const Key&, const Tensor& merged, Tensor& stored) { stored = stored + merged; });
  EXPECT_THAT(message_of<Error>([&] { kv->push("x", full_of(2)); }),
              testing::AllOf(HasSubstr("x"), HasSubstr("stored += merged")));
  EXPECT_EQ(pulled(*kv, "x"), Values(2, 1));
}

TEST_P(KVStoreOf, WhatWasGivenIsCopied) {
  const Tensor first = full_of(1), second = full_of(2);
  kv->init(0, first);
  full_of(5).copyto(first);
  EXPECT_EQ(pulled(*kv, 0), Values(2, 1));
  kv->push(0, second);
  full_of(5).copyto(second);
  EXPECT_EQ(pulled(*kv, 0), Values(2, 2));
}

TEST_P(KVStoreOf, AnOptimizerUpdatesOnTheStore) {
  const auto push = [&] { kv->push(0, ones_on(hosts(4))); };
  kv->set_optimizer(optim::SGD({.learning_rate = .1, .momentum = .9}));
  EXPECT_TRUE(kv->is_update_on_kvstore());
  kv->init({0, 1}, {full_of(1), full_of(1)});
  const auto near = [&](double wanted) { EXPECT_NEAR(pulled(*kv, 0)[0], wanted, 1e-6); };
  push(), near(.6);  // the numbers are MXNet's
  push(), near(-.16);
  const Folder folder;
  const std::string path = folder / "kvstore.states";
  kv->save_optimizer_states(path);
  push(), near(-1.244);
  kv->load_optimizer_states(path);
  push(), near(-2.328);
  EXPECT_EQ(pulled(*kv, 1), Values(2, 1));

  const auto other = kvstore::create(GetParam());
  EXPECT_THAT(message_of<Error>([&] { other->save_optimizer_states(path); }),
              HasSubstr("expected set_optimizer()"));
  other->set_optimizer(optim::Adam());
  other->init({0, 1}, {full_of(1), full_of(1)});
  EXPECT_THROW(other->load_optimizer_states(path), FormatError);
}

TEST_P(KVStoreOf, AKeyHasMultipliersOfItsOwn) {
  kv->set_optimizer(optim::SGD({.learning_rate = .5, .wd = .5}));
  kv->init({"a", "b"}, {full_of(4), full_of(4)});
  kv->set_multipliers("a", .5, 2);
  for (const char* key : {"a", "b"}) kv->push(key, full_of(2));
  EXPECT_EQ(pulled(*kv, "a"), Values(2, 4 - .25 * (2 + 4)));
  EXPECT_EQ(pulled(*kv, "b"), Values(2, 4 - .5 * (2 + 2)));
  EXPECT_THROW(kv->set_multipliers("a", -1, 1), ValueError);
  EXPECT_THROW(kv->set_multipliers("c", 1, 1), ValueError);
}

TEST_P(KVStoreOf, AReplacedValueKeepsItsStates) {
  kv->set_optimizer(optim::SGD({.learning_rate = 1, .momentum = .5}));
  kv->init("a", full_of(1));
  kv->push("a", full_of(2));
  const Tensor value = full_of(10, cpu(1));
  kv->set_value("a", value);
  kv->push("a", full_of(2));
  EXPECT_EQ(pulled(*kv, "a"), Values(2, 10 - 1 - 2));
  EXPECT_EQ(values(value), Values(2, 10));
  kv->set_value("a", full_of(10, cpu(), {3}));
  kv->push("a", full_of(2, cpu(), {3}));
  const Tensor out = full_of(0, cpu(), {3});
  kv->pull("a", out);
  EXPECT_EQ(values(out), Values(3, 8)) << "states of another shape are new";
  EXPECT_THROW(kv->set_value(3, value), ValueError);
  EXPECT_THROW(kv->set_value("a", Tensor()), Error);
}

TEST_P(KVStoreOf, StatesGoFromStoreToStore) {
  const auto other = kvstore::create(GetParam());
  for (auto* store : {&*kv, &*other}) {
    store->set_optimizer(optim::SGD({.learning_rate = 1, .momentum = .5}));
    store->init({"a", "b"}, {full_of(0), full_of(0)});
  }
  kv->push("a", full_of(2));
  NamedTensors states = kv->optimizer_states();
  std::ranges::reverse(states);
  other->set_optimizer_states(states);
  other->push("a", full_of(2));
  EXPECT_EQ(pulled(*other, "a"), Values(2, -3));
  states.back().first = "optimizer:Adam";
  EXPECT_THAT(message_of<FormatError>([&] { other->set_optimizer_states(states); }),
              HasSubstr("'optimizer:SGD' is missing"));
  states.back().first = "optimizer:SGD";
  states[0].second = full_of(0, cpu(), {3});
  EXPECT_THAT(message_of<ShapeError>([&] { other->set_optimizer_states(states); }),
              HasSubstr("'b/mom' is cpu(0) (3,) f32"));
  states[0].second = full_of(0);
  states.push_back(states[0]);
  EXPECT_THAT(message_of<FormatError>([&] { other->set_optimizer_states(states); }),
              HasSubstr("'b/mom' appears twice"));
}

// An optimizer without memory for its states at first.
struct NoRoomAtFirst : optim::SGD {
  using SGD::SGD;
  mutable bool full = true;
  Tensors create_state(const Tensor& weight) const override {
    if (std::exchange(full, false)) throw OutOfMemory("no room");
    return SGD::create_state(weight);
  }
};

TEST_P(KVStoreOf, AFailedPushCanBeRetried) {
  kv->init("w", full_of(1));
  kv->set_optimizer(NoRoomAtFirst({.learning_rate = .5, .momentum = .5}));
  EXPECT_THROW(kv->push("w", full_of(1)), OutOfMemory);
  EXPECT_EQ(pulled(*kv, "w"), Values(2, 1));
  kv->push("w", full_of(1));
  EXPECT_EQ(pulled(*kv, "w"), Values(2, .5));
  kv->push("w", full_of(1));
  EXPECT_EQ(pulled(*kv, "w"), Values(2, -.25));
}

TEST_P(KVStoreOf, RescalesGradients) {
  kv->init("w", full_of(1));
  kv->set_optimizer(optim::SGD({.learning_rate = 1}), 1. / 8);
  kv->push("w", ones_on(hosts(4)));
  EXPECT_EQ(pulled(*kv, "w"), Values(2, .5));
  EXPECT_THROW(kv->set_rescale_grad(0), ValueError);
}

TEST_P(KVStoreOf, WhatIsRecordedIsNotPulledInto) {
  kv->init("a", full_of(1));
  const Tensor w = full_of(2), other = full_of(0);
  w.attach_grad();
  const autograd::Record record;
  const Tensor y = w * 2;
  EXPECT_THAT(message_of<Error>([&] {
                kv->pull("a", Tensors{other, y});
              }),
              testing::AllOf(HasSubstr("KVStore::pull: key a: in-place operations"),
                             HasSubstr("tensors that are being recorded")));
  EXPECT_THROW(kv->pushpull("a", {full_of(5)}, {y}), Error);
  EXPECT_THROW(kv->broadcast("b", full_of(5), {y}), Error);
  EXPECT_EQ(values(other), Values(2, 0));
  EXPECT_EQ(pulled(*kv, "a"), Values(2, 1));
  EXPECT_THROW(pulled(*kv, "b"), ValueError);
}

TEST_P(KVStoreOf, WhatDoesNotFitIsRefusedAndChangesNothing) {
  kv->init({"a", "b"}, {full_of(1), full_of(2)});
  EXPECT_THAT(message_of<ValueError>([&] { kv->init("a", full_of(5)); }),
              StartsWith("KVStore::init: key a is there already; expected it once (at "));
  EXPECT_THROW(kv->init({"c", "c"}, {full_of(1), full_of(1)}), ValueError);
  EXPECT_THAT(message_of<ValueError>([&] { kv->push("z", full_of(5)); }),
              StartsWith("KVStore::push: key z does not exist; expected one of a, b (at "));
  EXPECT_THROW(kv->pull("z", full_of(5)), ValueError);
  EXPECT_THROW(kv->pushpull("z", rising(2)), ValueError);
  EXPECT_THAT(message_of<ValueError>([&] { kv->init(3, full_of(5)); }),
              HasSubstr("mixed key types are not allowed"));
  EXPECT_THROW(kv->push({"a", "b"}, {{full_of(5)}, {full_of(5, cpu(), {3})}}), ShapeError);
  EXPECT_THROW(kv->push("a", full_of(5, cpu(), {2}, f64)), DTypeError);
  EXPECT_THROW(kv->pull("a", full_of(5, cpu(), {3})), ShapeError);
  EXPECT_THROW(kv->pushpull("a", rising(2), {full_of(5, cpu(), {3})}), ShapeError);
  EXPECT_THROW(kv->push("a", Tensors{}), Error);
  EXPECT_THROW(kv->push({"a", "b"}, {{full_of(5)}}), Error);
  EXPECT_THROW(kv->broadcast("c", full_of(5), {full_of(0, cpu(), {3})}), ShapeError);
  EXPECT_EQ(pulled(*kv, "a"), Values(2, 1));
  EXPECT_EQ(pulled(*kv, "b"), Values(2, 2));
  EXPECT_THROW(pulled(*kv, "c"), ValueError);
}

TEST(KVStore, UnknownTypesAreNamed) {
  EXPECT_EQ(message_of<ValueError>([] { kvstore::create("foo"); }),
            "kvstore: type 'foo'; expected local, device, nccl, dist_sync or dist_device_sync");
}

TEST(KVStore, KeepsValuesWhereTheTypeSays) {
  LOCUS_NEEDS_ANY_GPUS(2);
  const auto where = [](const char* type) {
    const auto kv = kvstore::create(type);
    kv->init("a", full_of(0, gpu(1)));
    std::optional<Context> there;
    kv->set_updater(
        [&](const Key&, const Tensor&, const Tensor& stored) { there = stored.context(); });
    kv->push("a", ones_on(gpus(2)));
    return *there;
  };
  EXPECT_EQ(where("local"), cpu());
  EXPECT_EQ(where("device"), gpu(1));
}

}  // namespace
}  // namespace locus::test
