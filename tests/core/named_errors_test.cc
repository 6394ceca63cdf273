// Errors name the function that the program called, also if an op that it calls finds them.
#include <functional>
#include <string>
#include <vector>

#include <locus/locus.h>
#include "tests/support/contexts.h"

namespace locus::test {
namespace {

using testing::StartsWith;

std::string finding(const std::function<void()>& f) {
  return message_of<Error>([&] {
    f();
    wait_all();
  });
}

struct Data {
  explicit Data(Context c)
      : v(arange(6, {c, f32})), small(array({1, 2, 3}, c).astype(i8)), nine(array({9}, c)) {}
  Tensor v, small, nine;
};

constexpr int64_t kHuge = int64_t{1} << 56;  // elements, more than addresses

TEST(NamedErrors, OfSizesBeyondMemory) {
  for (const Context c : end_contexts()) {
    const Data d(c);
    const auto says = [](const char* who, const std::function<void()>& f) {
      EXPECT_THAT(finding(f), StartsWith(text_of(who, ": "))) << who;
    };
    says("uniform", [&] { random::uniform(0, 1, {kHuge}, c); });
    says("permutation", [&] { random::permutation(INT64_MAX, c); });
    says("permutation", [&] { random::permutation(kHuge, c); });
    says("zeros", [&] { zeros({kHuge}, c); });
    says("eye", [&] { eye(int64_t{1} << 31, 0, 0, c); });
    says("diag", [&] { diag(d.v, int64_t{1} << 31); });
    says("tile", [&] { tile(zeros({0}, c), {int64_t{1} << 62}); });
    says("repeat", [&] { repeat(d.v, kHuge); });
  }
}

TEST(NamedErrors, OfContextsThatDoNotExist) {
  for (const Context c : end_contexts()) {
    const Context none{c.type, 999};
    EXPECT_THAT(finding([&] { random::uniform(0, 1, {3}, none); }), StartsWith("uniform: "));
    EXPECT_THAT(finding([&] { random::choice(3, {2}, {}, none); }), StartsWith("choice: "));
    EXPECT_THAT(finding([&] { arange(3, none); }), StartsWith("arange: "));
  }
}

TEST(NamedErrors, OfOpsThatTheFunctionCalls) {
  for (const Context c : end_contexts()) {
    const Data d(c);
    EXPECT_THAT(finding([&] { divmod(d.v, d.small); }), StartsWith("divmod: floor_divide: lhs"));
    EXPECT_THAT(finding([&] { compress(array({true}, c), d.v, {.out = d.nine}); }),
                StartsWith("compress: "));
    EXPECT_THAT(finding([&] { invoke("amax", {zeros({0}, c)}); }), StartsWith("amax: max: data"));
    EXPECT_THAT(finding([&] {
                  invoke("scatter_nd", {d.v, d.nine}, {{"shape", {-3}}});
                }),
                StartsWith("scatter_nd: Shape: negative length -3"));
  }
}

TEST(NamedErrors, OfIndicesNameThemOnEveryContext) {
  for (const Context c : end_contexts()) {
    const Data d(c);
    const Tensor at = d.nine.reshape({1, 1}), one = ones({1}, {c, f32});
    const Tensor order = array({0, 1, 9}, c);
    const std::string index = "index 9 is out of bounds for axis 0 with size ";
    const auto says = [&](const std::string& names, const std::function<void()>& f) {
      EXPECT_THAT(finding(f), StartsWith(names + ": " + index)) << names;
    };
    says("take_along_axis: indices: take", [&] { take_along_axis(d.v, d.nine, 0); });
    says("put_along_axis: indices: index_put", [&] { put_along_axis(d.v, d.nine, 1, 0); });
    says("gather_nd: indices: take", [&] { gather_nd(d.v, at); });
    says("scatter_nd: indices: index_put", [&] { scatter_nd(one, at, {3}); });
    says("searchsorted: sorter: take", [&] { searchsorted(d.small, 1, {.sorter = order}); });
    says("index_add", [&] { index_add(d.v, 0, d.nine, one); });
  }
}

TEST(NamedErrors, OfNumbersPrintThem) {
  for (const Context c : end_contexts()) {
    const Data d(c);
    EXPECT_THAT(finding([&] {
                  sequence_mask(ones({2, 1}, {c, i32}), d.nine, {.value = NAN});
                }),
                StartsWith("sequence_mask: the number nan does not fit"));
  }
}

}  // namespace
}  // namespace locus::test
