// Transforms of images: equal results in loaders, contexts and workers.
#include <locus/nn/transforms.h>

#include <cmath>
#include <numeric>

#include <locus/core/compile.h>
#include <locus/core/transfer_kind.h>
#include <locus/core/transfer_log.h>
#include <locus/nn/data.h>
#include <locus/nn/prefetch.h>
#include <locus/nn/transforms.h>
#include <locus/ops/compare.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/join.h>
#include <locus/ops/random.h>
#include <locus/ops/reduce.h>
#include <locus/ops/view.h>
#include "tests/support/contexts.h"

namespace locus {
namespace {

using namespace data::transforms;
using data::Draw;
using data::Transform;
using testing::ElementsAre;
using Values = std::vector<double>;

std::vector<int32_t> numbers(int32_t n) {
  std::vector<int32_t> ids(static_cast<size_t>(n));
  std::iota(ids.begin(), ids.end(), 0);
  return ids;
}
// (n, 2, 4, 5), all elements distinct and above 0.
Tensor images(int64_t n, TensorOptions options = {}) {
  return (arange(static_cast<double>(n * 40), options) + 1).reshape({n, 2, 4, 5});
}
double at(const Values& v, int64_t n, int64_t c, int64_t y, int64_t x) {
  if (y < 0 || y >= 4 || x < 0 || x >= 5) return 0;
  return v[static_cast<size_t>(((n * 2 + c) * 4 + y) * 5 + x)];
}

TEST(RandomCrop, CutsEachImageSomewhere) {
  const std::vector<int32_t> ids = numbers(300);
  for (const Context c : test::contexts()) {
    for (const int64_t pad : {0, 2}) {
      const Tensor x = images(300, {c, i32});
      const Values v = test::values(x);
      const Tensor y = RandomCrop({3, 2}, {.pad = pad})(x, {.seed = 4, .samples = ids});
      ASSERT_EQ(y.shape(), (Shape{300, 2, 3, 2}));
      EXPECT_EQ(y.dtype(), i32);
      const Values w = test::values(y);
      std::vector<int> rows(static_cast<size_t>(2 + 2 * pad)),
          columns(static_cast<size_t>(4 + 2 * pad));
      for (int64_t n = 0; n < 300; ++n) {
        int found = 0;
        for (int64_t top = -pad; top <= 1 + pad; ++top) {
          for (int64_t left = -pad; left <= 3 + pad; ++left) {
            bool same = true;
            for (int64_t i = 0; i < 12; ++i)
              same = same && w[static_cast<size_t>(n * 12 + i)] ==
                                 at(v, n, i / 6, top + i % 6 / 2, left + i % 2);
            if (!same) continue;
            ++found;
            ++rows[static_cast<size_t>(top + pad)];
            ++columns[static_cast<size_t>(left + pad)];
          }
        }
        EXPECT_GE(found, 1) << n;
      }
      for (int count : rows) EXPECT_GT(count, 300 / std::ssize(rows) / 2);
      for (int count : columns) EXPECT_GT(count, 300 / std::ssize(columns) / 2);
    }
  }
}

TEST(RandomFlip, MirrorsSomeImages) {
  const std::vector<int32_t> ids = numbers(400);
  for (const Context c : test::contexts()) {
    const Tensor x = images(400, c);
    const Tensor mirrored = flip(x, 3);
    const auto share = [&](double p) {
      const Tensor y = RandomFlipLeftRight(p)(x, {.seed = 1, .samples = ids});
      EXPECT_EQ(y.shape(), x.shape());
      const Tensor same = all(y == x, {.axis = {1, 2, 3}}),
                   other = all(y == mirrored, {.axis = {1, 2, 3}});
      EXPECT_EQ((same != other).sum().item<int64_t>(), 400);
      return other.sum().item<double>() / 400;
    };
    EXPECT_EQ(share(0), 0);
    EXPECT_EQ(share(1), 1);
    EXPECT_NEAR(share(.3), .3, .08);
  }
}

TEST(CenterCrop, TakesTheMiddle) {
  const Tensor x = images(2);
  EXPECT_EQ(test::values(CenterCrop({2, 3})(x)),
            test::values(x(ellipsis, Slice(1, 3), Slice(1, 4))));
  EXPECT_EQ(test::values(CenterCrop({1, 2})(x)),
            test::values(x(ellipsis, Slice(1, 2), Slice(1, 3))));
  EXPECT_THROW(CenterCrop(5)(x), ShapeError);
}

TEST(Normalize, IsOfAllOrOfEachChannel) {
  for (const Context c : test::contexts()) {
    const Tensor x = array({1.f, 2.f, 3.f, 4.f}, c).reshape({1, 2, 1, 2});
    EXPECT_THAT(test::values(Normalize({1}, {2})(x)), ElementsAre(0, .5, 1, 1.5));
    EXPECT_THAT(test::values(Normalize({1, 3}, {2, 4})(x)), ElementsAre(0, .5, 0, .25));
    EXPECT_THAT(test::values(Normalize({1, 3})(x)), ElementsAre(0, 1, 0, 1));
    EXPECT_EQ(Normalize({1}, {2})(x.astype(f16)).dtype(), f16);
    EXPECT_THROW(Normalize({1, 2, 3})(x), ShapeError);
    EXPECT_THROW(Normalize({1})(x.astype(u8)), DTypeError);
  }
  EXPECT_THROW(Normalize({0}, {0}), ValueError);
}

TEST(ToTensor, MakesNumbersFromZeroToOne) {
  const Tensor y = ToTensor()(array({0, 51, 255}, u8));
  EXPECT_EQ(y.dtype(), f32);
  EXPECT_THAT(y.to_vector<float>(), ElementsAre(0, .2f, 1));
  EXPECT_THROW(ToTensor()(ones({2})), DTypeError);
  EXPECT_EQ(Cast(f16)(ones({2})).dtype(), f16);
}

TEST(Transforms, RefuseWhatTheyCannotDo) {
  const std::vector<int32_t> two = numbers(2);
  EXPECT_THROW(RandomCrop(5)(images(2), {.samples = two}), ShapeError);
  EXPECT_NO_THROW(RandomCrop(5, {.pad = 1})(images(2), {.samples = two}));
  EXPECT_THROW(RandomCrop(2)(images(3), {.samples = two}), ValueError);
  EXPECT_THROW(RandomCrop(2)(images(2)), ValueError);
  EXPECT_THROW(RandomCrop(2)(ones({2, 4, 4}), {.samples = two}), ShapeError);
  EXPECT_THROW(RandomFlipLeftRight()(ones({2, 4}), {.samples = two}), ShapeError);
  EXPECT_THROW(RandomFlipLeftRight(1.5), ValueError);
  EXPECT_THROW(RandomCrop(0), ValueError);
  EXPECT_THROW(CenterCrop(-1), ValueError);
  EXPECT_THROW(RandomCrop(2, {.pad = INT64_MAX / 2}), ValueError);
  EXPECT_THROW(Normalize({NAN}), ValueError);
  EXPECT_THROW(Normalize({0}, {INFINITY}), ValueError);
  EXPECT_THROW(Transform(Transform::Apply()), ValueError);
  const Transform fewer([](const Tensor& x, const Draw&) { return x(Slice(1, std::nullopt)); });
  EXPECT_THAT(test::message_of<ShapeError>([&] { fewer(images(2)); }),
              testing::HasSubstr("expected as many samples"));
  const Tensor x = images(1);
  EXPECT_TRUE(Transform()(x).is(x));
}

TEST(Transforms, DependOnSeedEpochAndSampleAlone) {
  const Transform random = Compose({RandomCrop({3, 4}, {.pad = 3}), RandomFlipLeftRight()});
  const std::vector<int32_t> ids{5, 9, 2, 7};
  const Tensor same = images(1), x = concat({same, same, same, same}, {.axis = 0});
  const auto made = [&](uint64_t seed, int64_t epoch, std::span<const int32_t> of) {
    return random(x(Slice(0, of.size())), {seed, epoch, of});
  };
  const Tensor all = made(1, 1, ids);
  for (size_t i = 0; i < ids.size(); ++i)
    EXPECT_EQ(test::values(made(1, 1, std::span(ids).subspan(i, 1))[0]), test::values(all[i]));
  EXPECT_NE(test::values(all), test::values(made(2, 1, ids)));
  EXPECT_NE(test::values(all), test::values(made(1, 2, ids)));
  // Two transforms of a kind draw differently.
  const std::vector<int32_t> many = numbers(64);
  const Tensor twice =
      Compose({RandomFlipLeftRight(), RandomFlipLeftRight()})(images(64), {.samples = many});
  EXPECT_NE(test::values(twice), test::values(images(64)));
}

TEST(Transforms, AreTheSameInLoadersAndWorkersEverywhere) {
  const data::Dataset set(images(23, {cpu(), i32}).astype(u8), arange(23, {cpu(), i32}));
  const Transform random = Compose({RandomCrop(4, {.pad = 2}), RandomFlipLeftRight(), ToTensor(),
                                    Normalize({.4, .5}, {.2, .3})});
  std::vector<Values> first;
  for (const Context c : test::distinct_contexts()) {
    SCOPED_TRACE(to_string(c));
    data::DataLoader loader(set, {.batch_size = 4,
                                  .shuffle = true,
                                  .last_batch = data::LastBatch::rollover,
                                  .context = c,
                                  .seed = 3,
                                  .transform = random});
    std::vector<Values> batches;
    const auto collect = [](auto& from, std::vector<Values>& into) {
      for (int epoch = 0; epoch < 3; ++epoch) {
        for (auto [x, y] : from) {
          EXPECT_EQ(x.shape(), (Shape{4, 2, 4, 4}));
          EXPECT_EQ(x.context(), from.context());
          into.push_back(test::values(x));
        }
      }
    };
    collect(loader, batches);
    if (first.empty()) first = batches;
    EXPECT_EQ(batches, first);
    for (const int num_workers : {1, 4}) {
      data::Prefetcher prefetcher(set, {.batch_size = 4,
                                        .shuffle = true,
                                        .last_batch = data::LastBatch::rollover,
                                        .context = c,
                                        .seed = 3,
                                        .num_workers = num_workers,
                                        .transform = random});
      std::vector<Values> made;
      collect(prefetcher, made);
      EXPECT_EQ(made, first);
    }
  }
}

TEST(Transforms, SendWhatTheyDrawWithoutAWait) {
  LOCUS_NEEDS_ANY_GPUS(1);
  const data::Dataset set(images(6), arange(6, {cpu(), i32}));
  const Transform random =
      Compose({RandomCrop(4, {.pad = 2}), RandomFlipLeftRight(), Normalize({1, 2}, {3, 4})});
  data::DataLoader loader(set, {.batch_size = 3, .context = gpu(0), .transform = random});
  auto i = loader.begin();
  const TransferLog log;
  *i;
  const std::vector<TransferEntry> entries = log.entries();
  ASSERT_EQ(entries.size(), 1u) << log.table();
  EXPECT_EQ(entries[0].kind, TransferKind::copy);
  EXPECT_EQ(entries[0].count, 4u);
  EXPECT_STREQ(entries[0].caller.file, __FILE__);
}

TEST(Transforms, ThatThrowInAWorkerThrowInTheLoop) {
  const data::Dataset set(images(6), arange(6, {cpu(), i32}));
  data::Prefetcher loader(set, {.batch_size = 2, .transform = CenterCrop(9)});
  EXPECT_THROW(loader.begin(), ShapeError);
}

TEST(Transform, ReplaysTheDrawsOfTheRecording) {
  const std::vector<int32_t> ids = numbers(3);
  for (const Context c : test::contexts()) {
    const Compose all({RandomCrop({3, 3}, {.pad = 1}), RandomFlipLeftRight(), Cast(f32),
                       Normalize({1, 2}, {3, 4}), RandomFlipLeftRight()});
    const Draw draw{.seed = 4, .samples = ids};
    Compiled f([&](const Tensors& in) { return Tensors{all(in[0], draw)}; });
    for (int i = 0; i < 4; ++i) {
      const Tensor x = images(3, {c, i32}) + i;
      EXPECT_EQ(test::values(f({x})[0]), test::values(all(x, draw))) << c;
    }
    EXPECT_EQ(f.recorded(), 1u);
  }
}

}  // namespace
}  // namespace locus
