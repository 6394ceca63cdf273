#include <locus/ops/index/index_kernel.h>
#include <locus/ops/index/take_cpu.h>

namespace locus::LOCUS_ISA_NAMESPACE {
namespace {

constexpr int64_t kGrain = kIndexGrain;

// Single elements: the most frequent take. A few places are computed and prefetched before the
// first read, so that reads overlap.
template <class T>
void take_elements(const TakeWalk& p, const TakeAttrs& a, const T* data, T* result) {
  parallel_ranges(p.rows, kGrain, [&](int64_t begin, int64_t end) {
    int64_t place[kPlaces];
    for (; begin < end; begin += kPlaces) {
      const int64_t m = end - begin < kPlaces ? end - begin : kPlaces;
      find_places("take", p, a, begin, m, place);
      for (int64_t k = 0; k < m; ++k) __builtin_prefetch(data + place[k]);
      for (int64_t k = 0; k < m; ++k) result[begin + k] = data[place[k]];
    }
  });
}

template <class T>
void take_sized(const TakeWalk& p, const TakeAttrs& a, const T* data, T* result) {
  if (is_elements(p)) return take_elements(p, a, data, result);
  parallel_ranges(p.rows, grain_of(p.inner.size), [&](int64_t begin, int64_t end) {
    for_each_run("take", p, a, begin, end,
                 [&](int64_t d, int64_t r, int64_t sd, int64_t sr, int64_t n) {
                   if (sd == 1 && sr == 1)
                     for (int64_t k = 0; k < n; ++k) result[r + k] = data[d + k];
                   else
                     for (int64_t k = 0; k < n; ++k) result[r + k * sr] = data[d + k * sd];
                 });
  });
}

// One thread: a repeated index must leave one whole value.
template <class T>
void put_sized(const TakeWalk& p, const TakeAttrs& a, T* data, const T* values) {
  for_each_run("put", p, a, 0, p.rows,
               [&](int64_t d, int64_t r, int64_t sd, int64_t sr, int64_t n) {
                 for (int64_t k = 0; k < n; ++k) data[d + k * sd] = values[r + k * sr];
               });
}

// move(offset in data, offset in result) for each picked element.
LOCUS_HD void for_each_pick(const Call& call, const View& data, const auto& move) {
  const PickAttrs& a = call.attributes<PickAttrs>();
  const Along p(data.meta, a.axis);
  const View& ids = call.in[1];
  const DType d = ids.meta.dtype;
  parallel_ranges(p.rows(), kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t id = id_at(ids.data, d, i), k = resolve_index(id, d, p.n, a.mode);
      if (k < 0) detail::throw_out_of_bounds("pick", id, d, a.axis, p.n);
      move((i / p.inner * p.n + k) * p.inner + i % p.inner, i);
    }
  });
}

// f(first element, end, ones before it) for every tile of a mask.
template <class F>
LOCUS_HD void for_each_tile(int64_t n, const int64_t* offsets, const F& f) {
  parallel_ranges(mask_tiles(n), kGrain / kMaskTile, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t)
      f(t * kMaskTile, n - t * kMaskTile < kMaskTile ? n : (t + 1) * kMaskTile, offsets[t]);
  });
}

// out[k] = value(place of the k-th one). Without branches: later elements overwrite unselected
// ones.
template <class T, class F>
void compress(const View& mask_view, const int64_t* offsets, T* out, const F& value) {
  const uint8_t* mask = mask_view.as<uint8_t>();
  for_each_tile(mask_view.meta.size(), offsets, [&](int64_t begin, int64_t, int64_t at) {
    const int64_t stop = offsets[begin / kMaskTile + 1];
    for (int64_t i = begin; at < stop; ++i) {
      out[at] = value(i);
      at += mask[i] != 0;
    }
  });
}

struct Backend {
  static void take(const Call& call) {
    const TakeAttrs& a = call.attributes<TakeAttrs>();
    const TakeWalk p = make_take_walk(call.in[0], call.out[0], call.in + 1, a);
    by_size(size_of(call.in[0].meta.dtype), [&](auto word) {
      using T = decltype(word);
      take_sized<T>(p, a, call.in[0].as<T>(), call.out[0].as<T>());
    });
  }

  // Inputs: target, values, indices.
  static void put(const Call& call) {
    const TakeAttrs& a = call.attributes<TakeAttrs>();
    const TakeWalk p = make_take_walk(call.out[0], call.in[1], call.in + 2, a);
    if (p.rows * p.inner.size == 0) return;
    check_rows("put", p, a);
    by_size(size_of(call.out[0].meta.dtype), [&](auto word) {
      using T = decltype(word);
      put_sized<T>(p, a, call.out[0].as<T>(), call.in[1].as<T>());
    });
  }

  static void pick(const Call& call) {
    by_size(size_of(call.in[0].meta.dtype), [&](auto word) {
      using T = decltype(word);
      const T* data = call.in[0].as<T>();
      T* out = call.out[0].as<T>();
      for_each_pick(call, call.in[0], [&](int64_t d, int64_t r) { out[r] = data[d]; });
    });
  }

  static void pick_grad(const Call& call) {
    Views::fill(call.out[0], 0, call.stream);
    by_size(size_of(call.out[0].meta.dtype), [&](auto word) {
      using T = decltype(word);
      const T* dout = call.in[0].as<T>();
      T* out = call.out[0].as<T>();
      for_each_pick(call, call.out[0], [&](int64_t d, int64_t r) { out[d] = dout[r]; });
    });
  }

  static void one_hot(const Call& call) {
    const OneHotAttrs& a = call.attributes<OneHotAttrs>();
    const View& ids = call.in[0];
    dispatch(a.dtype, [&](auto type) {
      using T = typename decltype(type)::type;
      const T on = convert<T>(a.on), off = convert<T>(a.off);
      T* out = call.out[0].as<T>();
      parallel_ranges(ids.meta.size(), kGrain / (a.depth + 1) + 1, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          T* row = out + i * a.depth;
          for (int64_t k = 0; k < a.depth; ++k) row[k] = off;
          const int64_t id = id_at(ids.data, ids.meta.dtype, i);
          if (id >= 0 && id < a.depth) row[id] = on;
        }
      });
    });
  }

  static void mask_offsets(const Call& call) {
    const uint8_t* mask = call.in[0].as<uint8_t>();
    int64_t* out = call.out[0].as<int64_t>();
    const int64_t n = call.in[0].meta.size(), tiles = mask_tiles(n);
    for_each_tile(n, out, [&](int64_t begin, int64_t end, int64_t) {
      int count = 0;
      for (int64_t i = begin; i < end; ++i) count += mask[i] != 0;
      out[begin / kMaskTile] = count;
    });
    int64_t total = 0;
    for (int64_t t = 0; t < tiles; ++t) {
      const int64_t count = out[t];
      out[t] = total;
      total += count;
    }
    out[tiles] = total;
  }

  static void mask_indices(const Call& call) {
    compress(call.in[0], call.in[1].as<int64_t>(), call.out[0].as<int64_t>(),
             [](int64_t i) { return i; });
  }

  static void mask_select(const Call& call) {
    by_size(size_of(call.in[0].meta.dtype), [&](auto word) {
      using T = decltype(word);
      const T* data = call.in[0].as<T>();
      compress(call.in[1], call.in[2].as<int64_t>(), call.out[0].as<T>(),
               [&](int64_t i) { return data[i]; });
    });
  }

  static void mask_select_grad(const Call& call) {
    by_size(size_of(call.in[0].meta.dtype), [&](auto word) {
      using T = decltype(word);
      const T* dout = call.in[0].as<T>();
      const uint8_t* mask = call.in[1].as<uint8_t>();
      T* out = call.out[0].as<T>();
      for_each_tile(call.in[1].meta.size(), call.in[2].as<int64_t>(),
                    [&](int64_t begin, int64_t end, int64_t at) {
                      for (int64_t i = begin; i < end; ++i) out[i] = mask[i] ? dout[at++] : T{};
                    });
    });
  }

  // Inputs: target, and a mask of its shape.
  static void mask_fill(const Call& call) {
    const View& target = call.out[0];
    const uint64_t bits = element_bits(target.meta.dtype, call.attributes<MaskFillAttrs>().value);
    const Walk<2> w = walk_of(call.in[1], target);
    const int64_t sm = w.stride[0][w.rank - 1], st = w.stride[1][w.rank - 1];
    const uint8_t* mask = call.in[1].as<uint8_t>();
    by_size(size_of(target.meta.dtype), [&](auto word) {
      using T = decltype(word);
      const T value = static_cast<T>(bits);
      T* data = target.as<T>();
      parallel_ranges(w.size, kGrain, [&](int64_t begin, int64_t end) {
        for_rows<2>({w.path(0), w.path(1)}, begin, end - begin,
                    [&](const int64_t(&at)[2], int64_t, int64_t n) {
                      for (int64_t k = 0; k < n; ++k)
                        if (mask[at[0] + k * sm]) data[at[1] + k * st] = value;
                    });
      });
    });
  }
};

}  // namespace

extern constinit const KernelList index = index_kernels<Backend>();
extern constinit const KernelList index_mask = mask_kernels<Backend>();

}  // namespace locus::LOCUS_ISA_NAMESPACE
