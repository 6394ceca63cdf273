#include <cstdlib>

#include <locus/devices/cpu.h>
#include <locus/ops/index/index_kernel.h>

namespace locus::LOCUS_ISA {
namespace {

constexpr int64_t kGrain = 16384;

LOCUS_HD int64_t grain_of(int64_t inner) { return inner >= kGrain ? 1 : kGrain / (inner + 1) + 1; }

// Before anything is written.
void check_rows(const TakePlan& p, const TakeAttrs& a) {
  if (p.mode != 0) return;
  // The axes before the index's repeat the same indices.
  int64_t n = 1;
  for (int i = a.at; i < p.rank; ++i) n *= p.shape[i];
  parallel_for(n, kGrain, [&](int64_t begin, int64_t end) {
    for (; begin < end; ++begin) {
      const TakeRow row = take_row(p, begin);
      if (row.bad_axis >= 0)
        detail::throw_out_of_bounds(row.bad, a.axes[row.bad_axis], p.length[row.bad_axis]);
    }
  });
}

// move(data, result, stride of data, stride of result, n) on every run of every row.
template <class F>
LOCUS_HD void for_each_run(const TakePlan& p, int64_t begin, int64_t end, const F& move) {
  const int last = p.inner_rank - 1;
  const int64_t run = last >= 0 ? p.inner_shape[last] : 1;
  const int64_t sd = last >= 0 ? p.inner_data[last] : 1, sr = last >= 0 ? p.inner_result[last] : 1;
  for (; begin < end; ++begin) {
    const TakeRow row = take_row(p, begin);
    for (int64_t q = 0; q < p.inner; q += run) {
      int64_t d = row.data, r = row.result;
      if (q > 0) take_inner(p, q, d, r);
      move(d, r, sd, sr, run);
    }
  }
}

template <class T>
void take_sized(const TakePlan& p, const T* data, T* result) {
  parallel_for(p.rows, grain_of(p.inner), [&](int64_t begin, int64_t end) {
    for_each_run(p, begin, end, [&](int64_t d, int64_t r, int64_t sd, int64_t sr, int64_t n) {
      if (sd == 1 && sr == 1)
        for (int64_t k = 0; k < n; ++k) result[r + k] = data[d + k];
      else
        for (int64_t k = 0; k < n; ++k) result[r + k * sr] = data[d + k * sd];
    });
  });
}

// One thread: a repeated index must leave one whole value, not a mix.
template <class T>
void put_sized(const TakePlan& p, T* data, const T* result) {
  for_each_run(p, 0, p.rows, [&](int64_t d, int64_t r, int64_t sd, int64_t sr, int64_t n) {
    for (int64_t k = 0; k < n; ++k) data[d + k * sd] = result[r + k * sr];
  });
}

template <class F>
LOCUS_HD void by_size(DType d, const F& f) {
  switch (size_of(d)) {
    case 1:
      return f(uint8_t{});
    case 2:
      return f(uint16_t{});
    case 4:
      return f(uint32_t{});
    default:
      return f(uint64_t{});
  }
}

void take(const Call& call) {
  const TakeAttrs& a = call.attributes<TakeAttrs>();
  const TakePlan p = make_take_plan(call.in[0], call.out[0], call.in + 1, a);
  check_rows(p, a);
  by_size(call.in[0].meta.dtype, [&](auto zero) {
    using T = decltype(zero);
    take_sized<T>(p, call.in[0].as<T>(), call.out[0].as<T>());
  });
}

// Inputs: the target itself, the values, the indices.
void put(const Call& call) {
  const TakeAttrs& a = call.attributes<TakeAttrs>();
  const TakePlan p = make_take_plan(call.out[0], call.in[1], call.in + 2, a);
  if (p.rows * p.inner == 0) return;
  check_rows(p, a);
  by_size(call.out[0].meta.dtype, [&](auto zero) {
    using T = decltype(zero);
    put_sized<T>(p, call.out[0].as<T>(), call.in[1].as<T>());
  });
}

// Threads share out the elements of a row (or the rows' leading axes when a row is short), so that
// each sum is in the order of the rows.
template <class T>
void take_grad(const Call& call) {
  const TakeGradAttrs& a = call.attributes<TakeGradAttrs>();
  zero_view(call.out[0]);
  const TakePlan p = make_take_plan(call.out[0], call.in[0], call.in + 1, a.take);
  if (p.rows * p.inner == 0) return;
  check_rows(p, a.take);
  T* data = call.out[0].as<T>();
  const T* dout = call.in[0].as<T>();
  const int64_t grain = kGrain / (p.rows + 1) + 1;
  parallel_for(p.inner, grain < 16 ? 16 : grain, [&](int64_t begin, int64_t end) {
    for (int64_t row = 0; row < p.rows; ++row) {
      const TakeRow at = take_row(p, row);
      if (p.inner_rank <= 1) {
        const int64_t sd = p.inner_rank ? p.inner_data[0] : 1;
        const int64_t sr = p.inner_rank ? p.inner_result[0] : 1;
        T* to = data + at.data;
        const T* from = dout + at.result;
        for (int64_t q = begin; q < end; ++q) to[q * sd] += from[q * sr];
        continue;
      }
      for (int64_t q = begin; q < end; ++q) {
        int64_t d = at.data, r = at.result;
        take_inner(p, q, d, r);
        data[d] += dout[r];
      }
    }
  });
}

LOCUS_HD int64_t id_at(const View& ids, int64_t i) {
  return ids.meta.dtype == i64 ? ids.as<int64_t>()[i] : ids.as<int32_t>()[i];
}

LOCUS_HD int64_t picked(const View& ids, int64_t i, const PickPlan& p, const PickAttrs& a) {
  const int64_t id = id_at(ids, i), k = resolve_index(id, p.length, a.mode);
  if (k < 0) detail::throw_out_of_bounds(id, a.axis, p.length);
  return k;
}

void pick(const Call& call) {
  const PickAttrs& a = call.attributes<PickAttrs>();
  const PickPlan p = pick_plan(call.in[0].meta, a.axis);
  by_size(call.in[0].meta.dtype, [&](auto zero) {
    using T = decltype(zero);
    const T* data = call.in[0].as<T>();
    T* out = call.out[0].as<T>();
    parallel_for(p.outer * p.inner, kGrain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        out[i] =
            data[(i / p.inner * p.length + picked(call.in[1], i, p, a)) * p.inner + i % p.inner];
    });
  });
}

void pick_grad(const Call& call) {
  const PickAttrs& a = call.attributes<PickAttrs>();
  const PickPlan p = pick_plan(call.out[0].meta, a.axis);
  zero_view(call.out[0]);
  by_size(call.out[0].meta.dtype, [&](auto zero) {
    using T = decltype(zero);
    const T* dout = call.in[0].as<T>();
    T* out = call.out[0].as<T>();
    parallel_for(p.outer * p.inner, kGrain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        out[(i / p.inner * p.length + picked(call.in[1], i, p, a)) * p.inner + i % p.inner] =
            dout[i];
    });
  });
}

void one_hot(const Call& call) {
  const OneHotAttrs& a = call.attributes<OneHotAttrs>();
  const View& ids = call.in[0];
  dispatch(a.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    const T on = convert<T>(a.on), off = convert<T>(a.off);
    T* out = call.out[0].as<T>();
    parallel_for(ids.meta.size(), kGrain / (a.depth + 1) + 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        T* row = out + i * a.depth;
        for (int64_t k = 0; k < a.depth; ++k) row[k] = off;
        const int64_t id = id_at(ids, i);
        if (id >= 0 && id < a.depth) row[id] = on;
      }
    });
  });
}

// Outputs: the positions, as many as there are ones (the rest is not written), and their number.
void mask_indices(const Call& call) {
  const uint8_t* mask = call.in[0].as<uint8_t>();
  int64_t* out = call.out[0].as<int64_t>();
  const int64_t n = call.in[0].meta.size();
  constexpr int64_t kBlocks = 512;
  const int64_t block = n / kBlocks < kGrain ? kGrain : n / kBlocks + 1;
  int64_t begins[kBlocks + 1];
  parallel_for((n + block - 1) / block, 1, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      const int64_t stop = (b + 1) * block < n ? (b + 1) * block : n;
      int64_t count = 0;
      for (int64_t i = b * block; i < stop; ++i) count += mask[i];
      begins[b] = count;
    }
  });
  int64_t total = 0;
  for (int64_t b = 0; b * block < n; ++b) {
    const int64_t count = begins[b];
    begins[b] = total;
    total += count;
  }
  parallel_for((n + block - 1) / block, 1, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      const int64_t stop = (b + 1) * block < n ? (b + 1) * block : n;
      int64_t at = begins[b];
      for (int64_t i = b * block; i < stop; ++i)
        if (mask[i]) out[at++] = i;
    }
  });
  *call.out[1].as<int64_t>() = total;
}

void unravel(const Call& call) {
  const Meta& m = call.attributes<UnravelAttrs>().shape;
  const int64_t n = call.in[0].meta.size();
  const int64_t* flat = call.in[0].as<int64_t>();
  int64_t* out = call.out[0].as<int64_t>();
  parallel_for(n, kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      int64_t rest = flat[i];
      for (int axis = m.rank - 1; axis >= 0; --axis) {
        out[axis * n + i] = rest % m.shape[axis];
        rest /= m.shape[axis];
      }
    }
  });
}

// Inputs: the target itself, and a mask of its shape.
void mask_fill(const Call& call) {
  const Scalar& s = call.attributes<MaskFillAttrs>().value;
  const View& target = call.out[0];
  const Walk<2> w = walk_of(call.in[1], target);
  const int last = w.rank - 1;
  const int64_t run = w.shape[last], sm = w.stride[0][last], st = w.stride[1][last];
  const uint8_t* mask = call.in[1].as<uint8_t>();
  dispatch(target.meta.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    const T value =
        s.kind() == Scalar::Kind::floating ? convert<T>(s.floating()) : convert<T>(s.integer());
    T* data = target.as<T>();
    parallel_for(w.size / run, kGrain / run + 1, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        int64_t m = 0, t = 0, rest = row;
        for (int i = last - 1; i >= 0; --i) {
          m += rest % w.shape[i] * w.stride[0][i];
          t += rest % w.shape[i] * w.stride[1][i];
          rest /= w.shape[i];
        }
        for (int64_t k = 0; k < run; ++k)
          if (mask[m + k * sm]) data[t + k * st] = value;
      }
    });
  });
}

struct Backend {
  static constexpr Kernel take = LOCUS_ISA::take, put = LOCUS_ISA::put, pick = LOCUS_ISA::pick,
                          pick_grad = LOCUS_ISA::pick_grad, one_hot = LOCUS_ISA::one_hot,
                          mask_fill = LOCUS_ISA::mask_fill, mask_indices = LOCUS_ISA::mask_indices,
                          unravel_index = LOCUS_ISA::unravel;
  template <DType D>
  static void take_grad(const Call& call) {
    LOCUS_ISA::take_grad<CppTypeOf<D>>(call);
  }
};

}  // namespace

extern constinit const KernelList index = index_kernels<Backend>();

}  // namespace locus::LOCUS_ISA
