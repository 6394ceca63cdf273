// Shared by the walks over the registry: an op's samples, the reference's results, and tolerances.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include <locus/core/device.h>
#include <locus/core/op.h>
#include "tests/references/reference.h"
#include "tests/registry/run.h"
#include "tests/support/contexts.h"
#include "tests/tape/gradcheck.h"

namespace locus::test {

class RegistryWalk : public testing::TestWithParam<const Op*> {
 protected:
  const Op& op() const { return *GetParam(); }
  const Reference& reference() const { return *find_reference(op().name); }
};

// Skips the test, by name, for an op that cannot be called alone.
#define LOCUS_NEEDS_SAMPLES() \
  if (!op().samples)          \
  GTEST_SKIP() << op().name << " has no samples: " << (op().no_samples ? op().no_samples : "")
#define LOCUS_NEEDS_REFERENCE()                                                                \
  LOCUS_NEEDS_SAMPLES();                                                                       \
  ASSERT_NE(find_reference(op().name), nullptr)                                                \
      << op().name << " has samples but no reference: add one to tests/references, or beside " \
      << "the test of an op of your own (tests/references/reference.h)"
#define LOCUS_NEEDS_GRADIENT() \
  LOCUS_NEEDS_REFERENCE();     \
  if (!op().gradient)          \
  GTEST_SKIP() << op().name << " has no gradient: " << (op().no_gradient ? op().no_gradient : "")

// Views and functions take all dtypes.
inline bool has(const Op& op, DeviceType kernels, DType d) {
  return op.make_view || op.function || op.kernel(kernels, d);
}
inline std::vector<DType> dtypes(const Op& op, DeviceType kernels) {
  std::vector<DType> list;
  for (int d = 0; d < kNumDTypes; ++d)
    if (has(op, kernels, static_cast<DType>(d))) list.push_back(static_cast<DType>(d));
  return list;
}
inline std::vector<DType> dtypes(const Op& op, Context c) {
  return dtypes(op, device(c).kernels());
}

// Relative errors of results.
inline double tolerance(DType d) {
  return d == f64 ? 1e-12 : d == f16 ? 4e-3 : d == bf16 ? 3e-2 : d == f32 ? 4e-6 : 0;
}
// The largest relative error of rounding to d.
inline double rounding_unit(DType d) {
  return d == f64 ? 0x1p-53 : d == f32 ? 0x1p-24 : d == f16 ? 0x1p-11 : 0x1p-8;
}
struct Range {
  int low, high;         // exponents of the least subnormal number and of the largest power of 2
  double least, normal;  // the least number above 0, and the least normal number
  double most;
};
inline Range range(DType d) {
  switch (d) {
    case f64:
      return {-1074, 1023, 0x1p-1074, 0x1p-1022, 0x1.fffffffffffffp1023};
    case f16:
      return {-24, 15, 0x1p-24, 0x1p-14, 65504};
    case bf16:
      return {-133, 127, 0x1p-133, 0x1p-126, 0x1.fep127};
    default:
      return {-149, 127, 0x1p-149, 0x1p-126, 0x1.fffffep127};
  }
}

inline Arrays arrays_of(const Tensors& in) {
  Arrays all;
  for (const Tensor& t : in) all.push_back(array_of(t));
  return all;
}

// Tolerance of an element: `relative` times the element, plus `absolute`, plus `of_most` times the
// tensor's largest wanted element.
struct Near {
  double relative, absolute = 0, of_most = 0;
  double most = std::numeric_limits<double>::max();  // for larger, sign and half of it suffice
};
// The first difference, or "".
std::string difference(const Array& got, const Array& wanted, const Near& near);
void expect_results(const Tensors& got, const Arrays& wanted, const Near& near,
                    const std::string& what);
// For samples of moderate size in dtype d.
inline Near moderately(DType d) { return {tolerance(d), tolerance(d)}; }

// Gradients of the sum of all floating results, each times a head of about `scale`. Undefined for
// other inputs and without a gradient.
Tensors gradients_of(const Op& op, const Tensors& in, const Attrs& attrs, double scale = 1,
                     bool create_graph = false);
// Whether each element of the result comes from one element of each input.
bool is_elementwise(const Op& op);
// The gradient of input k of an elementwise op, by differences of its reference. All are
// proportional to `scale`.
//   values
//   doubt   the possible error; NaN if the reference is not smooth, or if a result or a term of the
//           gradient exceeds `most`
//   size    the sum of the absolute terms of the gradient
struct Slopes {
  Array values, doubt, size;
};
Slopes slopes(const Op& op, const Arrays& in, const Attrs& attrs, size_t k, double scale,
              double most = std::numeric_limits<double>::max());
// Along a direction, for any op: the sum of gradients times `direction`.
struct Slope {
  Real value, doubt;
};
Slope slope_along(const Op& op, const Arrays& in, const Attrs& attrs, size_t k,
                  const std::vector<Real>& direction, double scale);

}  // namespace locus::test
