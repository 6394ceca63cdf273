#include "tests/support/contexts.h"

#include <zlib.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <set>
#include <utility>

#include <locus/core/kernel.h>
#include <locus/nn/data.h>
#include <locus/nn/data/sample_order.h>
#include <locus/nn/prefetch.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/view.h>
#include "tests/support/folder.h"

namespace locus {
namespace {

namespace fs = std::filesystem;
using data::LastBatch;
using testing::ElementsAre;
using testing::HasSubstr;

std::string big_endian(uint32_t v) {
  return {static_cast<char>(v >> 24), static_cast<char>(v >> 16), static_cast<char>(v >> 8),
          static_cast<char>(v)};
}
std::string images(uint32_t n, uint32_t claimed) {
  std::string bytes = big_endian(0x803) + big_endian(claimed) + big_endian(28) + big_endian(28);
  for (uint32_t i = 0; i < n * 784; ++i) bytes += static_cast<char>(i % 256);
  return bytes;
}
std::string labels(const std::string& digits) {
  return big_endian(0x801) + big_endian(static_cast<uint32_t>(digits.size())) + digits;
}
std::string gzip(const std::string& bytes) {
  z_stream z{};
  EXPECT_EQ(deflateInit2(&z, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(deflateBound(&z, bytes.size()) + 64, '\0');
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  z.avail_in = static_cast<uInt>(bytes.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  z.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&z, Z_FINISH), Z_STREAM_END);
  out.resize(z.total_out);
  deflateEnd(&z);
  return out;
}

class Mnist : public testing::Test {
 protected:
  Mnist() {
    write("train-images-idx3-ubyte.gz", gzip(images(3, 3)));
    write("train-labels-idx1-ubyte.gz", gzip(labels({7, 0, 9})));
  }

  void write(const std::string& name, const std::string& bytes) const {
    std::ofstream(dir_ / name, std::ios::binary) << bytes;
  }
  std::string refusal() const {
    return test::message_of<FormatError>([&] { data::mnist(dir_.string(), data::train); });
  }
  std::string refusal_of_images(const std::string& bytes) const {
    write("train-images-idx3-ubyte.gz", bytes);
    const std::string text = refusal();
    EXPECT_THAT(text, HasSubstr((dir_ / "train-images-idx3-ubyte.gz").string()));
    return text;
  }
  const test::Folder own_;
  const fs::path dir_ = own_.path;
};

void expect_small_set(const data::Dataset& set) {
  EXPECT_EQ(set.data().shape(), (Shape{3, 784}));
  EXPECT_EQ(set.data().dtype(), f32);
  EXPECT_EQ(set.label().dtype(), i32);
  EXPECT_THAT(test::values(set.label()), ElementsAre(7, 0, 9));
  const std::vector<float> pixels = set.data().to_vector<float>();
  for (size_t i = 0; i < pixels.size(); ++i)
    ASSERT_EQ(pixels[i], static_cast<float>(i % 256) / 255.0f) << i;
}

TEST_F(Mnist, ReadsGzippedFiles) { expect_small_set(data::mnist(dir_.string(), data::train)); }

TEST_F(Mnist, ReadsPlainFiles) {
  for (const char* name : {"train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"})
    fs::remove(dir_ / name);
  write("train-images-idx3-ubyte", images(3, 3));
  write("train-labels-idx1-ubyte", labels({7, 0, 9}));
  expect_small_set(data::mnist(dir_.string(), data::train));
}

TEST_F(Mnist, GivesImagesTheirShape) {
  const data::Dataset flat = data::mnist(dir_.string(), data::train);
  const data::Dataset set = data::fashion_mnist(dir_.string(), data::train, {.shape = {1, 28, 28}});
  EXPECT_EQ(set.data().shape(), (Shape{3, 1, 28, 28}));
  EXPECT_EQ(test::values(set.data()), test::values(flat.data()));
  EXPECT_THROW(data::mnist(dir_.string(), data::train, {.shape = {28, 27}}), ShapeError);
  EXPECT_THROW(data::mnist(dir_.string(), data::train, {.shape = {-28, -28}}), ShapeError);
  EXPECT_THAT(test::message_of<Error>([&] { data::fashion_mnist(dir_.string(), data::test); }),
              HasSubstr("fashion_mnist: there is neither"));
}

TEST_F(Mnist, AMissingFileNamesWhatWasExpected) {
  EXPECT_THAT(test::message_of<Error>([&] { data::mnist(dir_.string(), data::test); }),
              HasSubstr("neither " + (dir_ / "t10k-images-idx3-ubyte.gz").string()));
}

TEST_F(Mnist, EveryTruncationIsRefused) {
  const std::string plain = images(3, 3), packed = gzip(plain);
  for (size_t n : {size_t{0}, size_t{3}, size_t{10}, size_t{16}, size_t{500}, plain.size() - 1})
    EXPECT_THAT(refusal_of_images(plain.substr(0, n)), HasSubstr("truncated")) << n;
  for (size_t n = 2; n < packed.size(); ++n)
    EXPECT_THAT(refusal_of_images(packed.substr(0, n)), HasSubstr("truncated")) << n;
  // Complete gzip data of an incomplete file.
  EXPECT_THAT(refusal_of_images(gzip(plain.substr(0, 1000))), HasSubstr("1000 bytes"));
}

TEST_F(Mnist, DamagedDataAreRefused) {
  std::string packed = gzip(images(3, 3));
  packed[packed.size() - 6] = static_cast<char>(packed[packed.size() - 6] ^ 1);  // the checksum
  EXPECT_THAT(refusal_of_images(packed), HasSubstr("incorrect data check"));
  EXPECT_THAT(refusal_of_images(images(3, 3) + "tail"),
              HasSubstr("more data than shape (3,28,28)"));
  EXPECT_THAT(refusal_of_images(gzip(images(3, 3) + "tail")), HasSubstr("more data"));
  EXPECT_THAT(refusal_of_images("GIF89a, not an IDX file"), HasSubstr("magic number 0x47494638"));
  EXPECT_THAT(refusal_of_images(gzip("GIF89a, not an IDX file")), HasSubstr("magic number"));
}

TEST_F(Mnist, ALyingHeaderAllocatesNothing) {
  EXPECT_THAT(refusal_of_images(images(1, 0xffffffffu)), HasSubstr("truncated"));
  EXPECT_THAT(refusal_of_images(gzip(images(1, 0xffffffffu))), HasSubstr("truncated"));
  std::string huge = big_endian(0x803);
  for (int i = 0; i < 3; ++i) huge += big_endian(0xffffffffu);
  EXPECT_THAT(refusal_of_images(gzip(huge)), HasSubstr("more elements than memory"));
  std::string empty = big_endian(0x804) + big_endian(0);
  for (int i = 0; i < 3; ++i) empty += big_endian(0xffffffffu);
  EXPECT_THAT(refusal_of_images(empty), HasSubstr("more elements than memory"));
}

TEST_F(Mnist, OtherIdxFilesAreRefused) {
  EXPECT_THAT(refusal_of_images(labels({1, 2, 3})), HasSubstr("expected (N,28,28) u8"));
  EXPECT_THAT(refusal_of_images(big_endian(0x0d01) + big_endian(0)), HasSubstr("dtype f32"));
}

TEST_F(Mnist, CountsMustMatchAndLabelsBeDigits) {
  const std::string path = (dir_ / "train-labels-idx1-ubyte.gz").string();
  write("train-labels-idx1-ubyte.gz", gzip(labels({1, 2})));
  EXPECT_THAT(refusal(), testing::AllOf(HasSubstr(path), HasSubstr("2 labels; expected 3")));
  write("train-labels-idx1-ubyte.gz", gzip(labels({1, 10, 2})));
  EXPECT_THAT(refusal(), testing::AllOf(HasSubstr(path), HasSubstr("label 10 at position 1"),
                                        HasSubstr("expected 0 to 9")));
}

TEST_F(Mnist, IdxFilesOfOtherTypesAreBigEndian) {
  write("f", big_endian(0x0d02) + big_endian(1) + big_endian(2) + big_endian(0x3f800000) +
                 big_endian(0xc0000000));
  const Tensor f = data::read_idx((dir_ / "f").string());
  EXPECT_EQ(f.shape(), (Shape{1, 2}));
  EXPECT_THAT(test::values(f), ElementsAre(1, -2));
  write("i", big_endian(0x0c01) + big_endian(1) + big_endian(static_cast<uint32_t>(-5)));
  EXPECT_THAT(test::values(data::read_idx((dir_ / "i").string())), ElementsAre(-5));
  write("none", big_endian(0x0801) + big_endian(0));
  EXPECT_EQ(data::read_idx((dir_ / "none").string()).size(), 0);
}

TEST(RealMnist, HasItsCountsAndChecksums) {
  const char* set = std::getenv("TEST_MNIST");
  const fs::path dir = set ? set : "data/mnist";
  if (!fs::exists(dir / "t10k-images-idx3-ubyte.gz"))
    GTEST_SKIP() << "no MNIST in " << dir << "; TEST_MNIST says where it is";
  const data::Dataset test = data::mnist(dir.string(), data::test);
  EXPECT_EQ(test.data().shape(), (Shape{10000, 784}));
  const std::vector<int32_t> digits = test.label().to_vector<int32_t>();
  std::vector<int> counts(10);
  for (int32_t d : digits) ++counts[static_cast<size_t>(d)];
  EXPECT_THAT(counts, ElementsAre(980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009));
  const data::Dataset train = data::mnist(dir.string(), data::train);
  EXPECT_EQ(train.size(), 60000);
  EXPECT_NEAR(train.data().mean().item<double>(), 0.1306604762738429, 1e-6);
}

// n samples; sample i is (i, 10 i) with label i.
data::Dataset numbers(int64_t n) {
  std::vector<float> rows;
  std::vector<int32_t> label;
  for (int64_t i = 0; i < n; ++i) {
    rows.insert(rows.end(), {static_cast<float>(i), static_cast<float>(10 * i)});
    label.push_back(static_cast<int32_t>(i));
  }
  return {array(rows, {n, 2}), array(label)};
}
using Epoch = std::vector<std::vector<int32_t>>;
Epoch run(data::DataLoader& loader) {
  Epoch epoch;
  for (auto [x, label] : loader) {
    EXPECT_EQ(x.context(), loader.context());
    EXPECT_EQ(label.context(), loader.context());
    epoch.push_back(label.to_vector<int32_t>());
    const std::vector<float> rows = x.to_vector<float>();
    EXPECT_EQ(rows.size(), 2 * epoch.back().size());
    for (size_t i = 0; i < epoch.back().size(); ++i) {
      EXPECT_EQ(rows[2 * i], static_cast<float>(epoch.back()[i]));
      EXPECT_EQ(rows[2 * i + 1], static_cast<float>(10 * epoch.back()[i]));
    }
  }
  return epoch;
}

TEST(DataLoader, KeepsOrDiscardsTheLastBatch) {
  for (Context c : test::distinct_contexts()) {
    SCOPED_TRACE(to_string(c));
    data::DataLoader keep(numbers(5), {.batch_size = 2, .context = c});
    EXPECT_EQ(keep.size(), 3);
    EXPECT_EQ(keep.context(), c);
    EXPECT_EQ(run(keep), (Epoch{{0, 1}, {2, 3}, {4}}));
    EXPECT_EQ(run(keep), (Epoch{{0, 1}, {2, 3}, {4}}));
    data::DataLoader drop(numbers(5),
                          {.batch_size = 2, .last_batch = LastBatch::discard, .context = c});
    EXPECT_EQ(drop.size(), 2);
    EXPECT_EQ(run(drop), (Epoch{{0, 1}, {2, 3}}));
  }
}

TEST(DataLoader, RollsOverIntoTheNextEpoch) {
  data::DataLoader loader(numbers(5), {.batch_size = 2, .last_batch = LastBatch::rollover});
  EXPECT_EQ(run(loader), (Epoch{{0, 1}, {2, 3}}));
  EXPECT_EQ(loader.size(), 3);
  EXPECT_EQ(run(loader), (Epoch{{4, 0}, {1, 2}, {3, 4}}));
  EXPECT_EQ(run(loader), (Epoch{{0, 1}, {2, 3}}));
}

TEST(DataLoader, ShufflesAlikeOnEveryContextAndAnewEachEpoch) {
  std::vector<Epoch> first;
  for (Context c : test::distinct_contexts()) {
    SCOPED_TRACE(to_string(c));
    data::DataLoader loader(numbers(100),
                            {.batch_size = 8, .shuffle = true, .context = c, .seed = 5});
    const Epoch a = run(loader), b = run(loader);
    EXPECT_NE(a, b);
    for (const Epoch& epoch : {a, b}) {
      std::multiset<int32_t> seen;
      for (const auto& batch : epoch) seen.insert(batch.begin(), batch.end());
      std::vector<int32_t> all(100);
      std::iota(all.begin(), all.end(), 0);
      EXPECT_EQ(std::vector<int32_t>(seen.begin(), seen.end()), all);
    }
    first.push_back(a);
    EXPECT_EQ(a, first.front());
  }
  data::DataLoader other(numbers(100), {.batch_size = 8, .shuffle = true, .seed = 6});
  EXPECT_NE(run(other), first.front());
}

TEST(DataLoader, BatchesDoNotShareMemory) {
  const data::Dataset set = numbers(4);
  data::DataLoader loader(set, {.batch_size = 4});
  for (auto [x, label] : loader) x += 1;
  EXPECT_EQ(test::values(set.data())[0], 0);
}

TEST(DataLoader, RefusesWhatCannotWork) {
  for (int64_t batch : {int64_t{0}, int64_t{-1}, int64_t{1} << 31, INT64_MAX}) {
    EXPECT_THAT(
        test::message_of<ValueError>([&] { data::DataLoader(numbers(3), {.batch_size = batch}); }),
        testing::HasSubstr("DataLoader: batch_size"));
    EXPECT_THROW(data::Prefetcher(numbers(3), {.batch_size = batch}), ValueError);
  }
  EXPECT_THROW(data::DataLoader(numbers(3), {.context = gpu(99)}), DeviceError);
  const auto last = static_cast<data::LastBatch>(99);
  EXPECT_THAT(
      test::message_of<ValueError>([&] { data::DataLoader(numbers(3), {.last_batch = last}); }),
      testing::HasSubstr("DataLoader: last_batch 99"));
  const auto split = static_cast<data::Split>(2);
  EXPECT_THAT(test::message_of<ValueError>([&] { data::mnist("none", split); }),
              testing::StartsWith("mnist: split 2"));
  EXPECT_THAT(test::message_of<ValueError>([&] { data::cifar10("none", split); }),
              testing::StartsWith("cifar10: split 2"));
  EXPECT_THROW(data::Dataset(ones({3, 2}), ones({2})), ShapeError);
  EXPECT_THROW(data::Dataset(ones({}), ones({})), ShapeError);
  data::DataLoader none(numbers(0), {.batch_size = 2, .shuffle = true});
  EXPECT_EQ(none.size(), 0);
  EXPECT_EQ(run(none), Epoch{});
}

TEST(DataLoader, AnIteratorWithoutAnEpochIsAtTheEnd) {
  data::DataLoader loader(numbers(4), {.batch_size = 2});
  data::DataLoader::Iterator from = loader.begin();
  const data::DataLoader::Iterator to = std::move(from);
  const data::DataLoader::Iterator made;
  EXPECT_FALSE(to == loader.end());
  EXPECT_TRUE(from == loader.end());
  EXPECT_TRUE(made == loader.end());
  EXPECT_THROW(*from, IndexError);
  EXPECT_THROW(++from, IndexError);
  EXPECT_THROW(*made, IndexError);
}

TEST(SplitAndLoad, CutsEvenlyOrSaysWhyNot) {  // MXNet: test_gluon_utils / test_split_data
  const Tensor x = sample_values(cpu(), f32, {128, 33, 64});
  const auto eight = [] {
    std::vector<Context> list;
    for (int i = 0; i < 8; ++i) list.push_back(cpu(i));
    return Contexts(list);
  };
  const Tensors parts = split_and_load(x, eight());
  ASSERT_EQ(parts.size(), 8u);
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(parts[static_cast<size_t>(i)].shape(), (Shape{16, 33, 64}));
    EXPECT_EQ(parts[static_cast<size_t>(i)].context(), cpu(i));
  }
  EXPECT_EQ(split_and_load(x, {cpu(0), cpu(1), cpu(2)}, {.batch_axis = 1})[2].shape(),
            (Shape{128, 11, 64}));
  const Contexts four{cpu(0), cpu(1), cpu(2), cpu(3)};
  const Tensors uneven = split_and_load(x, four, {.batch_axis = 1, .even_split = false});
  EXPECT_EQ(uneven[0].shape(), (Shape{128, 9, 64}));
  EXPECT_EQ(uneven[3].shape(), (Shape{128, 8, 64}));
  EXPECT_EQ(test::values(uneven[1]), test::values(slice_axis(x, 1, Slice(9, 17))));
  EXPECT_THAT(test::message_of<ShapeError>([&] { split_and_load(x, four, {.batch_axis = 1}); }),
              HasSubstr("data with shape (128,33,64) cannot be evenly split into 4"));
  EXPECT_THROW(split_and_load(ones({3}), four), ShapeError);
}

}  // namespace
}  // namespace locus
