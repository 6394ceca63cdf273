#include "axpby.h"

namespace {

__global__ void axpby_kernel(float a, const float* x, float b, const float* y, float* z,
                             int64_t n) {
  const int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x;
  if (i < n) z[i] = a * x[i] + b * y[i];
}

}  // namespace

void axpby_gpu(const locus::Call& call) {
  const auto [a, b] = call.attributes<AxpbyAttrs>();
  const int64_t n = call.out[0].meta.size();
  constexpr int kBlock = 256;
  axpby_kernel<<<static_cast<unsigned>((n + kBlock - 1) / kBlock), kBlock, 0,
                 static_cast<cudaStream_t>(call.stream.native)>>>(
      static_cast<float>(a), call.in[0].as<float>(), static_cast<float>(b), call.in[1].as<float>(),
      call.out[0].as<float>(), n);
}
