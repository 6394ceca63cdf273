#include <locus/core/scratch.h>
#include <locus/devices/cuda/check.h>
#include <locus/ops/kernel/cast.h>
#include <locus/ops/matmul/matmul_cuda.h>
#include <locus/ops/matmul/matmul_kernel.h>

namespace locus::cuda {
namespace {

template <int T, bool AlongKA, bool AlongKB>
__global__ void __launch_bounds__(kTileThreads, 2) tiles_kernel(TileProduct p) {
  __shared__ __align__(16) float shared[TileShape<T>::kShared];
  p.a += blockIdx.z * p.a_batch;
  p.b += blockIdx.z * p.b_batch;
  p.c += blockIdx.z * p.c_batch;
  multiply_tile<T, AlongKA, AlongKB, false, false, true>(p, static_cast<int>(blockIdx.x), shared);
}

using TilesKernel = void (*)(TileProduct);
// [tile][a is column-major][b is column-major]; rows of a and columns of b run along k.
template <int T>
constexpr TilesKernel kOfTile[2][2] = {
    {&tiles_kernel<T, true, false>, &tiles_kernel<T, true, true>},
    {&tiles_kernel<T, false, false>, &tiles_kernel<T, false, true>}};

// out[o] = sum over k of a[o * lda + k] * x[k]: one output and one part of k per block.
__global__ void __launch_bounds__(256)
    row_dot_kernel(const float* a, int64_t lda, const float* x, float* out, int64_t k,
                   int64_t k_split, float* partial, unsigned* arrived) {
  const int splits = static_cast<int>(gridDim.y);
  const int64_t begin = blockIdx.y * k_split, end = min(k, begin + k_split);
  const float* row = a + blockIdx.x * lda;
  float sums[4] = {};
  int64_t i = begin + threadIdx.x;
  for (; i + 768 < end; i += 1024) {
#pragma unroll
    for (int j = 0; j < 4; ++j) sums[j] = fmaf(row[i + j * 256], x[i + j * 256], sums[j]);
  }
  for (; i < end; i += 256) sums[0] = fmaf(row[i], x[i], sums[0]);
  float sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
#pragma unroll
  for (int step = 16; step > 0; step /= 2) sum += __shfl_down_sync(~0u, sum, step);
  __shared__ float warps[8];
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = sum;
  __syncthreads();
  sum = 0;
#pragma unroll
  for (int w = 0; w < 8; ++w) sum += warps[w];
  if (splits > 1) {
    float* mine = partial + int64_t{blockIdx.x} * splits;
    if (threadIdx.x == 0) __stcg(mine + blockIdx.y, sum);
    if (!arrives_last(arrived + blockIdx.x, gridDim.y)) return;
    sum = 0;
    for (int s = 0; s < splits; ++s) sum += __ldcg(mine + s);
  }
  if (threadIdx.x == 0) out[blockIdx.x] = sum;
}

// Any strides and type: one output per thread.
template <class S, class T>
__global__ void __launch_bounds__(256) plain_kernel(Product p, int64_t total) {
  for (int64_t at = first_thread(); at < total; at += all_threads()) {
    const int64_t column = at % p.n, row = at / p.n % p.m;
    int64_t entry[2] = {};
    p.batch.locate(at / p.n / p.m, entry, p.batch.rank);
    const S* a = static_cast<const S*>(p.a) + entry[0] + row * p.a_m;
    const S* b = static_cast<const S*>(p.b) + entry[1] + column * p.b_n;
    T sum = 0;
    for (int64_t k = 0; k < p.k; ++k) sum += convert<T>(a[k * p.a_k]) * convert<T>(b[k * p.b_k]);
    static_cast<S*>(p.c)[at] = convert<S>(sum);
  }
}

template <class S, class T>
void plain_product(const Call& call, const Product& p) {
  const int64_t total = p.batch.size * p.m * p.n;
  launch(call.stream, total, plain_kernel<S, T>, p, total);
}

// cuBLAS may add all of k in one lane. Beyond twice this depth, k is cut in blocks, so that the
// error does not grow with k. Tensor cores add several products at once.
constexpr int64_t kDepth = 4096, kTensorCoreDepth = 32768;
constexpr int64_t kFewResults = 1 << 16;  // up to this many, all blocks run at once

// c[i] = the sum over s of parts[s][i], with `lanes` lanes per result, a power of two.
template <class S>
__global__ void __launch_bounds__(256)
    add_parts_kernel(const float* parts, int64_t splits, int lanes, S* c, int64_t n) {
  const int64_t total = (n * lanes + 31) / 32 * 32;
  for (int64_t at = first_thread(); at < total; at += all_threads()) {
    const int64_t i = at / lanes;
    float sum = 0;
    if (i < n)
      for (int64_t s = at % lanes; s < splits; s += lanes) sum += parts[s * n + i];
    for (int step = lanes / 2; step > 0; step /= 2) sum += __shfl_down_sync(~0u, sum, step, lanes);
    if (i < n && at % lanes == 0) c[i] = static_cast<S>(sum);
  }
}

// Long vectors, and matrices times a vector, are limited by memory bandwidth.
bool row_dots(const Call& call, int64_t m, int64_t n, int64_t k, Matrix a, Matrix b, float* c) {
  const bool column = n == 1 && !a.column_major && b.column_major;
  const bool row = m == 1 && !a.column_major && b.column_major;
  if (k < 1024 || (!column && !row)) return false;
  const int64_t outputs = column ? m : n;
  int64_t splits = 4 * multiprocessors(call.stream) / outputs;
  if (splits > k / 4096) splits = k / 4096;
  if (splits < 1) splits = 1;
  const int64_t k_split = (k + splits - 1) / splits;
  const bool shared = splits > 1;
  const Scratch partial(call, shared ? static_cast<size_t>(outputs * splits) * sizeof(float) : 0);
  unsigned* arrived = shared ? counters(call.stream, static_cast<int>(outputs)) : nullptr;
  const dim3 grid(static_cast<unsigned>(outputs), static_cast<unsigned>(splits));
  const Matrix &matrix = column ? a : b, &vector = column ? b : a;
  row_dot_kernel<<<grid, 256, 0, stream(call)>>>(static_cast<const float*>(matrix.data), matrix.ld,
                                                 static_cast<const float*>(vector.data), c, k,
                                                 k_split, partial.as<float>(), arrived);
  return true;
}

void f32_product(const Call& call, int64_t m, int64_t n, int64_t k, Matrix a, Matrix b, float* c,
                 int64_t count) {
  if (count == 1 && row_dots(call, m, n, k, a, b, c)) return;
  if (!own_product(m, n, k, count)) return library_product(call, f32, m, n, k, a, b, c, count);
  const Tiling tiling = choose_tiling(m, n, k, count, multiprocessors(call.stream));
  launch_tiles(call, tiling, tile_product(tiling, m, n, k, a, b, c, count), a.column_major,
               b.column_major, count);
}

template <DType D>
void matmul_kernel(const Call& call, const Product& p) {
  using S = CppTypeOf<D>;
  Leading la = leading(p.m, p.k, p.a_m, p.a_k), lb = leading(p.k, p.n, p.b_k, p.b_n);
  if (!la.ok || !lb.ok) return plain_product<S, double>(call, p);
  // A vector runs along k in either layout; row_dots checks for that.
  if (p.n == 1 && p.b_k == 1) lb = {p.k > 0 ? p.k : 1, true, true};

  // All of the batch's innermost axis at once, the others one by one.
  const int last = p.batch.rank - 1;
  const int64_t count = p.batch.shape[last], repeats = count > 0 ? p.batch.size / count : 0;
  Matrix a{p.a, la.ld, la.column_major}, b{p.b, lb.ld, lb.column_major};
  a.batch = p.batch.stride[0][last];
  b.batch = p.batch.stride[1][last];
  for (int64_t i = 0; i < repeats; ++i) {
    int64_t at[2] = {};
    p.batch.locate(i, at, last);
    a.data = static_cast<const S*>(p.a) + at[0];
    b.data = static_cast<const S*>(p.b) + at[1];
    S* c = static_cast<S*>(p.c) + i * count * p.m * p.n;
    if constexpr (D == f32)
      f32_product(call, p.m, p.n, p.k, a, b, c, count);
    else
      library_product(call, D, p.m, p.n, p.k, a, b, c, count);
  }
}

bool aligned(const void* data, int64_t ld, int64_t batch) {
  return reinterpret_cast<uintptr_t>(data) % 16 == 0 && ld % 4 == 0 && batch % 4 == 0;
}

struct Backend {
  template <DType D>
  static void matmul(const Call& call) {
    using T = CppTypeOf<D>;
    const Product p =
        make_product(call.in[0], call.in[1], call.out[0], call.attributes<MatmulAttrs>());
    if constexpr (kInteger<T>)
      plain_product<T, Wrap<T>>(call, p);
    else
      matmul_kernel<D>(call, p);
  }
};

}  // namespace

void library_product(const Call& call, DType dtype, int64_t m, int64_t n, int64_t k, Matrix a,
                     Matrix b, void* c, int64_t count, DType out) {
  const int64_t size = size_of(dtype), results = count * m * n;
  if (results == 0) return;
  if (k == 0) {
    LOCUS_CUDA(cudaMemsetAsync(c, 0, static_cast<size_t>(results * size_of(out)), stream(call)));
    return;
  }
  const bool tf32 = dtype == f32 && matmul_precision() == Precision::tf32;
  const int64_t depth = dtype == f32 && !tf32 ? kDepth : kTensorCoreDepth;
  if (dtype == f64 || k <= 2 * depth)
    return blas_product(call, dtype, m, n, k, a, b, c, count, {out, tf32});

  const int64_t a_step = a.column_major ? a.ld : 1, b_step = b.column_major ? 1 : b.ld;
  const auto multiply = [&](int64_t begin, int64_t length, void* to, bool accumulate) {
    Matrix x = a, y = b;
    x.data = static_cast<const char*>(a.data) + begin * a_step * size;
    y.data = static_cast<const char*>(b.data) + begin * b_step * size;
    blas_product(call, dtype, m, n, length, x, y, to, count, {f32, tf32, accumulate});
  };
  const bool few = count == 1 && results <= kFewResults;
  const int64_t blocks = k / depth, rest = k - blocks * depth;
  const int64_t parts = few ? blocks + (rest > 0) : 1;
  const bool direct = !few && out == f32;
  const Scratch sums(call, direct ? 0 : static_cast<size_t>(parts * results) * sizeof(float));
  if (few) {
    Matrix x = a, y = b;
    x.batch = depth * a_step;
    y.batch = depth * b_step;
    blas_product(call, dtype, m, n, depth, x, y, sums.data(), blocks, {f32, tf32});
    if (rest > 0) multiply(k - rest, rest, sums.as<float>() + blocks * results, false);
  } else {
    for (int64_t at = 0; at < k; at += depth)
      multiply(at, k - at < depth ? k - at : depth, direct ? c : sums.data(), at > 0);
  }
  if (direct) return;
  const auto add = [&](auto* to) {
    const int lanes = parts > 1 ? 32 : 1;
    const auto kernel = add_parts_kernel<std::remove_pointer_t<decltype(to)>>;
    launch(call.stream, results * lanes, kernel, sums.as<float>(), parts, lanes, to, results);
  };
  if (out == f32) add(static_cast<float*>(c));
  if (out == f16) add(static_cast<Half*>(c));
  if (out == bf16) add(static_cast<BFloat16*>(c));
}

TileProduct tile_product(const Tiling& tiling, int64_t m, int64_t n, int64_t k, Matrix a, Matrix b,
                         float* c, int64_t count) {
  TileProduct p;
  p.a = static_cast<const float*>(a.data);
  p.b = static_cast<const float*>(b.data);
  p.c = c;
  p.lda = a.ld;
  p.ldb = b.ld;
  p.m = static_cast<int>(m);
  p.n = static_cast<int>(n);
  p.k = static_cast<int>(k);
  if (count > 1) {
    p.a_batch = a.batch;
    p.b_batch = b.batch;
    p.c_batch = m * n;
  }
  p.tiles = tiling.tiles();
  p.tiles_n = tiling.tiles_n;
  p.splits = tiling.splits;
  p.k_split = tiling.k_split;
  p.vector_a = aligned(a.data, a.ld, p.a_batch);
  p.vector_b = aligned(b.data, b.ld, p.b_batch);
  return p;
}

void launch_tiles(const Call& call, const Tiling& tiling, TileProduct p, bool a_column_major,
                  bool b_column_major, int64_t count) {
  const Scratch partial(call, static_cast<size_t>(tiling.scratch()) * sizeof(float));
  p.partial = partial.as<float>();
  if (tiling.splits > 1) p.arrived = counters(call.stream, tiling.counters());
  const TilesKernel kernel = (tiling.tile == 64   ? kOfTile<64>
                              : tiling.tile == 32 ? kOfTile<32>
                                                  : kOfTile<16>)[a_column_major][b_column_major];
  const dim3 grid(static_cast<unsigned>(tiling.blocks()), 1, static_cast<unsigned>(count));
  kernel<<<grid, kTileThreads, 0, stream(call)>>>(p);
}

extern constinit const KernelList matmul = matmul_kernels<Backend>();

}  // namespace locus::cuda
