#include <locus/core/scratch.h>
#include <locus/devices/cuda/cuda_check.h>
#include <locus/devices/cuda/cuda_signals.h>
#include <locus/ops/convolution/join_parts.h>
#include <locus/ops/convolution/patch_cuda.h>
#include <locus/ops/convolution/patch_weight_tile.h>

namespace locus::cuda {
namespace {

using PatchKernel = void (*)(GatheredProducts, GatheredMemory<float>, PatchPlan);
PatchKernel kernel_of(const PatchPlan& plan) {
  if (plan.tile_m == 8) return plan.across == 3 ? &patch_kernel<8, 3> : &patch_kernel<8, 5>;
  return plan.across == 3 ? &patch_kernel<10, 3> : &patch_kernel<10, 5>;
}
using WeightKernel = void (*)(GatheredProducts, GatheredMemory<float>, WeightPatchPlan, int64_t);
WeightKernel kernel_of(const WeightPatchPlan& plan) {
  if (plan.tile_m == 20) return &patch_weight_kernel<20, 1>;
  if (plan.tile_m == 10)
    return plan.tile_n == 1 ? &patch_weight_kernel<10, 1> : &patch_weight_kernel<10, 4>;
  return plan.tile_n == 1 ? &patch_weight_kernel<8, 1> : &patch_weight_kernel<8, 4>;
}

PatchDevice device_of(const Call& call) {
  const auto number = [&](cudaDeviceAttr which) {
    int n = 0;
    LOCUS_CUDA(cudaDeviceGetAttribute(&n, which, call.stream.context.index));
    return n;
  };
  return {multiprocessors(call.stream), number(cudaDevAttrMaxSharedMemoryPerBlockOptin),
          number(cudaDevAttrMaxSharedMemoryPerMultiprocessor)};
}

// Shared memory: always as much, so that no launch takes it from another's.
void allow(auto kernel, int64_t bytes, const PatchDevice& device) {
  if (bytes > 48 << 10)
    LOCUS_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    static_cast<int>(patches::most_bytes(device))));
}

}  // namespace

bool multiply_patches(const Call& call, const GatheredProducts& products,
                      GatheredMemory<float> memory) {
  const PatchDevice device = device_of(call);
  const auto plan =
      plan_patches(products, kLongestSum, memory.mask_b != nullptr, device, kMaxCounters);
  if (!plan) return false;
  const GatheredProduct& p = products.each[0];
  memory.quads =
      aligned(memory.c, 16) && products.c_group % 4 == 0 && p.c_row % 4 == 0 && in_quads(p.column);
  const int64_t tiles = int64_t{plan->tiles_m} * plan->tiles_n, places = tiles * products.groups;
  const int64_t size = int64_t{plan->tile_m} * plan->tile_n * plan->threads;
  const bool cut = plan->splits > 1;
  const Scratch partial(
      call, cut ? static_cast<size_t>(places * plan->splits * size) * sizeof(float) : 0);
  memory.partial = partial.as<float>();
  memory.arrived = cut ? counters(call.stream, static_cast<int>(places)) : nullptr;
  const PatchKernel kernel = kernel_of(*plan);
  allow(kernel, plan->bytes, device);
  const dim3 grid(static_cast<unsigned>(tiles), static_cast<unsigned>(plan->splits),
                  static_cast<unsigned>(products.groups));
  kernel<<<grid, plan->threads, plan->bytes, stream(call)>>>(products, memory, *plan);
  return true;
}

bool weight_patches(const Call& call, const GatheredProducts& products,
                    GatheredMemory<float> memory) {
  if (!aligned(memory.a, 16) || (memory.mask_a != nullptr && !aligned(memory.mask_a, 16)))
    return false;
  const PatchDevice device = device_of(call);
  const auto plan = plan_weight_patches(products, kLongestSum, memory.mask_a != nullptr, device);
  if (!plan) return false;
  const GatheredProduct& p = products.each[0];
  const int64_t weights = int64_t{products.groups} * p.m * p.column.count,
                size = weights + (memory.row_sum ? int64_t{products.groups} * p.m : 0);
  const bool cut = plan->splits > 1;
  const Scratch parts(call, cut ? static_cast<size_t>(plan->splits * size) * sizeof(float) : 0);
  float *const dw = memory.c, *const db = memory.row_sum;
  if (cut) {
    memory.c = parts.as<float>();
    if (db) memory.row_sum = memory.c + weights;
  }
  const WeightKernel kernel = kernel_of(*plan);
  allow(kernel, plan->bytes, device);
  const dim3 grid(static_cast<unsigned>(plan->tiles_m * plan->tiles_n),
                  static_cast<unsigned>(plan->splits), static_cast<unsigned>(products.groups));
  kernel<<<grid, plan->threads, plan->bytes, stream(call)>>>(products, memory, *plan, size);
  if (cut) join_parts(call, memory.c, plan->splits, weights, size, dw, db);
  return true;
}

}  // namespace locus::cuda
