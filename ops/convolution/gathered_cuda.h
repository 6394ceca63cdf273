// Host side of the gathered products (gathered.h) on CUDA.
#pragma once

#include <locus/core/kernel.h>
#include <locus/ops/convolution/gathered.h>
#include <locus/ops/convolution/gathered_tiling.h>

namespace locus::cuda {

// Operands, and what multiply_gathered() fills in.
template <class S>
struct GatheredMemory {
  const S *a = nullptr, *b = nullptr;
  const S *mask_a = nullptr, *mask_b = nullptr;  // laid out as a and b: see masked()
  const S* bias = nullptr;                       // one a row
  S* c = nullptr;
  S* row_sum = nullptr;           // the sum over the depth of each row of a
  Compute<S>* partial = nullptr;  // scratch memory and counters, where the depth is cut
  unsigned* arrived = nullptr;
  int splits = 1, k_split = 0;
  int tiles_n = 1;  // of the product with the most columns
  bool relu = false;
  bool quads = false;  // in_quads(), for all of c
};

template <class S>
constexpr const auto& tiles_of() {
  if constexpr (sizeof(S) == 4)
    return kCoreTiles;
  else if constexpr (sizeof(S) == 8)
    return kF64Tiles;
  else
    return kTensorTiles;
}
inline constexpr int kAnyTile = -1;

// c of all products. S: float, double, Half or BFloat16; the last two add up in f32. `tile`: which
// of tiles_of<S>(); any is the one that costs least (gathered_plan.h). Takes scratch memory,
// enqueues one launch.
template <class S>
void multiply_gathered(const Call& call, const GatheredProducts& products, GatheredMemory<S> memory,
                       int tile = kAnyTile);

}  // namespace locus::cuda
