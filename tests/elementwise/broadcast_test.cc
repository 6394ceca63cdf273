// Operands that broadcast or have gaps: every context has the host's bits.
#include <vector>

#include <locus/locus.h>
#include "tests/support/contexts.h"

namespace locus::test {
namespace {

void expect_as_on_the_host(const auto& f, DType d) {
  const std::vector<double> wanted = values(f(cpu(0)));
  for (const Context c : end_contexts()) {
    const Tensor y = f(c);
    EXPECT_EQ(values(y), wanted) << to_string(c) << " " << name(d) << " " << y.shape();
  }
}

// Lengths that packs of 16 bytes divide, and others.
TEST(Broadcast, OfRowsAndColumns) {
  for (const DType d : {f32, f64, f16, bf16, i32, i64, u8, i8})
    for (const int64_t n : {1, 2, 3, 4, 6, 8, 12, 256, 257}) {
      expect_as_on_the_host(
          [&](Context c) {
            const Tensor x = sample_values(c, d, {3, 5, n}),
                         row = sample_values(c, d, {n}, -2, 2, 1),
                         column = sample_values(c, d, {5, 1}, -2, 2, 2);
            return stack({x + row, x * column, row * column + x, where(x > column, row, x)});
          },
          d);
    }
}

TEST(Broadcast, OfPartsThatBeginAnywhere) {
  for (const DType d : {f32, f64, f16, i64, u8})
    for (const int64_t begin : {0, 1, 2, 4})
      for (const int64_t width : {32, 33}) {
        expect_as_on_the_host(
            [&](Context c) {
              const Tensor wide = sample_values(c, d, {7, width});
              const Tensor part = slice_axis(wide, 1, Slice(begin, begin + 16));
              const Tensor row = sample_values(c, d, {17}, -2, 2, 1);
              return stack({part + slice_axis(row, 0, Slice(0, 16)),
                            part * slice_axis(row, 0, Slice(1, 17)), part + flip(part, 1)});
            },
            d);
      }
}

TEST(Broadcast, IntoPartsOfATarget) {
  for (const DType d : {f32, f64, f16, i32}) {
    expect_as_on_the_host(
        [&](Context c) {
          Tensor x = sample_values(c, d, {6, 24});
          Tensor part = slice_axis(x, 1, Slice(8, 24));
          part += sample_values(c, d, {16}, -2, 2, 1);
          part *= sample_values(c, d, {6, 1}, -2, 2, 2);
          return x;
        },
        d);
  }
}

}  // namespace
}  // namespace locus::test
