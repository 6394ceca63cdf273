#include <filesystem>
#include <fstream>
#include <random>

#include <locus/core/kernel.h>
#include <locus/nn/data.h>
#include "tests/support/contexts.h"
#include "tests/support/folder.h"

namespace locus {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::string record(int label, int first) {
  std::string bytes(3073, static_cast<char>(label));
  for (size_t i = 1; i < bytes.size(); ++i)
    bytes[i] = static_cast<char>(first + static_cast<int>(i));
  return bytes;
}

class Cifar10 : public testing::Test {
 protected:
  Cifar10() {
    for (int i = 1; i <= 5; ++i)
      write("data_batch_" + std::to_string(i) + ".bin", record(i, 10 * i) + record(9, i));
    write("test_batch.bin", record(3, 7));
  }

  void write(const std::string& name, const std::string& bytes) const {
    std::ofstream(dir_ / name, std::ios::binary) << bytes;
  }
  std::string refusal_of(const std::string& bytes) const {
    write("test_batch.bin", bytes);
    const std::string text =
        test::message_of<FormatError>([&] { data::cifar10(dir_.string(), data::test); });
    EXPECT_THAT(text, HasSubstr((dir_ / "test_batch.bin").string()));
    return text;
  }
  const test::Folder own_;
  const fs::path dir_ = own_.path;
};

TEST_F(Cifar10, ReadsItsFilesInOrder) {
  const data::Dataset train = data::cifar10(dir_.string(), data::train);
  EXPECT_EQ(train.data().shape(), (Shape{10, 3, 32, 32}));
  EXPECT_EQ(train.data().dtype(), f32);
  EXPECT_EQ(train.label().dtype(), i32);
  EXPECT_THAT(test::values(train.label()), ElementsAre(1, 9, 2, 9, 3, 9, 4, 9, 5, 9));
  const data::Dataset raw = data::cifar10(dir_.string(), data::train, {.dtype = u8});
  EXPECT_EQ(raw.data().dtype(), u8);
  const std::vector<uint8_t> bytes = raw.data().to_vector<uint8_t>();
  const std::vector<float> pixels = train.data().to_vector<float>();
  for (size_t i = 0; i < bytes.size(); ++i) {
    const size_t n = i / 3072, first = n % 2 == 0 ? 10 * (n / 2 + 1) : n / 2 + 1;
    ASSERT_EQ(bytes[i], (first + i % 3072 + 1) % 256) << i;
    ASSERT_EQ(pixels[i], static_cast<float>(bytes[i]) / 255.f) << i;
  }
  EXPECT_THAT(test::values(data::cifar10(dir_.string(), data::test).label()), ElementsAre(3));
  EXPECT_THROW(data::cifar10(dir_.string(), data::test, {.dtype = f16}), DTypeError);
}

TEST_F(Cifar10, AMissingFileIsNamed) {
  fs::remove(dir_ / "data_batch_4.bin");
  EXPECT_THAT(test::message_of<Error>([&] { data::cifar10(dir_.string(), data::train); }),
              AllOf(HasSubstr((dir_ / "data_batch_4.bin").string()), HasSubstr("binary form")));
  fs::create_directory(dir_ / "data_batch_4.bin");
  EXPECT_THROW(data::cifar10(dir_.string(), data::train), Error);
}

TEST_F(Cifar10, OnlyWholeRecordsAreRead) {
  const std::string two = record(1, 1) + record(2, 2);
  for (size_t n : {size_t{0}, size_t{1}, size_t{3072}, size_t{3074}, two.size() - 1})
    EXPECT_THAT(refusal_of(two.substr(0, n)),
                AllOf(HasSubstr(std::to_string(n) + " bytes"), HasSubstr("3073")));
  EXPECT_THAT(refusal_of(two + "x"), HasSubstr("6147 bytes"));
  EXPECT_THAT(refusal_of(record(9, 0) + record(10, 0)),
              AllOf(HasSubstr("label 10 of record 1"), HasSubstr("0 to 9")));
}

// Any bytes give a data set or a FormatError.
TEST_F(Cifar10, AnyBytesAreReadOrRefused) {
  std::mt19937 random(1);
  int read = 0;
  for (int i = 0; i < 300; ++i) {
    std::string bytes = record(static_cast<int>(random() % 10), 0) + record(4, 1);
    for (int k = 0; k < 3; ++k) bytes[random() % bytes.size()] = static_cast<char>(random());
    if (random() % 3 == 0) bytes[random() % 2 * 3073] = static_cast<char>(random());
    if (random() % 3 == 0) bytes.resize(random() % bytes.size());
    write("test_batch.bin", bytes);
    const auto label = [&](size_t at) { return static_cast<uint8_t>(bytes[at]); };
    bool good = !bytes.empty() && bytes.size() % 3073 == 0;
    for (size_t at = 0; good && at < bytes.size(); at += 3073) good = label(at) <= 9;
    if (!good) {
      EXPECT_THROW(data::cifar10(dir_.string(), data::test), FormatError);
      continue;
    }
    ++read;
    const data::Dataset set = data::cifar10(dir_.string(), data::test, {.dtype = u8});
    ASSERT_EQ(set.size() * 3073, std::ssize(bytes));
    for (int64_t n = 0; n < set.size(); ++n)
      EXPECT_EQ(set.label()[n].item<int>(), label(static_cast<size_t>(n) * 3073));
  }
  EXPECT_GT(read, 30);
}

}  // namespace
}  // namespace locus
