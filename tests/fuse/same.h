// Whether two tensors have the same bits, or differ by rounding.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include <locus/core/tensor.h>
#include <locus/ops/copy.h>

namespace locus::test {

// Any NaN is the same as another.
inline void expect_same(const Tensor& got, const Tensor& wanted) {
  ASSERT_EQ(got.defined(), wanted.defined());
  if (!got.defined()) return;
  ASSERT_EQ(describe(got), describe(wanted));
  EXPECT_EQ(got.strides(), wanted.strides());
  const auto a = got.to_vector<double>(), b = wanted.to_vector<double>();
  for (size_t i = 0; i < a.size(); ++i) {
    const bool same = std::memcmp(&a[i], &b[i], sizeof a[i]) == 0 || (a[i] != a[i] && b[i] != b[i]);
    ASSERT_TRUE(same) << "element " << i << " is " << a[i] << ", expected " << b[i];
  }
}

// What a sum in another order may differ by: some units in the last place of its largest element.
// Those of 16 bits are added in f32.
inline void expect_close(const Tensor& got, const Tensor& wanted) {
  ASSERT_EQ(got.defined(), wanted.defined());
  if (!got.defined()) return;
  ASSERT_EQ(describe(got), describe(wanted));
  const auto a = got.to_vector<double>(), b = wanted.to_vector<double>();
  double largest = 0;
  for (const double v : b)
    if (std::isfinite(v)) largest = std::max(largest, std::abs(v));
  const double unit = got.dtype() == f64    ? 0x1p-52
                      : got.dtype() == f16  ? 0x1p-10
                      : got.dtype() == bf16 ? 0x1p-7
                      : got.dtype() == f32  ? 0x1p-23
                                            : 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const bool close =
        a[i] == b[i] || (a[i] != a[i] && b[i] != b[i]) ||
        std::abs(a[i] - b[i]) <= (size_of(got.dtype()) == 2 ? 2 : 32) * unit * largest;
    ASSERT_TRUE(close) << "element " << i << " is " << a[i] << ", expected " << b[i];
  }
}

}  // namespace locus::test
