// IDX files, plain or gzipped (yann.lecun.com/exdb/mnist: big-endian; 0, 0, type, rank, lengths).
#include <zlib.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include <locus/core/base/at_line.h>
#include <locus/core/base/recording_hooks.h>
#include <locus/core/error.h>
#include <locus/nn/data.h>
#include <locus/nn/options.h>
#include <locus/ops/copy.h>
#include <locus/ops/elementwise.h>

namespace locus::data {
namespace {

[[noreturn]] void bad(const std::string& path, const auto&... what) {
  throw FormatError("read_idx: ", path, ": ", what...);
}

// Reads a file in order. zlib unpacks gzipped files and checks their sums.
class Reader : NonCopyable {
 public:
  explicit Reader(const std::string& path) : path_(path) {
    std::error_code error;
    if (!std::filesystem::is_regular_file(path, error))
      throw Error("read_idx: cannot open ", path, ": ",
                  error ? error.message() : "not a regular file");
    file_ = gzopen(path.c_str(), "rb");
    if (!file_) throw Error("read_idx: cannot open ", path, ": ", std::strerror(errno));
  }
  ~Reader() { gzclose(file_); }

  void read(void* out, size_t bytes, const std::string& what) {
    if (const size_t n = take(out, bytes); n < bytes) truncated(offset_, bytes - n, what);
  }
  bool at_end() {
    char more;
    if (take(&more, 1) != 0) return false;
    int code = 0;
    gzerror(file_, &code);
    if (code == Z_BUF_ERROR) bad(path_, "truncated: its gzip checksum is missing");
    return true;
  }
  [[noreturn]] void truncated(size_t found, size_t missing, const std::string& what) const {
    bad(path_, "truncated: it ends after ", found, " bytes; expected ", missing, " more for ",
        what);
  }

 private:
  // Returns fewer bytes at the end of the file, or of a truncated gzip stream.
  size_t take(void* out, size_t bytes) {
    size_t done = 0;
    while (done < bytes) {
      const auto room = static_cast<unsigned>(std::min<size_t>(bytes - done, size_t{1} << 30));
      const int n = gzread(file_, static_cast<char*>(out) + done, room);
      if (n == 0) break;
      if (n < 0) {
        int code = 0;
        const std::string why = gzerror(file_, &code);
        if (code == Z_ERRNO) throw Error("read_idx: cannot read ", path_, ": ", why);
        if (code == Z_MEM_ERROR) throw OutOfMemory("read_idx: zlib: no memory");
        bad(path_, "damaged gzip data: ", why);
      }
      done += static_cast<size_t>(n);
      offset_ += static_cast<size_t>(n);
    }
    return done;
  }

  const std::string path_;
  gzFile file_;
  size_t offset_ = 0;  // in the unpacked data
};

}  // namespace

Tensor read_idx(const std::string& path, Caller from) try {
  constexpr std::pair<uint8_t, DType> kTypes[] = {
      {0x08, u8}, {0x09, i8}, {0x0C, i32}, {0x0D, f32}, {0x0E, f64}};
  capture::check("read_idx", "the host reads a file; read it before");
  Reader file(path);
  uint8_t magic[4], lengths[kMaxRank][4];
  file.read(magic, sizeof magic, "a magic number");
  const auto type = std::ranges::find(kTypes, magic[2], &std::pair<uint8_t, DType>::first);
  if (magic[0] != 0 || magic[1] != 0 || type == std::end(kTypes)) {
    char hex[16];
    std::snprintf(hex, sizeof hex, "0x%02x%02x%02x%02x", magic[0], magic[1], magic[2], magic[3]);
    bad(path, "magic number ", hex,
        "; expected 0x0000TTRR, an IDX file of type TT 08, 09, 0c, 0d or 0e");
  }
  const size_t rank = magic[3];
  if (rank < 1 || rank > static_cast<size_t>(kMaxRank))
    bad(path, rank, " axes; expected 1 to ", kMaxRank);
  file.read(lengths, 4 * rank, text_of(rank, " lengths"));
  std::vector<int64_t> dims;
  for (size_t i = 0; i < rank; ++i)
    dims.push_back(int64_t{lengths[i][0]} << 24 | lengths[i][1] << 16 | lengths[i][2] << 8 |
                   lengths[i][3]);
  Meta meta;
  try {
    meta = make_meta(type->second, dims);
  } catch (const ShapeError& e) {
    bad(path, e.what());
  }
  const std::string what = text_of("shape ", Shape(meta));
  const size_t bytes = bytes_of(meta), on_disk = std::filesystem::file_size(path);
  // Deflate packs at most 1032 to 1. This limits the allocation for a corrupt header.
  if (bytes / 1032 > on_disk) file.truncated(on_disk, bytes, what);
  Tensor out = allocate(cpu(), meta);
  uint8_t* const data = static_cast<uint8_t*>(out.data_ptr());
  file.read(data, bytes, what);
  if (!file.at_end()) bad(path, "more data than ", what, " needs");
  const size_t width = static_cast<size_t>(size_of(meta.dtype));
  if (std::endian::native == std::endian::little)
    for (size_t at = 0; at < bytes; at += width) std::reverse(data + at, data + at + width);
  return out;
} catch (const Error&) {
  rethrow_at(from);
}

namespace {

Dataset read_set(const char* who, const std::string& directory, Split split, const Shape& shape) {
  if (shape.size() != 28 * 28)
    throw ShapeError(who, ": images of shape ", shape,
                     "; expected 784 elements, such as (1,28,28)");
  options::expect_enumerator(who, "split", split, Split::test, "Split::train or Split::test");
  const std::string stem = split == Split::train ? "train" : "t10k";
  const auto find = [&](const std::string& kind) {
    const std::filesystem::path plain =
        std::filesystem::path(directory) / (stem + "-" + kind + "-ubyte");
    std::string packed = plain.string() + ".gz";
    if (std::filesystem::exists(packed)) return packed;
    if (std::filesystem::exists(plain)) return plain.string();
    throw Error(who, ": there is neither ", packed, " nor ", plain.string(),
                "; expected the set's four files in that directory");
  };
  const std::string image_path = find("images-idx3"), label_path = find("labels-idx1");
  const Tensor images = read_idx(image_path), labels = read_idx(label_path);
  if (images.dtype() != u8 || images.ndim() != 3 || images.shape()[1] != 28 ||
      images.shape()[2] != 28)
    bad(image_path, "shape ", images.shape(), ", dtype ", name(images.dtype()),
        "; expected (N,28,28) u8");
  if (labels.dtype() != u8 || labels.ndim() != 1)
    bad(label_path, "shape ", labels.shape(), ", dtype ", name(labels.dtype()),
        "; expected (N,) u8");
  const int64_t n = images.shape()[0];
  if (labels.shape()[0] != n)
    bad(label_path, labels.shape()[0], " labels; expected ", n, ", as many as there are images in ",
        image_path);
  const uint8_t* digit = static_cast<const uint8_t*>(labels.data_ptr());
  for (int64_t i = 0; i < n; ++i)
    if (digit[i] > 9) bad(label_path, "label ", digit[i], " at position ", i, "; expected 0 to 9");
  std::vector<int64_t> dims{n};
  dims.insert(dims.end(), shape.begin(), shape.end());
  return {cast(images.reshape(Shape(dims)), f32) / 255, cast(labels, i32)};
}

}  // namespace

Dataset mnist(const std::string& directory, Split split, const MnistOptions& options,
              Caller from) try {
  return read_set("mnist", directory, split, options.shape);
} catch (const Error&) {
  rethrow_at(from);
}

Dataset fashion_mnist(const std::string& directory, Split split, const MnistOptions& options,
                      Caller from) try {
  return read_set("fashion_mnist", directory, split, options.shape);
} catch (const Error&) {
  rethrow_at(from);
}

}  // namespace locus::data
