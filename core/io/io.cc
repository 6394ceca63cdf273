#include <locus/core/io.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include <locus/core/base/at_line.h>
#include <locus/core/base/empty_tensor.h>
#include <locus/core/base/recording_hooks.h>
#include <locus/core/error.h>
#include <locus/core/io/atomic_file.h>
#include <locus/core/memory/storage.h>
#include <locus/core/observe/memory_events.h>

namespace locus {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

constexpr uint64_t kMagic = 0x112;
constexpr uint32_t kV1 = 0xF993FAC8, kV2 = 0xF993FAC9, kV3 = 0xF993FACA;
// MXNet's dtype flags, in DType's order.
constexpr int32_t kFlags[kNumDTypes] = {0, 1, 2, 12, 4, 6, 3, 5, 7};

std::string reason(int code) { return std::generic_category().message(code); }

// Collects small fields, so that a header is one write.
class Header {
 public:
  template <class T>
  Header& put(T v) {
    bytes_.append(reinterpret_cast<const char*>(&v), sizeof v);
    return *this;
  }
  Header& put_text(const std::string& s) {
    put(uint64_t{s.size()});
    bytes_ += s;
    return *this;
  }
  void write(AtomicFile& file) {
    file.write(bytes_.data(), bytes_.size());
    bytes_.clear();
  }

 private:
  std::string bytes_;
};

// Reads a file front to back. Every length in it is checked against the bytes left.
class Reader : NonCopyable {
 public:
  explicit Reader(const std::string& path) : path_(path) {
    std::error_code why;
    size_ = std::filesystem::file_size(path, why);
    if (!why) file_.open(path, std::ios::binary);
    if (!file_.is_open())
      throw Error("load: cannot open ", path, ": ", why ? why.message() : reason(errno));
  }

  uint64_t offset() const { return offset_; }
  uint64_t left() const { return size_ - offset_; }

  void read(void* out, uint64_t bytes, const char* what) {
    if (bytes > left()) truncated(offset_, text_of(what, " takes ", bytes, " bytes, but "), " are");
    file_.read(static_cast<char*>(out), static_cast<std::streamsize>(bytes));
    if (file_.bad()) throw Error("load: cannot read ", path_, ": ", reason(errno));
    if (!file_) fail(offset_, "the file became shorter inside ", what);
    offset_ += bytes;
  }
  template <class T>
  T get(const char* what) {
    T v;
    read(&v, sizeof v, what);
    return v;
  }
  [[noreturn]] void truncated(uint64_t at, const std::string& what, const char* verb) const {
    fail(at, what, left(), verb, " left: the file is truncated or damaged");
  }
  [[noreturn]] void fail(uint64_t at, const auto&... what) const {
    throw FormatError("load: ", path_, ", offset ", at, ": ", what...);
  }

 private:
  std::string path_;
  std::ifstream file_;
  uint64_t size_ = 0, offset_ = 0;
};

std::string hex(uint64_t v) { return formatted("0x%" PRIx64, v); }

DType read_dtype(Reader& file) {
  const uint64_t at = file.offset();
  const int32_t flag = file.get<int32_t>("a dtype");
  for (int i = 0; i < kNumDTypes; ++i)
    if (kFlags[i] == flag) return static_cast<DType>(i);
  file.fail(at, "dtype ", flag, flag == 8 ? " (int16)" : "",
            "; expected 0 float32, 1 float64, 2 float16, 3 uint8, 4 int32, 5 int8, 6 int64, 7 bool "
            "or 12 bfloat16");
}

// Reads an array after its shape. Lengths are checked against the file before any allocation.
Tensor read_data(Reader& file, const std::vector<int64_t>& dims, uint64_t shape_at, Context to,
                 Caller from) {
  file.get<int32_t>("a context");
  file.get<int32_t>("a context");
  const DType dtype = read_dtype(file);
  Meta meta;
  try {
    meta = make_meta(dtype, dims);
  } catch (const ShapeError& e) {
    file.fail(shape_at, e.what());
  }
  const size_t bytes = bytes_of(meta);
  if (bytes > file.left())
    file.truncated(file.offset(),
                   text_of("an array of shape ", Shape(meta), " and dtype ", name(dtype),
                           " does not fit in the "),
                   " bytes");
  Tensor host = allocate(is_host(to) ? to : Context{}, meta);
  uint8_t* const data = static_cast<uint8_t*>(host.impl().view.data);
  file.read(data, bytes, "an array's data");
  if (dtype == bool_)
    for (uint8_t* p = data; p != data + bytes; ++p) *p = *p != 0;
  return host.as_in_context(to, from);
}

int read_rank(Reader& file, int64_t rank, uint64_t at) {
  if (rank < 0 || rank > kMaxRank) file.fail(at, rank, " axes; expected 0 to ", kMaxRank);
  return static_cast<int>(rank);
}

// Undefined for MXNet's "none".
Tensor read_array(Reader& file, Context to, Caller from) {
  const uint64_t at = file.offset();
  const uint32_t tag = file.get<uint32_t>("an array's tag");
  std::vector<int64_t> dims;
  if (tag != kV1 && tag != kV2 && tag != kV3) {  // V0: the tag is the rank
    if (tag > 32)
      file.fail(at, "array tag ", hex(tag),
                "; expected 0xf993fac8 (V1), 0xf993fac9 (V2), 0xf993faca (V3) or a rank");
    if (tag == 0) return {};
    for (int i = read_rank(file, tag, at); i > 0; --i)
      dims.push_back(file.get<uint32_t>("an axis length"));
    return read_data(file, dims, at, to, from);
  }
  if (tag != kV1) {
    const uint64_t stype_at = file.offset();
    const int32_t stype = file.get<int32_t>("a storage type");
    if (stype == 1 || stype == 2)
      file.fail(stype_at, stype == 1 ? "a row_sparse" : "a csr",
                " array; only dense ones can be read: store it with tostype('default')");
    if (stype != 0) file.fail(stype_at, "storage type ", stype, "; expected 0 (dense)");
  }
  const uint64_t rank_at = file.offset();
  const int32_t rank = file.get<int32_t>("a rank");
  if (tag == kV3 ? rank == -1 : rank == 0) return {};
  bool unknown = false;
  for (int i = read_rank(file, rank, rank_at); i > 0; --i) {
    dims.push_back(file.get<int64_t>("an axis length"));
    unknown |= dims.back() == -1;
  }
  if (tag == kV3 && unknown) return {};
  return read_data(file, dims, rank_at, to, from);
}

}  // namespace

const Tensor* find_in(const NamedTensors& all, const std::string& name) {
  const auto at = std::ranges::find(all, name, &NamedTensors::value_type::first);
  return at == all.end() ? nullptr : &at->second;
}

void save(const std::string& path, const NamedTensors& tensors, Caller from) try {
  const UserLine user_line(from);
  size_t named = 0;
  for (const auto& [key, tensor] : tensors) {
    detail::expect_tensor("save", tensor, path, ": '", key, "'");
    named += !key.empty();
  }
  if (named != 0 && named != tensors.size())
    throw Error("save: ", path, ": ", named, " of ", tensors.size(),
                " tensors have names; expected all or none");
  AtomicFile file("save", path);
  Header header;
  header.put(kMagic).put(uint64_t{0}).put(uint64_t{tensors.size()});
  std::vector<unsigned char> data;
  for (const auto& [key, tensor] : tensors) {
    const Shape shape = tensor.shape();
    // V2 has no scalar (its rank 0 means "none"); V3 does.
    header.put(shape.rank() == 0 ? kV3 : kV2).put(int32_t{0}).put(int32_t{shape.rank()});
    for (int64_t d : shape) header.put(d);
    header.put(static_cast<int32_t>(DeviceType::cpu)).put(int32_t{0});
    header.put(kFlags[static_cast<int>(tensor.dtype())]);
    header.write(file);
    data.resize(static_cast<size_t>(tensor.size()) * static_cast<size_t>(size_of(tensor.dtype())));
    tensor.to_host(data.data(), tensor.dtype(), from);
    file.write(data.data(), data.size());
  }
  header.put(uint64_t{named});
  if (named != 0)
    for (const auto& [key, tensor] : tensors) header.put_text(key);
  header.write(file);
  file.commit();
} catch (const Error&) {
  rethrow_at(from);
}

NamedTensors load(const std::string& path, Context to, Caller from) try {
  const UserLine user_line(from);
  capture::check("load", "the host reads a file; load before");
  Reader file(path);
  const uint64_t magic = file.get<uint64_t>("the file's magic number");
  if (magic != kMagic)
    file.fail(0, "magic number ", hex(magic), "; expected 0x112 (MXNet's .params)",
              (magic & 0xffff) == 0x4b50 ? ". This is a zip archive, perhaps an .npz" : "");
  file.get<uint64_t>("the reserved field");
  const uint64_t count_at = file.offset(), count = file.get<uint64_t>("the number of arrays");
  if (count > file.left() / sizeof(uint32_t))
    file.truncated(count_at, text_of(count, " arrays, but "), " bytes are");
  NamedTensors out;
  for (uint64_t i = 0; i < count; ++i) out.emplace_back(std::string(), read_array(file, to, from));
  const uint64_t names_at = file.offset(), names = file.get<uint64_t>("the number of names");
  if (names != 0 && names != count)
    file.fail(names_at, names, " names for ", count, " arrays; expected as many, or none");
  for (uint64_t i = 0; i < names; ++i) {
    const uint64_t at = file.offset(), length = file.get<uint64_t>("a name's length");
    if (length > file.left())
      file.truncated(at, text_of("a name of ", length, " bytes, but "), " are");
    out[i].first.resize(length);
    file.read(out[i].first.data(), length, "a name");
  }
  if (file.left() != 0)
    file.fail(file.offset(), file.left(), " bytes after the end of the last name");
  return out;
} catch (const Error&) {
  rethrow_at(from);
}

}  // namespace locus
