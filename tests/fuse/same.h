// Whether two tensors have the same bits.
#pragma once

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

}  // namespace locus::test
