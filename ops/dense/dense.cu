#include <locus/core/scratch.h>
#include <locus/ops/kernel/types.h>
#include <locus/ops/matmul/matmul_cuda.h>
#include <locus/ops/matmul/matmul_kernel.h>

namespace locus::cuda {
namespace {

// y = max(sums + bias, 0), rounded once. bias may be null; sums may be y.
template <class S, class Sum>
__global__ void __launch_bounds__(256)
    epilogue_kernel(const Sum* sums, const S* bias, S* y, int64_t units, bool relu, int64_t total) {
  using T = Compute<S>;
  for (int64_t at = first_thread(); at < total; at += all_threads()) {
    T v = static_cast<T>(sums[at]);
    if (bias != nullptr) v += static_cast<T>(bias[at % units]);
    if (relu) v = v < T(0) ? T(0) : v;
    y[at] = static_cast<S>(v);
  }
}

// f32 sums of 16-bit layers with bias: about this many at once, to stay in the L2 cache.
constexpr int64_t kSumsAtOnce = int64_t{1} << 22;

// Both products of the backward pass in one launch. The first blocks compute dx = dz · w. The
// others compute dw = dz' · x and db, the sums of the rows of dz'.
template <int T, bool Mask>
__global__ void __launch_bounds__(kTileThreads, 2)
    backward_tiles_kernel(TileProduct data, TileProduct weight, int data_blocks) {
  __shared__ __align__(16) float shared[TileShape<T>::kShared];
  const int block = static_cast<int>(blockIdx.x);
  if (block < data_blocks)
    multiply_tile<T, true, false, Mask, false, false>(data, block, shared);
  else
    multiply_tile<T, false, false, Mask, true, false>(weight, block - data_blocks, shared);
}

// A layer and the gradients to compute.
struct Backward {
  int64_t rows, inputs, units;
  const void *dy, *x, *w, *y;  // y is null without relu
  void *dx, *dw, *db;          // null if not needed, or empty
};

Backward read(const Call& call) {
  const auto& attrs = call.attributes<DenseBackwardAttrs>();
  const View* in = call.in;
  Backward b{};
  b.rows = in[1].meta.shape[0];
  b.inputs = in[1].meta.shape[1];
  b.units = in[2].meta.shape[0];
  b.dy = in[0].data;
  b.x = in[1].data;
  b.w = in[2].data;
  b.y = attrs.relu ? in[3].data : nullptr;
  const auto wanted = [&](bool asked, int i) {
    return asked && call.out[i].meta.size() > 0 ? call.out[i].data : nullptr;
  };
  b.dx = wanted(attrs.data, 0);
  b.dw = wanted(attrs.weight, 1);
  b.db = wanted(attrs.bias, 2);
  return b;
}

// One launch for a small f32 layer. Returns false for other layers.
bool fused_backward(const Call& call, const Backward& b) {
  if (b.dx != nullptr && !own_product(b.rows, b.inputs, b.units, 1, kOwnDenseLimit)) return false;
  if (b.dw != nullptr && !own_product(b.units, b.inputs, b.rows, 1, kOwnDenseLimit)) return false;
  if (b.dw == nullptr && b.db != nullptr) return false;

  // Each product gets half of the machine. Both use the tile of dw.
  const int half = multiprocessors(call.stream) / (b.dx != nullptr && b.dw != nullptr ? 2 : 1);
  Tiling data, weight;
  if (b.dx != nullptr) data = choose_tiling(b.rows, b.inputs, b.units, 1, half);
  if (b.dw != nullptr) weight = choose_tiling(b.units, b.inputs, b.rows, 1, half);
  const int tile = b.dw != nullptr ? weight.tile : data.tile;
  if (b.dx != nullptr && data.tile != tile) data = recut(b.rows, b.inputs, b.units, tile, half);
  data = in_runs(data, b.rows, b.inputs, b.units);
  weight = in_runs(weight, b.units, b.inputs, b.rows);

  const int64_t ld_units = b.units > 0 ? b.units : 1, ld_inputs = b.inputs > 0 ? b.inputs : 1;
  const Matrix dz{b.dy, ld_units, false}, dz_t{b.dy, ld_units, true}, x{b.x, ld_inputs, false},
      w{b.w, ld_inputs, false};
  TileProduct dx, dw;
  int data_blocks = 0, weight_blocks = 0;
  int64_t scratch = 0;
  int counted = 0;
  if (b.dx != nullptr) {
    dx = tile_product(data, b.rows, b.inputs, b.units, dz, w, static_cast<float*>(b.dx));
    data_blocks = data.blocks();
    scratch += data.scratch();
    counted += data.counters();
  }
  if (b.dw != nullptr) {
    dw = tile_product(weight, b.units, b.inputs, b.rows, dz_t, x, static_cast<float*>(b.dw));
    dw.row_sum = static_cast<float*>(b.db);
    weight_blocks = weight.blocks();
    scratch += weight.scratch();
    counted += weight.counters();
  }
  const Scratch partial(call, static_cast<size_t>(scratch) * sizeof(float));
  if (scratch > 0) {
    dx.partial = partial.as<float>();
    dx.arrived = counters(call.stream, counted);
    dw.partial = dx.partial + (b.dx != nullptr ? data.scratch() : 0);
    dw.arrived = dx.arrived + (b.dx != nullptr ? data.counters() : 0);
  }
  dx.mask = dw.mask = static_cast<const float*>(b.y);
  if (reinterpret_cast<uintptr_t>(b.y) % 16 != 0) dx.vector_a = dw.vector_a = false;

  using Fused = void (*)(TileProduct, TileProduct, int);
  static constexpr Fused kFused[3][2] = {
      {&backward_tiles_kernel<16, false>, &backward_tiles_kernel<16, true>},
      {&backward_tiles_kernel<32, false>, &backward_tiles_kernel<32, true>},
      {&backward_tiles_kernel<64, false>, &backward_tiles_kernel<64, true>}};
  const Fused kernel = kFused[tile == 16 ? 0 : tile == 32 ? 1 : 2][b.y != nullptr];
  const unsigned grid = static_cast<unsigned>(data_blocks + weight_blocks);
  kernel<<<grid, kTileThreads, 0, stream(call)>>>(dx, dw, data_blocks);
  return true;
}

constexpr int kSumColumns = 32, kSumRows = 8;

// dz = 0 where y <= 0, else dy. Without y, writes no dz. db = the sum of dz's rows. A block has 32
// columns and a part of the rows. The last block of a column adds the parts in order.
template <class S>
__global__ void __launch_bounds__(kSumColumns* kSumRows)
    mask_and_sum_kernel(const S* dy, const S* y, S* dz, S* db, int64_t rows, int64_t units,
                        int64_t rows_split, double* partial, unsigned* arrived) {
  const int tx = static_cast<int>(threadIdx.x), ty = static_cast<int>(threadIdx.y);
  const int64_t column = int64_t{blockIdx.x} * kSumColumns + tx;
  const int64_t begin = blockIdx.y * rows_split, end = min(rows, begin + rows_split);
  double sum = 0;  // any number of rows
  if (column < units) {
#pragma unroll 4
    for (int64_t row = begin + ty; row < end; row += kSumRows) {
      const int64_t at = row * units + column;
      S v = dy[at];
      if (y != nullptr) {
        if (static_cast<Compute<S>>(y[at]) <= 0) v = static_cast<S>(0.f);
        dz[at] = v;
      }
      sum += static_cast<Compute<S>>(v);
    }
  }
  if (db == nullptr) return;
  __shared__ double sums[kSumRows][kSumColumns];
  const auto add_rows = [&] {  // the total is in thread row 0
    sums[ty][tx] = sum;
    __syncthreads();
    if (ty > 0) return;
#pragma unroll
    for (int i = 1; i < kSumRows; ++i) sum += sums[i][tx];
  };
  add_rows();
  if (gridDim.y > 1) {
    if (ty == 0 && column < units) __stcg(partial + blockIdx.y * units + column, sum);
    if (!arrives_last(arrived + blockIdx.x, gridDim.y)) return;
    sum = 0;
    if (column < units) {
#pragma unroll 8
      for (unsigned s = ty; s < gridDim.y; s += kSumRows)
        sum += __ldcg(partial + s * units + column);
    }
    add_rows();
  }
  if (ty == 0 && column < units) db[column] = static_cast<S>(static_cast<Compute<S>>(sum));
}

struct Backend {
  template <DType D>
  static void dense(const Call& call) {
    using S = CppTypeOf<D>;
    const int64_t rows = call.in[0].meta.shape[0], inputs = call.in[0].meta.shape[1],
                  units = call.in[1].meta.shape[0];
    const S* bias = call.n_in == 3 ? call.in[2].as<const S>() : nullptr;
    const int64_t ld = inputs > 0 ? inputs : 1;
    const Matrix x{call.in[0].data, ld, false}, w{call.in[1].data, ld, true};
    S* y = call.out[0].as<S>();
    const bool relu = call.attributes<DenseAttrs>().activation == FusedActivation::relu;
    if constexpr (D == f32) {
      if (own_product(rows, units, inputs, 1, kOwnDenseLimit)) {
        const Tiling tiling = choose_tiling(rows, units, inputs, 1, multiprocessors(call.stream));
        TileProduct p = tile_product(tiling, rows, units, inputs, x, w, y);
        p.bias = bias;
        p.relu = relu;
        return launch_tiles(call, tiling, p, false, true);
      }
    }
    if constexpr (k16Bit<S>) {
      if (bias != nullptr && units > 0)
        return add_bias<D>(call, rows, units, inputs, x, w, bias, relu, y);
    }
    library_product(call, D, rows, units, inputs, x, w, y);
    const int64_t total = rows * units;
    if (bias != nullptr || relu)
      launch(call.stream, total, epilogue_kernel<S, S>, y, bias, y, units, relu, total);
  }

  // Adds the bias to f32 sums: a 16-bit product would be rounded twice.
  template <DType D, class S = CppTypeOf<D>>
  static void add_bias(const Call& call, int64_t rows, int64_t units, int64_t inputs, Matrix x,
                       const Matrix& w, const S* bias, bool relu, S* y) {
    int64_t most = kSumsAtOnce / units / 128 * 128;
    if (most < 128) most = 128;
    if (most > rows) most = rows;
    const Scratch sums(call, static_cast<size_t>(most * units) * sizeof(float));
    const S* const data = static_cast<const S*>(x.data);
    for (int64_t row = 0; row < rows; row += most) {
      const int64_t some = rows - row < most ? rows - row : most, total = some * units;
      x.data = data + row * x.ld;
      library_product(call, D, some, units, inputs, x, w, sums.data(), 1, f32);
      launch(call.stream, total, epilogue_kernel<S, float>, sums.as<const float>(), bias,
             y + row * units, units, relu, total);
    }
  }

  template <DType D>
  static void dense_backward(const Call& call) {
    using S = CppTypeOf<D>;
    const Backward b = read(call);
    if constexpr (D == f32) {
      if (fused_backward(call, b)) return;
    }
    const size_t masked = b.y != nullptr ? static_cast<size_t>(b.rows * b.units) * sizeof(S) : 0;
    const Scratch dz_memory(call, masked);
    const void* dz = masked > 0 ? dz_memory.data() : b.dy;
    if (b.units > 0 && (b.y != nullptr || b.db != nullptr)) {
      const int64_t columns = (b.units + kSumColumns - 1) / kSumColumns;
      int64_t splits = 4 * multiprocessors(call.stream) / columns;
      if (splits > b.rows / 64) splits = b.rows / 64;
      if (splits < 1 || columns > kMaxCounters) splits = 1;
      const bool shared = splits > 1;
      const Scratch partial(call,
                            shared ? static_cast<size_t>(splits * b.units) * sizeof(double) : 0);
      const dim3 grid(static_cast<unsigned>(columns), static_cast<unsigned>(splits));
      mask_and_sum_kernel<S><<<grid, dim3(kSumColumns, kSumRows), 0, stream(call)>>>(
          static_cast<const S*>(b.dy), static_cast<const S*>(b.y), dz_memory.as<S>(),
          static_cast<S*>(b.db), b.rows, b.units, (b.rows + splits - 1) / splits,
          partial.as<double>(),
          shared ? counters(call.stream, static_cast<int>(columns)) : nullptr);
    }
    const int64_t ld_units = b.units > 0 ? b.units : 1, ld_inputs = b.inputs > 0 ? b.inputs : 1;
    if (b.dx != nullptr)
      library_product(call, D, b.rows, b.inputs, b.units, {dz, ld_units, false},
                      {b.w, ld_inputs, false}, b.dx);
    if (b.dw != nullptr)
      library_product(call, D, b.units, b.inputs, b.rows, {dz, ld_units, true},
                      {b.x, ld_inputs, false}, b.dw);
  }
};

}  // namespace

extern constinit const KernelList dense = dense_kernels<Backend>();

}  // namespace locus::cuda
