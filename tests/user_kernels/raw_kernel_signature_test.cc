// Signatures of raw kernels, and the checks of launches that need no device.
#include <locus/ops/raw/signature.h>

#include <locus/ops/create.h>

#include "tests/support/contexts.h"

namespace locus::raw {
namespace {

using test::message_of;
using testing::ElementsAre;
using testing::HasSubstr;

struct Small {
  int a, b;
};
struct Large {
  double a;
  int b;
};

std::vector<std::string> texts(std::string_view signature) {
  std::vector<std::string> all;
  for (const Parameter& p : parse_signature("k", signature)) {
    const std::string value = p.any ? "?" : p.pointer ? p.type + "*" : p.type;
    all.push_back(p.constant ? "const " + value : value);
  }
  return all;
}

TEST(RawSignature, NamesTypes) {
  EXPECT_THAT(texts("f32* f32* i32"), ElementsAre("f32*", "f32*", "i32"));
  EXPECT_THAT(texts("const float *, double*,int,unsigned  bool half*"),
              ElementsAre("const f32*", "f64*", "i32", "u32", "bool", "f16*"));
  EXPECT_THAT(texts("* const * ? i64, *"), ElementsAre("*", "const *", "?", "i64", "*"));
  EXPECT_THAT(texts("uint8_t*i16"), ElementsAre("u8*", "i16"));
  EXPECT_THAT(texts(" "), ElementsAre());
}

TEST(RawSignature, NamesOfSeveralWordsAreOneType) {
  EXPECT_THAT(texts("unsigned int, long long, const unsigned  long long *, unsigned char*"),
              ElementsAre("u32", "i64", "const u64*", "u8*"));
  EXPECT_THAT(texts("unsigned long long int short short int char size_t long, long"),
              ElementsAre("u64", "i16", "i16", "i8", "u64", "i64", "i64"));
  EXPECT_THAT(texts("unsigned f32 int unsigned"), ElementsAre("u32", "f32", "i32", "u32"));
}

TEST(RawSignature, RefusesOtherWords) {
  for (const auto& [text, word] : {std::pair{"f32* float4", "float4"},
                                   {"f32 const", "const"},
                                   {"const const f32*", "const const"},
                                   {"f32 i3", "i3"}})
    EXPECT_THAT(message_of<ValueError>([&] { parse_signature("k", text); }),
                HasSubstr(text_of("k: the signature \"", text, "\" has \"", word, "\"; expected")));
}

void check(std::string_view signature, std::initializer_list<RawArg> args) {
  check_signature("k", parse_signature("k", signature), {args.begin(), args.size()});
}

TEST(RawSignature, SuitsArgumentsOfItsTypes) {
  const Tensor x = zeros({2}), n = zeros({2}, i32);
  check("f32* i32* i32 f32 f64 bool u8 i64 ?",
        {x, n, 1, 1.0f, 1.0, true, uint8_t{1}, int64_t{1}, Small{1, 2}});
  check("* f32* *", {x, x.data_ptr(), nullptr});
  check("", {});
}

TEST(RawSignature, RefusesArgumentsOfOtherTypes) {
  const Tensor x = zeros({2}), n = zeros({2}, i32);
  EXPECT_THAT(message_of<DTypeError>([&] {
                check("f32* f32*", {x, n});
              }),
              HasSubstr("k: argument 1 (cpu(0) (2,) i32) is i32*; expected f32* by the signature "
                        "(f32*, f32*); convert it"));
  EXPECT_THAT(message_of<DTypeError>([&] {
                check("f32* f32", {x, 2.5});
              }),
              HasSubstr("k: argument 1 (f64, 8 bytes) is f64; expected f32"));
  EXPECT_THAT(message_of<DTypeError>([&] { check("u32", {1}); }),
              HasSubstr("is i32; expected u32"));
  EXPECT_THAT(message_of<DTypeError>([&] { check("f32", {x}); }),
              HasSubstr("is f32*; expected f32"));
  EXPECT_THAT(message_of<DTypeError>([&] { check("i32*", {1}); }), HasSubstr("expected i32*"));
  EXPECT_THAT(message_of<DTypeError>([&] {
                check("i64", {Small{1, 2}});
              }),
              HasSubstr("argument 0 (8 bytes) is 8 bytes; expected i64"));
  EXPECT_THAT(message_of<ValueError>([&] { check("f32* i32", {x}); }),
              HasSubstr("k: 1 argument; expected 2 by the signature (f32*, i32)"));
}

TEST(RawSignature, ChecksNumberAndSizesOfArguments) {
  const Tensor x = zeros({2});
  const size_t sizes[] = {8, 4, 16};
  const auto checked = [&](std::initializer_list<RawArg> args) {
    check_sizes("k", {args.begin(), args.size()}, sizes);
  };
  checked({x, 1, Large{1, 2}});
  EXPECT_THAT(message_of<ValueError>([&] {
                checked({x, 2.5, Large{1, 2}});
              }),
              HasSubstr("k: argument 1 (f64, 8 bytes); the kernel's parameter 1 has 4 bytes; pass "
                        "its C++ type"));
  EXPECT_THAT(message_of<ValueError>([&] {
                checked({x, 1, true});
              }),
              HasSubstr("k: argument 2 (bool, 1 byte); the kernel's parameter 2 has 16 bytes"));
  EXPECT_THAT(message_of<ValueError>([&] {
                checked({x, 1});
              }),
              HasSubstr("k: 2 arguments: 0 (cpu(0) (2,) f32), 1 (i32, 4 bytes); the kernel has 3 "
                        "parameters, of 8, 4, 16 bytes"));
  EXPECT_THAT(message_of<ValueError>([&] { check_sizes("k", {}, sizes); }),
              HasSubstr("k: 0 arguments; the kernel has 3 parameters"));
  check_sizes("k", {}, {});
}

TEST(RawSignature, ChecksShapes) {
  for (const LaunchShape& shape :
       {LaunchShape{}, LaunchShape{.grid = {(int64_t{1} << 31) - 1, 65535, 65535}},
        LaunchShape{.block = {1024}}, LaunchShape{.block = {16, 16, 4}},
        LaunchShape{.block = {1, 1, 64}, .shared = 1 << 20}})
    check_shape("k", shape);
  const auto refused = [](const LaunchShape& shape) {
    return message_of<ValueError>([&] { check_shape("k", shape); });
  };
  EXPECT_THAT(refused({.grid = {0}}), HasSubstr("k: the grid is (0, 1, 1); expected 1 to"));
  EXPECT_THAT(refused({.grid = {1, 65536}}), HasSubstr("the grid is (1, 65536, 1)"));
  EXPECT_THAT(refused({.grid = {1, 1, -1}}), HasSubstr("the grid is (1, 1, -1)"));
  EXPECT_THAT(refused({.grid = {int64_t{1} << 31}}), HasSubstr("the grid is (2147483648, 1, 1)"));
  EXPECT_THAT(refused({.block = {1025}}), HasSubstr("k: the block is (1025, 1, 1); expected"));
  EXPECT_THAT(refused({.block = {32, 33}}), HasSubstr("(32, 33, 1), 1056 threads; expected"));
  EXPECT_THAT(refused({.block = {1, 1, 65}}), HasSubstr("the block is (1, 1, 65)"));
  EXPECT_THAT(refused({.block = {0}}), HasSubstr("the block is (0, 1, 1)"));
  EXPECT_THAT(refused({.block = {int64_t{1} << 62, 8, 8}}), HasSubstr("the block is (46116"));
  EXPECT_THAT(refused({.shared = -1}), HasSubstr("k: -1 bytes of shared memory"));
}

}  // namespace
}  // namespace locus::raw
