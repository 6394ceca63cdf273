// IDX files, plain or gzipped (yann.lecun.com/exdb/mnist: big-endian; 0, 0, type, rank, lengths).
#include <zlib.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <locus/core/error.h>
#include <locus/nn/data.h>

namespace locus::data {
namespace {

using Bytes = std::vector<uint8_t>;

[[noreturn]] void bad(const std::string& path, const std::string& what) {
  throw FormatError("read_idx: " + path + ": " + what);
}

std::string hex(uint32_t v) {
  std::ostringstream text;
  text << "0x" << std::hex << v;
  return text.str();
}

Bytes read_file(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error))
    throw Error("read_idx: cannot open " + path + ": " +
                (error ? error.message() : "not a regular file"));
  std::ifstream in(path, std::ios::binary);
  if (!in) throw Error("read_idx: cannot open " + path + ": " + std::strerror(errno));
  Bytes bytes(static_cast<size_t>(std::filesystem::file_size(path)));
  in.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  if (static_cast<size_t>(in.gcount()) != bytes.size() || in.peek() != EOF)
    throw Error("read_idx: cannot read " + path + ": its size changes");
  return bytes;
}

uint32_t big_endian(const uint8_t* p) {
  return uint32_t{p[0]} << 24 | uint32_t{p[1]} << 16 | uint32_t{p[2]} << 8 | uint32_t{p[3]};
}

struct Header {
  DType dtype = u8;
  std::vector<int64_t> dims;
  size_t bytes = 0;  // of the header
  size_t total = 0;  // of header and data
};

// True once `bytes` holds the whole header; throws when it is none.
bool parse(const std::string& path, const Bytes& bytes, Header& header) {
  if (bytes.size() < 4) return false;
  const uint32_t magic = big_endian(bytes.data());
  const uint32_t type = magic >> 8 & 0xff, rank = magic & 0xff;
  switch (magic >> 16 == 0 ? type : 0) {
    case 0x08:
      header.dtype = u8;
      break;
    case 0x09:
      header.dtype = i8;
      break;
    case 0x0C:
      header.dtype = i32;
      break;
    case 0x0D:
      header.dtype = f32;
      break;
    case 0x0E:
      header.dtype = f64;
      break;
    default:
      bad(path, "magic number " + hex(magic) +
                    "; expected 0x0000TTRR, an IDX file of type TT 08, 09, 0c, 0d or 0e");
  }
  if (rank < 1 || rank > static_cast<uint32_t>(kMaxRank))
    bad(path, std::to_string(rank) + " axes; expected 1 to " + std::to_string(kMaxRank));
  header.bytes = 4 + 4 * rank;
  if (bytes.size() < header.bytes) return false;
  header.dims.clear();
  uint64_t total = static_cast<uint64_t>(size_of(header.dtype));
  bool overflow = false, empty = false;
  for (uint32_t i = 0; i < rank; ++i) {
    const uint32_t d = big_endian(bytes.data() + 4 + 4 * i);
    header.dims.push_back(d);
    empty |= d == 0;
    overflow |= __builtin_mul_overflow(total, uint64_t{d}, &total);
  }
  if (empty) total = 0;
  if (!empty && (overflow || total > (uint64_t{1} << 48)))
    bad(path, "shape " + to_string(Shape(std::span<const int64_t>(header.dims))) +
                  "; no file is that long");
  header.total = header.bytes + static_cast<size_t>(total);
  return true;
}

[[noreturn]] void truncated(const std::string& path, size_t found, const Header& header) {
  bad(path,
      "truncated: " + std::to_string(found) + " bytes" +
          (header.total ? " (unpacked); expected " + std::to_string(header.total) + " for shape " +
                              to_string(Shape(std::span<const int64_t>(header.dims)))
                        : "; expected at least a header"));
}

// Unpacks as much as the IDX header inside promises, and checks that it is all there is.
Bytes unpack(const std::string& path, Bytes packed, Header& header) {
  z_stream z{};
  if (inflateInit2(&z, 16 + MAX_WBITS) != Z_OK) throw OutOfMemory("read_idx: zlib: no memory");
  const std::unique_ptr<z_stream, int (*)(z_stream*)> guard(&z, &inflateEnd);
  Bytes out;
  bool parsed = false;
  size_t taken = 0;
  for (int status = Z_OK; status != Z_STREAM_END;) {
    const size_t old = out.size();
    // Grows with what was really there: a header that lies costs nothing.
    const size_t room = std::max<size_t>(size_t{1} << 16, old / 2);
    out.resize(old + (parsed ? std::min(room, header.total + 1 - old) : room));
    z.next_out = out.data() + old;
    z.avail_out = static_cast<uInt>(std::min<size_t>(out.size() - old, size_t{1} << 30));
    const size_t offered = z.avail_out;
    if (z.avail_in == 0) {
      z.next_in = packed.data() + taken;
      z.avail_in = static_cast<uInt>(std::min<size_t>(packed.size() - taken, size_t{1} << 30));
      taken += z.avail_in;
    }
    status = inflate(&z, Z_NO_FLUSH);
    out.resize(old + offered - z.avail_out);
    if (status == Z_MEM_ERROR) throw OutOfMemory("read_idx: zlib: no memory");
    if (status == Z_DATA_ERROR || status == Z_NEED_DICT || status == Z_STREAM_ERROR)
      bad(path, std::string("damaged gzip data: ") + (z.msg ? z.msg : "stream error") + " after " +
                    std::to_string(out.size()) + " unpacked bytes");
    if (!parsed) parsed = parse(path, out, header);
    if (parsed && out.size() > header.total)
      bad(path, "more data than the " + std::to_string(header.total) + " bytes its shape " +
                    to_string(Shape(std::span<const int64_t>(header.dims))) + " needs");
    if (status != Z_STREAM_END && z.avail_in == 0 && taken == packed.size() && z.avail_out != 0)
      bad(path, "truncated gzip file: its data end after " + std::to_string(out.size()) +
                    " unpacked bytes" +
                    (parsed ? "; expected " + std::to_string(header.total) : ""));
  }
  const size_t rest = packed.size() - taken + z.avail_in;
  if (rest != 0) bad(path, std::to_string(rest) + " bytes after the end of the gzip data");
  return out;
}

}  // namespace

Tensor read_idx(const std::string& path) {
  Bytes bytes = read_file(path);
  Header header;
  if (bytes.size() >= 2 && bytes[0] == 0x1f && bytes[1] == 0x8b)
    bytes = unpack(path, std::move(bytes), header);
  if (!parse(path, bytes, header) || bytes.size() < header.total)
    truncated(path, bytes.size(), header);
  if (bytes.size() > header.total)
    bad(path, std::to_string(bytes.size() - header.total) + " bytes too many; expected " +
                  std::to_string(header.total) + " for shape " +
                  to_string(Shape(std::span<const int64_t>(header.dims))));
  const size_t width = static_cast<size_t>(size_of(header.dtype));
  uint8_t* data = bytes.data() + header.bytes;
  if (width > 1 && std::endian::native == std::endian::little)
    for (uint8_t *p = data, *end = bytes.data() + header.total; p != end; p += width)
      std::reverse(p, p + width);
  Tensor out = allocate(cpu(), make_meta(header.dtype, header.dims));
  if (header.total > header.bytes) std::memcpy(out.data_ptr(), data, header.total - header.bytes);
  return out;
}

Dataset mnist(const std::string& directory, Split split) {
  const std::string stem = split == Split::train ? "train" : "t10k";
  const auto find = [&](const std::string& kind) {
    const std::filesystem::path plain =
        std::filesystem::path(directory) / (stem + "-" + kind + "-ubyte");
    std::string packed = plain.string() + ".gz";
    if (std::filesystem::exists(packed)) return packed;
    if (std::filesystem::exists(plain)) return plain.string();
    throw Error("mnist: there is neither " + packed + " nor " + plain.string() +
                "; expected MNIST's four files in that directory");
  };
  const std::string image_path = find("images-idx3"), label_path = find("labels-idx1");
  const Tensor images = read_idx(image_path), labels = read_idx(label_path);
  if (images.dtype() != u8 || images.ndim() != 3 || images.shape()[1] != 28 ||
      images.shape()[2] != 28)
    bad(image_path, "shape " + to_string(images.shape()) + ", dtype " + name(images.dtype()) +
                        "; expected (N,28,28) u8");
  if (labels.dtype() != u8 || labels.ndim() != 1)
    bad(label_path, "shape " + to_string(labels.shape()) + ", dtype " + name(labels.dtype()) +
                        "; expected (N,) u8");
  const int64_t n = images.shape()[0];
  if (labels.shape()[0] != n)
    bad(label_path, std::to_string(labels.shape()[0]) + " labels; expected " + std::to_string(n) +
                        ", as many as there are images in " + image_path);
  const uint8_t* digit = static_cast<const uint8_t*>(labels.data_ptr());
  for (int64_t i = 0; i < n; ++i)
    if (digit[i] > 9)
      bad(label_path, "label " + std::to_string(digit[i]) + " at position " + std::to_string(i) +
                          "; expected 0 to 9");
  Tensor pixels = allocate(cpu(), make_meta(f32, Shape{n, 28 * 28}));
  Tensor classes = allocate(cpu(), make_meta(i32, Shape{n}));
  const uint8_t* pixel = static_cast<const uint8_t*>(images.data_ptr());
  float* to = static_cast<float*>(pixels.data_ptr());
  for (int64_t i = 0, size = images.size(); i < size; ++i)
    to[i] = static_cast<float>(pixel[i]) / 255.0f;
  std::copy(digit, digit + n, static_cast<int32_t*>(classes.data_ptr()));
  return {pixels, classes};
}

}  // namespace locus::data
