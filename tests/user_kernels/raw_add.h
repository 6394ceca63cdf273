// A raw kernel that adds: what tests of launches launch.
#pragma once

#include <locus/ops/raw_kernels.h>

namespace locus::test {

inline constexpr const char* kAdd = R"(
extern "C" __global__ void add(const float* x, const float* y, float* z, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) z[i] = x[i] + y[i];
})";

inline const RawKernel& add() {
  static const RawKernel kernel(kAdd, "add");
  return kernel;
}

}  // namespace locus::test
