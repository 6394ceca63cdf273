// Device code: multiply_gathered() (gathered_cuda.h). Each gathered_*.cu instantiates it for some
// dtypes, because its kernels compile slowly.
#pragma once

#include <algorithm>
#include <span>

#include <locus/core/scratch.h>
#include <locus/devices/cuda/signals.h>
#include <locus/ops/convolution/gathered_tile.h>

namespace locus::cuda {
namespace {

template <class S>
using GatheredKernel = void (*)(GatheredProducts, GatheredMemory<S>);
// [a along the depth][b along the depth]
template <class S, int kRows, int kColumns,
          class Tile = If<k16Bit<S>, TensorTile<S, kRows, kColumns>, CoreTile<S, kRows, kColumns>>>
constexpr GatheredKernel<S> kOfLayout[2][2] = {
    {&gathered_kernel<S, Tile, kRows, kColumns, false, false>,
     &gathered_kernel<S, Tile, kRows, kColumns, false, true>},
    {&gathered_kernel<S, Tile, kRows, kColumns, true, false>,
     &gathered_kernel<S, Tile, kRows, kColumns, true, true>}};

template <class S>
GatheredKernel<S> kernel_of(const GatheredTile& tile, bool a_along_depth, bool b_along_depth) {
  const auto of = [&](const auto& kernels) { return kernels[a_along_depth][b_along_depth]; };
  if constexpr (sizeof(S) < 8)
    if (tile.rows == 128) return of(kOfLayout<S, 128, 128>);
  if constexpr (sizeof(S) == 4) {
    if (tile.rows == 64 && tile.columns == 128) return of(kOfLayout<S, 64, 128>);
    if (tile.rows == 32 && tile.columns == 128) return of(kOfLayout<S, 32, 128>);
    if (tile.rows == 32) return of(kOfLayout<S, 32, 32>);
  }
  return of(kOfLayout<S, 64, 64>);
}

}  // namespace

template <class S>
void multiply_gathered(const Call& call, const GatheredProducts& products, GatheredMemory<S> m,
                       int tile_index) {
  int64_t n = 0;
  GatheredSize sizes[kMostProducts];
  m.quads = kSame<S, float> && aligned(m.c, 16) && products.c_group % 4 == 0;
  for (int i = 0; i < products.n; ++i) {
    const GatheredProduct& p = products.each[i];
    n = std::max<int64_t>(n, p.column.count);
    sizes[i] = {p.column.count, p.depth.count};
    m.quads = m.quads && p.c_row % 4 == 0 && in_quads(p.column);
  }
  const int64_t copies = int64_t{products.n} * products.groups, rows = products.each[0].m;
  if (n == 0 || rows == 0) return;
  std::span<const GatheredTile> tiles = tiles_of<S>();
  if (tile_index != kAnyTile) tiles = tiles.subspan(static_cast<size_t>(tile_index), 1);
  const GatheredTiling tiling = choose_gathered_tiling(
      tiles, rows, std::span(sizes, static_cast<size_t>(products.n)), products.groups, kLongestSum,
      multiprocessors(call.stream), kMaxCounters);
  const GatheredTile& tile = tiling.tile;
  const int64_t places = tiling.tiles * copies, size = (tile.rows * tile.columns + kGatherThreads);
  const bool cut = tiling.splits > 1;
  const Scratch partial(
      call, cut ? static_cast<size_t>(places * tiling.splits * size) * sizeof(Compute<S>) : 0);
  m.partial = partial.as<Compute<S>>();
  m.arrived = cut ? counters(call.stream, static_cast<int>(places)) : nullptr;
  m.splits = tiling.splits;
  m.k_split = tiling.k_split;
  m.tiles_n = static_cast<int>((n + tile.columns - 1) / tile.columns);
  const dim3 grid(static_cast<unsigned>(tiling.tiles), static_cast<unsigned>(tiling.splits),
                  static_cast<unsigned>(copies));
  const auto kernel = kernel_of<S>(tiling.tile, products.a_along_depth, products.b_along_depth);
  kernel<<<grid, kGatherThreads, 0, stream(call)>>>(products, m);
}

}  // namespace locus::cuda
