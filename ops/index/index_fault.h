// A kernel's report of an index out of range. Included by *.cu only.
#pragma once

#include <locus/devices/cuda/signals.h>
#include <locus/ops/index/take_walk.h>

namespace locus::cuda {

// row.bad_axis is not -1.
__device__ __forceinline__ Finding bad_index(const TakeWalk& p, const TakeRow& row) {
  return {FaultKind::index, row.bad, p.length[row.bad_axis], p.axes[row.bad_axis],
          is_exact(row.bad, p.id_dtype)};
}

}  // namespace locus::cuda
