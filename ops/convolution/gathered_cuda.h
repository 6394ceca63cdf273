// Host side of gathered products (gathered.h) on CUDA.
#pragma once

#include <locus/core/kernel.h>
#include <locus/ops/convolution/gathered.h>
#include <locus/ops/convolution/gathered_tiling.h>

namespace locus::cuda {

// Operands, and fields that multiply_gathered() sets.
template <class S>
struct GatheredMemory {
  const S *a = nullptr, *b = nullptr;
  const S *mask_a = nullptr, *mask_b = nullptr;  // laid out as a and b: see masked()
  const S* bias = nullptr;                       // one per row
  S* c = nullptr;
  S* row_sum = nullptr;           // the sum over the depth of each row of a
  Compute<S>* partial = nullptr;  // scratch memory and counters, if the depth is cut
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

// Computes c of all products. S: float, double, Half or BFloat16; 16-bit products are added in f32.
// `tile` indexes tiles_of<S>(); kAnyTile takes the cheapest (gathered_tiling.h). Takes scratch
// memory, enqueues one launch.
template <class S>
void multiply_gathered(const Call& call, const GatheredProducts& products, GatheredMemory<S> memory,
                       int tile = kAnyTile);

}  // namespace locus::cuda
