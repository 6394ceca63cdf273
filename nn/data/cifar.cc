// CIFAR-10 in its binary form (cs.toronto.edu/~kriz/cifar.html): records of a label and 3 x 32 x 32
// pixels, red, green and blue planes.
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <vector>

#include <locus/core/base/at_line.h>
#include <locus/core/error.h>
#include <locus/nn/data.h>
#include <locus/nn/options.h>
#include <locus/ops/copy.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>

namespace locus::data {
namespace {

constexpr size_t kPixels = 3 * 32 * 32, kRecord = 1 + kPixels;

// Appends a file's records.
void read_records(const std::string& path, std::vector<uint8_t>& pixels,
                  std::vector<int32_t>& labels) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error))
    throw Error("cifar10: cannot open ", path, ": ", error ? error.message() : "not a regular file",
                "; expected the binary form of CIFAR-10, data_batch_1.bin ... data_batch_5.bin and "
                "test_batch.bin, in that directory");
  const std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen(path.c_str(), "rb"), &std::fclose);
  if (!file) throw Error("cifar10: cannot open ", path, ": ", std::strerror(errno));
  uint8_t record[kRecord];
  for (size_t i = 0;; ++i) {
    const size_t n = std::fread(record, 1, kRecord, file.get());
    if (std::ferror(file.get()))
      throw Error("cifar10: cannot read ", path, ": ", std::strerror(errno));
    if (n == 0 && i > 0) return;
    if (n < kRecord)
      throw FormatError("cifar10: ", path, ": ", i * kRecord + n,
                        " bytes, truncated or with extra bytes; expected whole records of ",
                        kRecord, " bytes, at least one");
    if (record[0] > 9)
      throw FormatError("cifar10: ", path, ": label ", record[0], " of record ", i,
                        "; expected 0 to 9");
    labels.push_back(record[0]);
    pixels.insert(pixels.end(), record + 1, record + kRecord);
  }
}

}  // namespace

Dataset cifar10(const std::string& directory, Split split, const Cifar10Options& options,
                Caller from) try {
  if (options.dtype != f32 && options.dtype != u8)
    throw DTypeError("cifar10: dtype ", name(options.dtype), "; expected f32 or u8");
  locus::options::expect_enumerator("cifar10", "split", split, Split::test,
                                    "Split::train or Split::test");
  std::vector<uint8_t> pixels;
  std::vector<int32_t> labels;
  const std::filesystem::path folder(directory);
  if (split == Split::test) {
    read_records((folder / "test_batch.bin").string(), pixels, labels);
  } else {
    for (int i = 1; i <= 5; ++i)
      read_records((folder / text_of("data_batch_", i, ".bin")).string(), pixels, labels);
  }
  const Tensor images = array(pixels, {labels.size(), size_t{3}, size_t{32}, size_t{32}}, cpu());
  return {options.dtype == u8 ? images : cast(images, f32) / 255, array(labels, cpu())};
} catch (const Error&) {
  rethrow_at(from);
}

}  // namespace locus::data
