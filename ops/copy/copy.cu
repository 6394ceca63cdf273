#include <cuda_runtime.h>

#include <locus/ops/copy/copy_kernel.h>
#include <locus/ops/kernel/launch.h>

namespace locus::cuda {
namespace {

// 16 bytes per thread, then the remaining bytes.
__global__ void __launch_bounds__(kBlock) copy_flat(const Word16* in, Word16* out, int64_t bytes) {
  const int64_t packs = bytes / 16, first = first_thread(), step = all_threads();
  for (int64_t i = first; i < packs; i += step) out[i] = in[i];
  const int64_t at = packs * 16 + first;
  if (at < bytes) reinterpret_cast<uint8_t*>(out)[at] = reinterpret_cast<const uint8_t*>(in)[at];
}

template <class T, class I>
__global__ void __launch_bounds__(kBlock) copy_strided(Walk<2> w, const T* in, T* out) {
  for (int64_t i = first_thread(); i < w.size; i += all_threads()) {
    int64_t at[2] = {};
    offsets<I>(w, i, at);
    out[at[1]] = in[at[0]];
  }
}

// The input is contiguous along axis t, the output along the last: 32 x 32 tiles in shared memory,
// with one more column against bank conflicts. `outer`: the other axes.
constexpr int kTile = 32;
struct Tiles {
  Walk<2> outer;
  int64_t na, nb, sa, sb;  // lengths of t and last; the output's stride of t, the input's of last
  int64_t tiles_a, tiles_b;
};

template <class T>
__global__ void __launch_bounds__(kTile * 8) copy_tiles(Tiles t, const T* in, T* out) {
  __shared__ T tile[kTile][kTile + 1];
  const int64_t b = blockIdx.x;
  const int64_t b0 = b % t.tiles_b * kTile, a0 = b / t.tiles_b % t.tiles_a * kTile;
  int64_t at[2] = {};
  offsets<uint64_t>(t.outer, b / t.tiles_b / t.tiles_a, at);
  for (int64_t i = threadIdx.y; i < kTile; i += 8)
    if (b0 + i < t.nb && a0 + threadIdx.x < t.na)
      tile[i][threadIdx.x] = in[at[0] + (b0 + i) * t.sb + a0 + threadIdx.x];
  __syncthreads();
  for (int64_t i = threadIdx.y; i < kTile; i += 8)
    if (a0 + i < t.na && b0 + threadIdx.x < t.nb)
      out[at[1] + (a0 + i) * t.sa + b0 + threadIdx.x] = tile[threadIdx.x][i];
}

template <class T>
void run_tiles(const Walk<2>& w, int t, const void* in, void* out, StreamView s) {
  const int last = w.rank - 1;
  Tiles tiles;
  tiles.na = w.shape[t];
  tiles.nb = w.shape[last];
  tiles.sa = w.stride[1][t];
  tiles.sb = w.stride[0][last];
  tiles.tiles_a = (tiles.na + kTile - 1) / kTile;
  tiles.tiles_b = (tiles.nb + kTile - 1) / kTile;
  for (int i = 0; i < last; ++i) {
    if (i == t) continue;
    const int k = tiles.outer.rank++;
    tiles.outer.shape[k] = w.shape[i];
    tiles.outer.stride[0][k] = w.stride[0][i];
    tiles.outer.stride[1][k] = w.stride[1][i];
  }
  const int64_t blocks = w.size / (tiles.na * tiles.nb) * tiles.tiles_a * tiles.tiles_b;
  copy_tiles<<<static_cast<unsigned>(blocks), dim3(kTile, 8), 0, native(s)>>>(
      tiles, static_cast<const T*>(in), static_cast<T*>(out));
}

void copy_same(Walk<2> w, const View& in, const View& out, StreamView s) {
  if (w.contiguous() && aligned(in.data, 16) && aligned(out.data, 16)) {
    const int64_t bytes = w.size * size_of(in.meta.dtype);
    return launch(s, bytes / 16 + 16, copy_flat, in.as<Word16>(), out.as<Word16>(), bytes);
  }
  const int bytes = widen(w, size_of(in.meta.dtype), in.data, out.data);
  by_bytes(bytes, [&](auto word) {
    using T = decltype(word);
    if constexpr (sizeof(T) <= 8)
      if (const int t = transposed_axis(w); t >= 0 && w.size / 64 < (int64_t{1} << 31))
        return run_tiles<T>(w, t, in.data, out.data, s);
    const auto kernel = narrow(w.size) ? copy_strided<T, uint32_t> : copy_strided<T, uint64_t>;
    launch(s, w.size, kernel, w, in.as<T>(), out.as<T>());
  });
}

constexpr int kPack = 4;  // elements cast per thread
template <class In>
__global__ void __launch_bounds__(kBlock) cast_flat(const In* in, void* out, DType to, int64_t n) {
  dispatch(to, [&](auto type) {
    using Out = typename decltype(type)::type;
    Out* target = static_cast<Out*>(out);
    const int64_t packs = n / kPack, first = first_thread(), step = all_threads();
    for (int64_t i = first; i < packs; i += step) {
      const Pack<In, kPack> x = reinterpret_cast<const Pack<In, kPack>*>(in)[i];
      Pack<Out, kPack> y;
#pragma unroll
      for (int k = 0; k < kPack; ++k) y.v[k] = convert<Out>(x.v[k]);
      reinterpret_cast<Pack<Out, kPack>*>(target)[i] = y;
    }
    const int64_t at = packs * kPack + first;
    if (at < n) target[at] = convert<Out>(in[at]);
  });
}

template <class In, class I>
__global__ void __launch_bounds__(kBlock)
    cast_strided(Walk<2> w, const In* in, void* out, DType to) {
  for (int64_t i = first_thread(); i < w.size; i += all_threads()) {
    int64_t at[2] = {};
    offsets<I>(w, i, at);
    const In v = in[at[0]];
    dispatch(to, [&](auto type) {
      using Out = typename decltype(type)::type;
      static_cast<Out*>(out)[at[1]] = convert<Out>(v);
    });
  }
}

template <class In>
void cast(const Walk<2>& w, const View& in, const View& out, StreamView s) {
  const In* from = in.as<In>();
  const DType to = out.meta.dtype;
  const auto packs = [](const View& v) { return aligned(v.data, kPack * size_of(v.meta.dtype)); };
  if (w.contiguous() && packs(in) && packs(out))
    launch(s, w.size / kPack + kPack, cast_flat<In>, from, out.data, to, w.size);
  else if (narrow(w.size))
    launch(s, w.size, cast_strided<In, uint32_t>, w, from, out.data, to);
  else
    launch(s, w.size, cast_strided<In, uint64_t>, w, from, out.data, to);
}

// Pieces of memory, one for each blockIdx.y.
struct Pieces {
  static constexpr int kMost = 16;
  struct Piece {
    const void* in;
    void* out;
    int64_t bytes;
  } piece[kMost];
};
template <class T>
__device__ void copy_words(const Pieces::Piece& p) {
  constexpr int64_t kSize = sizeof(T);
  const T* const in = static_cast<const T*>(p.in);
  T* const out = static_cast<T*>(p.out);
  const int64_t words = p.bytes / kSize, first = first_thread();
  for (int64_t i = first; i < words; i += all_threads()) out[i] = in[i];
  const int64_t at = words * kSize + first;
  if (at < p.bytes) static_cast<uint8_t*>(p.out)[at] = static_cast<const uint8_t*>(p.in)[at];
}
__global__ void __launch_bounds__(kBlock) copy_pieces(Pieces pieces) {
  const Pieces::Piece p = pieces.piece[blockIdx.y];
  const auto both = reinterpret_cast<uintptr_t>(p.in) | reinterpret_cast<uintptr_t>(p.out);
  if (both % 16 == 0)
    copy_words<Word16>(p);
  else if (both % 4 == 0)
    copy_words<uint32_t>(p);
  else
    copy_words<uint8_t>(p);
}

struct Backend {
  static void copy_several(const Call& call) {
    for (int first = 0; first < call.n_in; first += Pieces::kMost) {
      const int n = call.n_in - first < Pieces::kMost ? call.n_in - first : Pieces::kMost;
      Pieces pieces{};
      int64_t most = 1;
      for (int i = 0; i < n; ++i) {
        const Meta& m = call.in[first + i].meta;
        const int64_t bytes = m.size() * size_of(m.dtype);
        pieces.piece[i] = {call.in[first + i].data, call.out[first + i].data, bytes};
        if (bytes > most) most = bytes;
      }
      const dim3 grid(blocks_for(call.stream, most / 16 + 16), static_cast<unsigned>(n));
      copy_pieces<<<grid, kBlock, 0, native(call.stream)>>>(pieces);
    }
  }
};

}  // namespace

void Views::copy(const View& in, const View& out, StreamView s) {
  const Walk<2> w = walk_of(in, out);
  if (w.size == 0) return;
  if (in.meta.dtype == out.meta.dtype) return copy_same(w, in, out, s);
  dispatch(in.meta.dtype, [&](auto from) { cast<typename decltype(from)::type>(w, in, out, s); });
}

extern constinit const KernelList copy = copy_kernels<Views, Backend>();

}  // namespace locus::cuda
