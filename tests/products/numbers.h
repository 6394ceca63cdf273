// Operands whose products are exact, and exact comparison.
#pragma once

#include <vector>

#include "tests/tape/gradcheck.h"

namespace locus::test {

// Whole numbers from -2 to 2, so that sums have the same bits in any order.
inline Tensor numbers(const Shape& shape, Context c, DType d = f64, int variant = 0) {
  std::vector<double> v;
  for (int64_t i = 0; i < shape.size(); ++i)
    v.push_back(static_cast<double>((i * 7 + variant * 3) % 5 - 2));
  return from_values(v, shape, c, d);
}

inline void expect_equal(const Tensor& got, const Tensor& wanted) {
  EXPECT_EQ(got.shape(), wanted.shape());
  EXPECT_EQ(got.dtype(), wanted.dtype());
  EXPECT_EQ(values(got), values(wanted));
}

}  // namespace locus::test
