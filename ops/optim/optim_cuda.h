// Shared by CUDA kernels over many tensors. The pointers are a kernel parameter, and each block
// finds its tensor by the number of blocks before it.
#pragma once

#include <locus/ops/kernel/cast.h>
#include <locus/ops/kernel/reduce_block.h>

namespace locus::cuda {

constexpr int kMaxTensors = 64;

template <int kOperands>
struct Table {
  void* operand[kOperands][kMaxTensors];
  int64_t size[kMaxTensors];
  int first_block[kMaxTensors + 1];
  int n;
  uint64_t flat;  // bit i: tensor i has fewer than two axes

  // The tensor of a block: first_block[it] <= block < first_block[it + 1].
  __device__ int tensor_of(int block) const {
    int low = 0, high = n;
    while (high - low > 1) {
      const int middle = (low + high) / 2;
      if (first_block[middle] <= block)
        low = middle;
      else
        high = middle;
    }
    return low;
  }
};

// Calls f(table, first) for n tensors, kMaxTensors at a time from `first` on, in blocks of `chunk`
// elements. view(i, k) is operand k of tensor i.
template <int kOperands>
void each_table(int n, int64_t chunk, const auto& view, const auto& f) {
  Table<kOperands> t;
  for (int first = 0; first < n; first += t.n) {
    t.n = n - first < kMaxTensors ? n - first : kMaxTensors;
    t.first_block[0] = 0;
    t.flat = 0;
    for (int i = 0; i < t.n; ++i) {
      for (int k = 0; k < kOperands; ++k) t.operand[k][i] = view(first + i, k).data;
      const Meta& meta = view(first + i, 0).meta;
      t.size[i] = meta.size();
      t.flat |= uint64_t{meta.rank < 2} << i;
      t.first_block[i + 1] = t.first_block[i] + static_cast<int>((t.size[i] + chunk - 1) / chunk);
    }
    f(t, first);
  }
}

// For the last block to arrive: combines the results in of_block and calls f(i, v) with tensor i's.
template <class V, int kOperands>
__device__ void each_tensor(const Table<kOperands>& t, const V* of_block, V init,
                            const auto& combine, const auto& f) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  for (int i = static_cast<int>(threadIdx.x / 32); i < t.n; i += kBlock / 32) {
    V v = init;
    for (int b = t.first_block[i] + lane; b < t.first_block[i + 1]; b += 32)
      v = combine(v, by_words(of_block[b], [](const uint32_t* word) { return __ldcg(word); }));
    v = all_of_lanes(v, 32, combine);
    if (lane == 0) f(i, v);
  }
}

}  // namespace locus::cuda
