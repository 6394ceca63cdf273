#include <locus/core/scratch.h>
#include <locus/devices/cuda/check.h>
#include <locus/devices/cuda/signals.h>
#include <locus/ops/convolution/join_parts.h>
#include <locus/ops/convolution/patch_cuda.h>
#include <locus/ops/convolution/patch_weight_tile.h>

namespace locus::cuda {
namespace {

using PatchKernel = void (*)(GatheredProducts, GatheredMemory<float>, PatchTiling);
PatchKernel kernel_of(const PatchTiling& tiling) {
  if (tiling.tile_m == 8) return tiling.across == 3 ? &patch_kernel<8, 3> : &patch_kernel<8, 5>;
  return tiling.across == 3 ? &patch_kernel<10, 3> : &patch_kernel<10, 5>;
}
using WeightKernel = void (*)(GatheredProducts, GatheredMemory<float>, WeightPatchTiling, int64_t);
WeightKernel kernel_of(const WeightPatchTiling& tiling) {
  if (tiling.tile_m == 20) return &patch_weight_kernel<20, 1>;
  if (tiling.tile_m == 10)
    return tiling.tile_n == 1 ? &patch_weight_kernel<10, 1> : &patch_weight_kernel<10, 4>;
  return tiling.tile_n == 1 ? &patch_weight_kernel<8, 1> : &patch_weight_kernel<8, 4>;
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

// The same limit of shared memory each time, so no launch lowers it.
void allow(auto kernel, int64_t bytes, const PatchDevice& device) {
  if (bytes > 48 << 10)
    LOCUS_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    static_cast<int>(patches::most_bytes(device))));
}

}  // namespace

bool multiply_patches(const Call& call, const GatheredProducts& products,
                      GatheredMemory<float> memory) {
  const PatchDevice device = device_of(call);
  const auto tiling =
      choose_patch_tiling(products, kLongestSum, memory.mask_b != nullptr, device, kMaxCounters);
  if (!tiling) return false;
  const GatheredProduct& p = products.each[0];
  memory.quads =
      aligned(memory.c, 16) && products.c_group % 4 == 0 && p.c_row % 4 == 0 && in_quads(p.column);
  const int64_t tiles = int64_t{tiling->tiles_m} * tiling->tiles_n,
                places = tiles * products.groups;
  const int64_t size = int64_t{tiling->tile_m} * tiling->tile_n * tiling->threads;
  const bool cut = tiling->splits > 1;
  const Scratch partial(
      call, cut ? static_cast<size_t>(places * tiling->splits * size) * sizeof(float) : 0);
  memory.partial = partial.as<float>();
  memory.arrived = cut ? counters(call.stream, static_cast<int>(places)) : nullptr;
  const PatchKernel kernel = kernel_of(*tiling);
  allow(kernel, tiling->bytes, device);
  const dim3 grid(static_cast<unsigned>(tiles), static_cast<unsigned>(tiling->splits),
                  static_cast<unsigned>(products.groups));
  kernel<<<grid, tiling->threads, tiling->bytes, stream(call)>>>(products, memory, *tiling);
  return true;
}

bool weight_patches(const Call& call, const GatheredProducts& products,
                    GatheredMemory<float> memory) {
  if (!aligned(memory.a, 16) || (memory.mask_a != nullptr && !aligned(memory.mask_a, 16)))
    return false;
  const PatchDevice device = device_of(call);
  const auto tiling =
      choose_weight_patch_tiling(products, kLongestSum, memory.mask_a != nullptr, device);
  if (!tiling) return false;
  const GatheredProduct& p = products.each[0];
  const int64_t weights = int64_t{products.groups} * p.m * p.column.count,
                size = weights + (memory.row_sum ? int64_t{products.groups} * p.m : 0);
  const bool cut = tiling->splits > 1;
  const Scratch parts(call, cut ? static_cast<size_t>(tiling->splits * size) * sizeof(float) : 0);
  float *const dw = memory.c, *const db = memory.row_sum;
  if (cut) {
    memory.c = parts.as<float>();
    if (db) memory.row_sum = memory.c + weights;
  }
  const WeightKernel kernel = kernel_of(*tiling);
  allow(kernel, tiling->bytes, device);
  const dim3 grid(static_cast<unsigned>(tiling->tiles_m * tiling->tiles_n),
                  static_cast<unsigned>(tiling->splits), static_cast<unsigned>(products.groups));
  kernel<<<grid, tiling->threads, tiling->bytes, stream(call)>>>(products, memory, *tiling, size);
  if (cut) join_parts(call, memory.c, tiling->splits, weights, size, dw, db);
  return true;
}

}  // namespace locus::cuda
