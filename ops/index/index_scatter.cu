// take's gradient, and the positions of a mask: what needs sorting or scanning.
#include <cuda_runtime.h>
#include <cub/device/device_radix_sort.cuh>

#include <locus/devices/cuda_check.h>
#include <locus/ops/copy/copy_gpu.h>
#include <locus/ops/index/index_kernel.h>

namespace locus::cuda {
namespace {

// The place in the result's memory that each index names; `none` where it is out of range.
__global__ void __launch_bounds__(kBlock)
    find_places(TakePlan p, int64_t n, uint64_t none, uint64_t* key, uint32_t* value,
                Fault* fault) {
  for (int64_t i = first_thread(); i < n; i += all_threads()) {
    const TakeRow row = take_row(p, i);
    if (row.bad_axis >= 0) report(fault, row.bad, p.length[row.bad_axis]);
    key[i] = row.bad_axis >= 0 ? none : static_cast<uint64_t>(row.data);
    value[i] = static_cast<uint32_t>(i);
  }
}

// After a stable sort, equal places lie together in the order of the indices: the thread at the
// first of them adds all up, always in the same order.
template <class T>
__global__ void __launch_bounds__(kBlock)
    add_places(TakePlan p, int64_t n, int64_t others, uint64_t none, const uint64_t* key,
               const uint32_t* value, const T* dout, T* data) {
  const int64_t total = n * others;
  for (int64_t i = first_thread(); i < total; i += all_threads()) {
    const int64_t first = i / others, other = i % others;
    const uint64_t place = key[first];
    if (place == none || (first > 0 && key[first - 1] == place)) continue;
    const int64_t before = other / p.inner, q = other % p.inner;
    T sum = 0;
    int64_t to = 0;
    for (int64_t k = first; k < n && key[k] == place; ++k) {
      const TakeRow row = take_row(p, before * n + value[k]);
      int64_t d = row.data, r = row.result;
      take_inner(p, q, d, r);
      to = d;
      sum += dout[r];
    }
    data[to] = sum;
  }
}

constexpr int kChunk = 4096;  // mask elements a block

__device__ __forceinline__ int count_own(const uint8_t* mask, int64_t begin, int64_t n) {
  int count = 0;
  for (int k = 0; k < kChunk / kBlock; ++k)
    if (begin + k < n) count += mask[begin + k];
  return count;
}
// The sum of `own` over the threads before this one; `total` over all.
__device__ __forceinline__ int scan_block(int own, int& total) {
  __shared__ int warps[kBlock / 32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  int sum = own;
  for (int step = 1; step < 32; step *= 2) {
    const int other = __shfl_up_sync(0xffffffffu, sum, step);
    if (lane >= step) sum += other;
  }
  __syncthreads();
  if (lane == 31) warps[warp] = sum;
  __syncthreads();
  int before = 0;
  total = 0;
  for (int w = 0; w < kBlock / 32; ++w) {
    if (w < warp) before += warps[w];
    total += warps[w];
  }
  return before + sum - own;
}

__global__ void __launch_bounds__(kBlock)
    count_chunks(const uint8_t* mask, int64_t n, int64_t* counts) {
  const int64_t begin = blockIdx.x * int64_t{kChunk} + threadIdx.x * (kChunk / kBlock);
  int total;
  scan_block(count_own(mask, begin, n), total);
  if (threadIdx.x == 0) counts[blockIdx.x] = total;
}

// One block: counts become the sums of those before, *sum the sum of all.
__global__ void __launch_bounds__(kBlock)
    scan_counts(int64_t* counts, int64_t chunks, int64_t* sum) {
  int64_t carry = 0;
  for (int64_t begin = 0; begin < chunks; begin += kBlock) {
    const int64_t i = begin + threadIdx.x;
    const int own = i < chunks ? static_cast<int>(counts[i]) : 0;
    int total;
    const int before = scan_block(own, total);
    if (i < chunks) counts[i] = carry + before;
    carry += total;
  }
  if (threadIdx.x == 0) *sum = carry;
}

__global__ void __launch_bounds__(kBlock)
    write_positions(const uint8_t* mask, int64_t n, const int64_t* before, int64_t* out) {
  const int64_t begin = blockIdx.x * int64_t{kChunk} + threadIdx.x * (kChunk / kBlock);
  int total;
  int64_t at = before[blockIdx.x] + scan_block(count_own(mask, begin, n), total);
  for (int k = 0; k < kChunk / kBlock; ++k)
    if (begin + k < n && mask[begin + k]) out[at++] = begin + k;
}

int64_t padded(int64_t bytes) { return (bytes + 255) / 256 * 256; }

}  // namespace

template <class T>
void take_grad(const Call& call) {
  const TakeGradAttrs& a = call.attributes<TakeGradAttrs>();
  zero_view(call.out[0], call.stream);
  const TakePlan p = make_take_plan(call.out[0], call.in[0], call.in + 1, a.take);
  if (p.rows * p.inner == 0) return;
  int64_t n = 1;
  for (int i = a.take.at; i < p.rank; ++i) n *= p.shape[i];
  const int64_t others = p.rows / n * p.inner;
  const uint64_t none = static_cast<uint64_t>(call.out[0].meta.size());
  int bits = 1;
  while (bits < 64 && none >> bits) ++bits;

  size_t temporary = 0;
  LOCUS_CUDA(cub::DeviceRadixSort::SortPairs(
      nullptr, temporary, static_cast<const uint64_t*>(nullptr), static_cast<uint64_t*>(nullptr),
      static_cast<const uint32_t*>(nullptr), static_cast<uint32_t*>(nullptr), n, 0, bits,
      stream(call)));
  const int64_t keys = padded(n * 8), values = padded(n * 4);
  char* memory = static_cast<char*>(
      workspace(call.stream, static_cast<size_t>(2 * keys + 2 * values) + temporary));
  uint64_t* key = reinterpret_cast<uint64_t*>(memory);
  uint64_t* sorted_key = reinterpret_cast<uint64_t*>(memory + keys);
  uint32_t* value = reinterpret_cast<uint32_t*>(memory + 2 * keys);
  uint32_t* sorted_value = reinterpret_cast<uint32_t*>(memory + 2 * keys + values);
  find_places<<<blocks_for(call.stream, n), kBlock, 0, stream(call)>>>(p, n, none, key, value,
                                                                       fault(call));
  LOCUS_CUDA(cub::DeviceRadixSort::SortPairs(memory + 2 * keys + 2 * values, temporary, key,
                                             sorted_key, value, sorted_value, n, 0, bits,
                                             stream(call)));
  add_places<<<blocks_for(call.stream, n * others), kBlock, 0, stream(call)>>>(
      p, n, others, none, sorted_key, sorted_value, call.in[0].as<T>(), call.out[0].as<T>());
}
template void take_grad<float>(const Call& call);
template void take_grad<double>(const Call& call);

void mask_indices(const Call& call) {
  const int64_t n = call.in[0].meta.size(), chunks = (n + kChunk - 1) / kChunk;
  const uint8_t* mask = call.in[0].as<uint8_t>();
  int64_t* counts =
      static_cast<int64_t*>(workspace(call.stream, static_cast<size_t>(chunks + 1) * 8));
  const unsigned grid = static_cast<unsigned>(chunks);
  if (chunks > 0) count_chunks<<<grid, kBlock, 0, stream(call)>>>(mask, n, counts);
  scan_counts<<<1, kBlock, 0, stream(call)>>>(counts, chunks, call.out[1].as<int64_t>());
  if (chunks > 0)
    write_positions<<<grid, kBlock, 0, stream(call)>>>(mask, n, counts, call.out[0].as<int64_t>());
}

}  // namespace locus::cuda
