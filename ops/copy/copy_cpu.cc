#include <locus/devices/cpu.h>
#include <locus/ops/copy/copy_kernel.h>

namespace locus::LOCUS_ISA {
namespace {

constexpr int64_t kGrain = 32768;  // elements a thread should have at least

template <class In, class Out>
LOCUS_HD void copy_run(const In* in, int64_t si, Out* out, int64_t so, int64_t n) {
  if (si == 1 && so == 1) {
    if constexpr (std::is_same_v<In, Out>)
      __builtin_memcpy(out, in, static_cast<size_t>(n) * sizeof(In));
    else
      for (int64_t k = 0; k < n; ++k) out[k] = convert<Out>(in[k]);
  } else if (si == 0 && so == 1) {
    const Out v = convert<Out>(*in);
    for (int64_t k = 0; k < n; ++k) out[k] = v;
  } else {
    for (int64_t k = 0; k < n; ++k) out[k * so] = convert<Out>(in[k * si]);
  }
}

// Runs along the innermost axis; ranges are cut anywhere, so a few long rows share out evenly.
template <class In, class Out>
void copy_rows(const Walk<2>& w, const In* in, Out* out) {
  const int64_t si = w.stride[0][w.rank - 1], so = w.stride[1][w.rank - 1];
  parallel_for(w.size, kGrain, [&](int64_t begin, int64_t end) {
    for_rows<2>({w.path(0), w.path(1)}, begin, end - begin,
                [&](const int64_t(&at)[2], int64_t, int64_t n) {
                  copy_run(in + at[0], si, out + at[1], so, n);
                });
  });
}

// The input runs along axis t, the output along the last: through tiles of a cache line each way.
template <class T>
void transpose_tiles(const Walk<2>& whole, int t, const T* in, T* out) {
  constexpr int64_t kTile = sizeof(T) >= 4 ? 16 : 32;
  Walk<2> w = whole;  // the other axes, then t and the last counted in tiles
  for (int i = t; i + 2 < whole.rank; ++i) {
    w.shape[i] = whole.shape[i + 1];
    w.stride[0][i] = whole.stride[0][i + 1];
    w.stride[1][i] = whole.stride[1][i + 1];
  }
  const int a = whole.rank - 2, b = whole.rank - 1;
  const int64_t na = whole.shape[t], nb = whole.shape[b];
  const int64_t sa = whole.stride[1][t], sb = whole.stride[0][b];
  const int64_t tiles_a = (na + kTile - 1) / kTile, tiles_b = (nb + kTile - 1) / kTile;
  w.rank = a;
  const int64_t outer = whole.size / (na * nb);
  parallel_for(
      outer * tiles_a * tiles_b, kGrain / (kTile * kTile), [&](int64_t begin, int64_t end) {
        T tile[kTile][kTile];
        for (; begin < end; ++begin) {
          const int64_t ib = begin % tiles_b * kTile, ia = begin / tiles_b % tiles_a * kTile;
          int64_t at[2] = {};
          w.locate(begin / tiles_b / tiles_a, at, w.rank);
          const int64_t ma = na - ia < kTile ? na - ia : kTile,
                        mb = nb - ib < kTile ? nb - ib : kTile;
          const T* from = in + at[0] + ia + ib * sb;
          T* to = out + at[1] + ia * sa + ib;
          for (int64_t j = 0; j < mb; ++j)
            for (int64_t i = 0; i < ma; ++i) tile[j][i] = from[j * sb + i];
          for (int64_t i = 0; i < ma; ++i)
            for (int64_t j = 0; j < mb; ++j) to[i * sa + j] = tile[j][i];
        }
      });
}

template <class T>
void copy_same(const Walk<2>& w, const T* in, T* out) {
  if (const int t = transposed_axis(w); t >= 0) return transpose_tiles(w, t, in, out);
  copy_rows(w, in, out);
}

}  // namespace

void Views::copy(const View& in, const View& out, StreamView) {
  Walk<2> w = walk_of(in, out);
  if (w.size == 0) return;
  if (in.meta.dtype == out.meta.dtype)
    return by_bytes(widen(w, size_of(in.meta.dtype), in.data, out.data), [&](auto word) {
      using T = decltype(word);
      copy_same(w, in.as<T>(), out.as<T>());
    });
  dispatch(in.meta.dtype, [&](auto from) {
    dispatch(out.meta.dtype, [&](auto to) {
      copy_rows(w, in.as<typename decltype(from)::type>(), out.as<typename decltype(to)::type>());
    });
  });
}

void Views::fill(const View& out, uint64_t bits, StreamView s) {
  View in{&bits, out.meta, {}};
  copy(in, out, s);
}

extern constinit const KernelList copy = copy_kernels<Views>();

}  // namespace locus::LOCUS_ISA
