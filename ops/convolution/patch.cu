#include <locus/core/scratch.h>
#include <locus/devices/cuda_check.h>
#include <locus/devices/cuda_signals.h>
#include <locus/ops/convolution/join_parts.h>
#include <locus/ops/convolution/patch_cuda.h>
#include <locus/ops/convolution/patch_weight_tile.h>

namespace locus::cuda {
namespace {

using PatchKernel = void (*)(GatheredProducts, GatheredMemory<float>, PatchPlan);

PatchKernel kernel_of(const PatchPlan& p) {
  if (p.tile_m == 8) return p.across == 3 ? &patch_kernel<8, 3> : &patch_kernel<8, 5>;
  return p.across == 3 ? &patch_kernel<10, 3> : &patch_kernel<10, 5>;
}
using WeightKernel = void (*)(GatheredProducts, GatheredMemory<float>, PatchPlan, int64_t);
WeightKernel weight_kernel_of(const PatchPlan& p) {
  if (p.tile_m == 20) return &patch_weight_kernel<20, 1>;
  if (p.tile_m == 10)
    return p.tile_n == 1 ? &patch_weight_kernel<10, 1> : &patch_weight_kernel<10, 4>;
  return p.tile_n == 1 ? &patch_weight_kernel<8, 1> : &patch_weight_kernel<8, 4>;
}

// Always as much, so that no launch takes it from another's.
void allow(auto kernel, int64_t bytes) {
  if (bytes > 48 << 10)
    LOCUS_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    static_cast<int>(patches::kMostBytes)));
}

}  // namespace

bool multiply_patches(const Call& call, const GatheredProducts& products, GatheredMemory<float> m) {
  const PatchPlan plan = plan_patches(products, kLongestSum, m.mask_b != nullptr,
                                      multiprocessors(call.stream), kMaxCounters);
  if (!plan.there) return false;
  const GatheredProduct& p = products.each[0];
  m.quads = aligned(m.c, 16) && products.c_group % 4 == 0 && p.c_row % 4 == 0 && in_quads(p.column);
  const int64_t tiles = int64_t{plan.tiles_m} * plan.tiles_n, places = tiles * products.groups;
  const int64_t size = int64_t{plan.tile_m} * plan.tile_n * plan.threads;
  const bool cut = plan.splits > 1;
  const Scratch partial(call,
                        cut ? static_cast<size_t>(places * plan.splits * size) * sizeof(float) : 0);
  m.partial = partial.as<float>();
  m.arrived = cut ? counters(call.stream, static_cast<int>(places)) : nullptr;
  const PatchKernel kernel = kernel_of(plan);
  allow(kernel, plan.bytes);
  const dim3 grid(static_cast<unsigned>(tiles), static_cast<unsigned>(plan.splits),
                  static_cast<unsigned>(products.groups));
  kernel<<<grid, plan.threads, plan.bytes, stream(call)>>>(products, m, plan);
  return true;
}

bool weight_patches(const Call& call, const GatheredProducts& products, GatheredMemory<float> m) {
  if (!aligned(m.a, 16) || (m.mask_a != nullptr && !aligned(m.mask_a, 16))) return false;
  const PatchPlan plan =
      plan_weight_patches(products, m.mask_a != nullptr, multiprocessors(call.stream));
  if (!plan.there) return false;
  const GatheredProduct& p = products.each[0];
  const int64_t weights = int64_t{products.groups} * p.m * p.column.count,
                size = weights + (m.row_sum ? int64_t{products.groups} * p.m : 0);
  const bool cut = plan.splits > 1;
  const Scratch scratch(call, cut ? static_cast<size_t>(plan.splits * size) * sizeof(float) : 0);
  float *const dw = m.c, *const db = m.row_sum;
  if (cut) {
    m.c = scratch.as<float>();
    if (db) m.row_sum = m.c + weights;
  }
  const WeightKernel kernel = weight_kernel_of(plan);
  allow(kernel, plan.bytes);
  const dim3 grid(static_cast<unsigned>(plan.tiles_m * plan.tiles_n),
                  static_cast<unsigned>(plan.splits), static_cast<unsigned>(products.groups));
  kernel<<<grid, plan.threads, plan.bytes, stream(call)>>>(products, m, plan, size);
  if (cut) join_parts(call, m.c, plan.splits, weights, size, dw, db);
  return true;
}

}  // namespace locus::cuda
