#include <locus/devices/cpu.h>
#include <locus/ops/copy/copy_kernel.h>

namespace locus::LOCUS_ISA_NAMESPACE {
namespace {

constexpr int64_t kGrain = 32768;  // least elements per thread

template <class T>
LOCUS_HD void copy_run(const T* in, int64_t si, T* out, int64_t so, int64_t n) {
  if (si == 1 && so == 1) {
    __builtin_memcpy(out, in, static_cast<size_t>(n) * sizeof(T));
  } else if (si == 0 && so == 1) {
    const T v = *in;
    for (int64_t k = 0; k < n; ++k) out[k] = v;
  } else {
    for (int64_t k = 0; k < n; ++k) out[k * so] = in[k * si];
  }
}

// Copies runs along the innermost axis. Ranges may split rows, so few long rows are shared evenly.
template <class T>
void copy_rows(const Walk<2>& w, const T* in, T* out) {
  const int64_t si = w.stride[0][w.rank - 1], so = w.stride[1][w.rank - 1];
  parallel_ranges(w.size, kGrain, [&](int64_t begin, int64_t end) {
    for_rows<2>({w.path(0), w.path(1)}, begin, end - begin,
                [&](const int64_t(&at)[2], int64_t, int64_t n) {
                  copy_run(in + at[0], si, out + at[1], so, n);
                });
  });
}

// Each element N times in a row: the last axis, where the input's stride is 0.
template <int N, class T>
void copy_repeated(Walk<2> w, const T* in, T* out) {
  w.size /= N;
  --w.rank;
  const int64_t step = w.stride[0][w.rank - 1];
  parallel_ranges(w.size, kGrain / N, [&](int64_t begin, int64_t end) {
    for_rows<2>({w.path(0), w.path(1)}, begin, end - begin,
                [&](const int64_t(&at)[2], int64_t, int64_t n) {
                  const T* const from = in + at[0];
                  T* const to = out + at[1];
                  for (int64_t k = 0; k < n; ++k)
                    for (int j = 0; j < N; ++j) to[k * N + j] = from[k * step];
                });
  });
}
// The number of repetitions if copy_repeated() takes it, or 0.
LOCUS_HD int64_t repetitions(const Walk<2>& w) {
  const int last = w.rank - 1;
  const bool repeats = last > 0 && w.stride[0][last] == 0 && w.stride[1][last] == 1 &&
                       w.stride[1][last - 1] == w.shape[last] && w.shape[last - 1] > 1;
  return repeats ? w.shape[last] : 0;
}

// The input is contiguous along axis t, the output along the last: tiles of a cache line each way.
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
  parallel_ranges(
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
  switch (repetitions(w)) {
    case 2:
      return copy_repeated<2>(w, in, out);
    case 3:
      return copy_repeated<3>(w, in, out);
    case 4:
      return copy_repeated<4>(w, in, out);
    default:
      copy_rows(w, in, out);
  }
}

// Casts contiguous elements: the only code per pair of dtypes. Other elements are made contiguous
// first, by their size.
using Cast = void (*)(const std::byte* in, std::byte* out, int64_t n);

LOCUS_HD Cast cast_of(DType in, DType out) {
  return dispatch(in, [&](auto from) {
    return dispatch(out, [&](auto to) -> Cast {
      using From = typename decltype(from)::type;
      using To = typename decltype(to)::type;
      return [](const std::byte* x, std::byte* y, int64_t n) {
        convert_run(reinterpret_cast<const From*>(x), reinterpret_cast<To*>(y), n);
      };
    });
  });
}

// Copies elements begin .. begin + n of the path to or from a row.
void gather(const Path& p, int bytes, const std::byte* x, int64_t begin, int64_t n,
            std::byte* row) {
  by_size(bytes, [&](auto word) {
    using T = decltype(word);
    for_rows(p, begin, n, [&](int64_t at, int64_t i, int64_t length, int64_t stride) {
      copy_run(reinterpret_cast<const T*>(x) + at, stride, reinterpret_cast<T*>(row) + i, 1,
               length);
    });
  });
}
void scatter(const Path& p, int bytes, const std::byte* row, int64_t begin, int64_t n,
             std::byte* x) {
  by_size(bytes, [&](auto word) {
    using T = decltype(word);
    for_rows(p, begin, n, [&](int64_t at, int64_t i, int64_t length, int64_t stride) {
      copy_run(reinterpret_cast<const T*>(row) + i, 1, reinterpret_cast<T*>(x) + at, stride,
               length);
    });
  });
}

void cast_rows(const Walk<2>& w, const View& in, const View& out) {
  constexpr int64_t kPiece = 1024;
  const Cast cast = cast_of(in.meta.dtype, out.meta.dtype);
  const int si = size_of(in.meta.dtype), so = size_of(out.meta.dtype);
  const bool from_row = w.dense(0), to_row = w.dense(1);
  const auto* const x = in.as<std::byte>();
  auto* const y = out.as<std::byte>();
  parallel_ranges(w.size, kGrain, [&](int64_t begin, int64_t end) {
    if (from_row && to_row) return cast(x + begin * si, y + begin * so, end - begin);
    alignas(64) std::byte from[kPiece * 8], to[kPiece * 8];
    for (; begin < end; begin += kPiece) {
      const int64_t n = end - begin < kPiece ? end - begin : kPiece;
      if (!from_row) gather(w.path(0), si, x, begin, n, from);
      cast(from_row ? x + begin * si : from, to_row ? y + begin * so : to, n);
      if (!to_row) scatter(w.path(1), so, to, begin, n, y);
    }
  });
}

struct Backend {
  static void copy_several(const Call& call) {
    for (int i = 0; i < call.n_in; ++i) Views::copy(call.in[i], call.out[i], call.stream);
  }
};

}  // namespace

void Views::copy(const View& in, const View& out, StreamView) {
  Walk<2> w = walk_of(in, out);
  if (w.size == 0) return;
  if (in.meta.dtype != out.meta.dtype) return cast_rows(w, in, out);
  by_bytes(widen(w, size_of(in.meta.dtype), in.data, out.data), [&](auto word) {
    using T = decltype(word);
    copy_same(w, in.as<T>(), out.as<T>());
  });
}

void Views::fill(const View& out, uint64_t bits, StreamView s) {
  View in{&bits, out.meta, {}};
  copy(in, out, s);
}

extern constinit const KernelList copy = copy_kernels<Views, Backend>();

}  // namespace locus::LOCUS_ISA_NAMESPACE
