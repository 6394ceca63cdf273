// The .params format: golden bytes, old versions, round trips, errors.
#include "tests/support/contexts.h"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include <locus/core/error.h>
#include <locus/core/io.h>
#include <locus/core/io/atomic_file.h>
#include <locus/ops/copy.h>
#include <locus/ops/create.h>
#include "tests/support/folder.h"

namespace locus {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class Io : public testing::Test {
 protected:
  std::string path(const std::string& name = "x.params") const { return (dir_ / name).string(); }
  std::string write(const std::string& bytes) const {
    std::ofstream(path(), std::ios::binary) << bytes;
    return path();
  }
  std::string read() const {
    std::ifstream in(path(), std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  std::string refusal(const std::string& bytes) const {
    const std::string file = write(bytes);
    return test::message_of<FormatError>([&] { load(file); });
  }
  const test::Folder own_;
  const std::filesystem::path dir_ = own_.path;
};

std::string hex(const std::string& digits) {
  std::string bytes, pair;
  for (char c : digits) {
    if (c == ' ') continue;
    pair += c;
    if (pair.size() == 2) {
      bytes += static_cast<char>(std::stoi(pair, nullptr, 16));
      pair.clear();
    }
  }
  return bytes;
}
const std::string kFile = "1201000000000000 0000000000000000 ";
const std::string kSixOnes = "0000803f 0000803f 0000803f 0000803f 0000803f 0000803f ";
const std::string kNameW = "0100000000000000 0100000000000000 77";
std::string golden() {
  return hex(kFile +
             "0100000000000000 c9fa93f9 00000000 02000000 0200000000000000 0300000000000000 "
             "01000000 00000000 00000000" +
             kSixOnes + kNameW);
}

TEST_F(Io, WritesMxnetsBytes) {
  for (Context c : test::contexts()) {
    SCOPED_TRACE(to_string(c));
    save(path(), {{"w", ones({2, 3}, c)}});
    EXPECT_EQ(read(), golden());
  }
}

TEST_F(Io, ReadsMxnetsBytesOntoAnyContext) {
  write(golden());
  for (Context c : test::distinct_contexts()) {
    SCOPED_TRACE(to_string(c));
    const NamedTensors file = load(path(), c);
    ASSERT_EQ(file.size(), 1u);
    EXPECT_EQ(file[0].first, "w");
    EXPECT_EQ(file[0].second.context(), c);
    EXPECT_EQ(file[0].second.shape(), (Shape{2, 3}));
    EXPECT_EQ(test::values(file[0].second), std::vector<double>(6, 1.0));
  }
}

TEST_F(Io, ReadsEveryVersion) {
  const std::string context_and_dtype = "02000000 03000000 00000000 ";  // saved on gpu(3)
  const std::string data = "0000803f 00000040 ";
  const std::string v0 = "01000000 02000000 " + context_and_dtype + data;
  const std::string v1 = "c8fa93f9 01000000 0200000000000000 " + context_and_dtype + data;
  const std::string v2 = "c9fa93f9 00000000 01000000 0200000000000000 " + context_and_dtype + data;
  const std::string v3 = "cafa93f9 00000000 01000000 0200000000000000 " + context_and_dtype + data;
  write(hex(kFile + "0400000000000000 " + v0 + v1 + v2 + v3 + "0000000000000000"));
  const NamedTensors file = load(path());
  ASSERT_EQ(file.size(), 4u);
  for (const auto& [name, tensor] : file) {
    EXPECT_EQ(name, "");
    EXPECT_EQ(tensor.context(), cpu());
    EXPECT_THAT(test::values(tensor), ElementsAre(1, 2));
  }
}

TEST_F(Io, NoneIsAnUndefinedTensor) {
  write(hex(kFile + "0200000000000000 c9fa93f9 00000000 00000000 cafa93f9 00000000 ffffffff "
                    "0000000000000000"));
  const NamedTensors file = load(path());
  ASSERT_EQ(file.size(), 2u);
  EXPECT_FALSE(file[0].second.defined());
  EXPECT_FALSE(file[1].second.defined());
}

TEST_F(Io, RoundTripsEveryDtypeAndShape) {
  NamedTensors tensors;
  for (DType d : {f32, f64, f16, bf16, i32, i64, u8, i8, bool_}) {
    tensors.emplace_back(std::string(name(d)) + ".matrix", sample_values(cpu(), d, {3, 5}));
    tensors.emplace_back(std::string(name(d)) + ".scalar", sample_values(cpu(), d, {}));
    tensors.emplace_back(std::string(name(d)) + ".empty", zeros({2, 0, 3}, {cpu(), d}));
  }
  save(path(), tensors);
  const NamedTensors back = load(path());
  ASSERT_EQ(back.size(), tensors.size());
  for (size_t i = 0; i < back.size(); ++i) {
    SCOPED_TRACE(tensors[i].first);
    EXPECT_EQ(back[i].first, tensors[i].first);
    EXPECT_EQ(back[i].second.dtype(), tensors[i].second.dtype());
    EXPECT_EQ(back[i].second.shape(), tensors[i].second.shape());
    EXPECT_EQ(test::values(back[i].second), test::values(tensors[i].second));
  }
}

TEST_F(Io, WritesViewsRowMajor) {
  save(path(), {{"t", array({{1.f, 2.f}, {3.f, 4.f}}).T()}});
  EXPECT_THAT(test::values(load(path())[0].second), ElementsAre(1, 3, 2, 4));
}

TEST_F(Io, EveryTruncationIsRefusedWithItsOffset) {
  const std::string whole = golden();
  for (size_t n = 0; n < whole.size(); ++n) {
    const std::string text = refusal(whole.substr(0, n));
    EXPECT_THAT(text, HasSubstr(path())) << n;
    EXPECT_THAT(text, HasSubstr("offset ")) << n;
  }
}

TEST_F(Io, NothingMayFollowTheLastName) {
  EXPECT_THAT(refusal(golden() + "x"), HasSubstr("offset 105: 1 bytes after the end"));
}

TEST_F(Io, LyingLengthsAllocateNothing) {
  // 2^40 arrays; 2^62 elements; lengths whose product overflows; a name of 2^63 bytes.
  EXPECT_THAT(refusal(hex(kFile + "0000000000010000 ")), HasSubstr("arrays"));
  const std::string head = kFile + "0100000000000000 c9fa93f9 00000000 02000000 ";
  const std::string tail = "01000000 00000000 00000000 " + kSixOnes + kNameW;
  EXPECT_THAT(refusal(hex(head + "0000004000000000 0000000100000000 " + tail)),
              HasSubstr("does not fit"));
  EXPECT_THAT(refusal(hex(head + "ffffffffffffff7f ffffffffffffff7f " + tail)),
              HasSubstr("more elements than memory"));
  EXPECT_THAT(refusal(hex(head + "ffffffffffffffff 0300000000000000 " + tail)),
              HasSubstr("length -1"));
  // (0, 2^62, 4): no elements, but not a valid shape.
  const std::string three = kFile + "0100000000000000 c9fa93f9 00000000 03000000 ";
  EXPECT_THAT(refusal(hex(three + "0000000000000000 0000000000000040 0400000000000000 " + tail)),
              HasSubstr("more elements than memory"));
  std::string name = golden();
  name.replace(name.size() - 9, 8, hex("0000000000000080"));
  EXPECT_THAT(refusal(name), HasSubstr("a name of"));
}

TEST_F(Io, ForeignFieldsAreNamed) {
  const auto patched = [](size_t at, const std::string& digits) {
    std::string bytes = golden();
    const std::string patch = hex(digits);
    return bytes.replace(at, patch.size(), patch);
  };
  EXPECT_THAT(refusal(patched(0, "504b0304")), HasSubstr(".npz"));
  EXPECT_THAT(refusal(patched(24, "78563412")), HasSubstr("offset 24: array tag 0x12345678"));
  EXPECT_THAT(refusal(patched(28, "01000000")), HasSubstr("row_sparse"));
  EXPECT_THAT(refusal(patched(28, "09000000")), HasSubstr("storage type 9"));
  EXPECT_THAT(refusal(patched(32, "09000000")), HasSubstr("9 axes"));
  EXPECT_THAT(refusal(patched(60, "08000000")), HasSubstr("int16"));
  EXPECT_THAT(refusal(patched(88, "02000000")), HasSubstr("2 names for 1 arrays"));
}

TEST_F(Io, AFailedSaveLeavesTheOldFile) {
  save(path(), {{"w", ones({2, 3})}});
  EXPECT_THROW(save(path(), {{"w", ones({1})}, {"", ones({1})}}), Error);
  EXPECT_THROW(save(path(), {{"w", Tensor()}}), Error);
  EXPECT_EQ(read(), golden());
  EXPECT_THAT(test::message_of<Error>([&] { save(path("no/such/folder"), {}); }),
              HasSubstr("cannot create"));
  size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(dir_)) files += entry.exists();
  EXPECT_EQ(files, 1u) << "a temporary file was left behind";
}

TEST_F(Io, APipeIsNotReplaced) {
  ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
  EXPECT_THAT(test::message_of<Error>([&] {
                save(path("pipe"), {{"w", ones({1})}});
              }),
              HasSubstr("is a device or a pipe"));
  EXPECT_TRUE(std::filesystem::is_fifo(path("pipe")));
}

TEST_F(Io, AMissingFileIsNamed) {
  EXPECT_THAT(test::message_of<Error>([&] { load(path("none")); }), HasSubstr(path("none")));
  EXPECT_THROW(load(dir_.string()), Error);
}

TEST_F(Io, AFileOfAnotherWriterIsNoObstacle) {
  AtomicFile first("test", path());
  std::string last;
  for (const auto& entry : std::filesystem::directory_iterator(dir_)) last = entry.path();
  const size_t at = last.rfind('-') + 1;
  for (int i = 1; i < 4; ++i)  // names of the next temporary files
    std::ofstream(last.substr(0, at) + std::to_string(std::stoi(last.substr(at)) + i)) << "theirs";
  AtomicFile second("test", path());
  second.write("ours", 4);
  second.commit();
  EXPECT_EQ(read(), "ours");
}

}  // namespace
}  // namespace locus
