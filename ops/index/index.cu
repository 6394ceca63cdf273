#include <cuda_runtime.h>

#include <locus/ops/index/index_fault.h>
#include <locus/ops/index/index_kernel.h>
#include <locus/ops/kernel/launch.h>

namespace locus::cuda {
namespace {

// take reads data and writes result; put does the reverse. I is uint32_t below 2^31 elements.
template <class T, class I, bool kPut>
__global__ void __launch_bounds__(kBlock) move_rows(TakeWalk p, T* data, T* result, Fault* fault) {
  const I inner = static_cast<I>(p.inner.size);
  const int64_t n = p.rows * p.inner.size;
  for (int64_t i = first_thread(); i < n; i += all_threads()) {
    const I row = static_cast<I>(i) / inner, q = static_cast<I>(i) - row * inner;
    const TakeRow begin = take_row(p, static_cast<int64_t>(row));
    int64_t at[2] = {begin.data, begin.result};
    p.inner.locate(static_cast<int64_t>(q), at, p.inner.rank);
    if (begin.bad_axis >= 0) {
      report(fault, bad_index(p, begin));
      if constexpr (!kPut) result[at[1]] = T{};
    } else if constexpr (kPut) {
      data[at[0]] = result[at[1]];
    } else {
      result[at[1]] = data[at[0]];
    }
  }
}

// One index tensor and single elements: no division. The rate of random reads is the limit, so one
// thread per element is as fast as any other way.
template <class T, class I>
__global__ void __launch_bounds__(kBlock)
    take_elements(const __grid_constant__ TakeWalk p, const T* __restrict__ data,
                  T* __restrict__ result, Fault* fault) {
  const int64_t i = first_thread();
  if (i >= p.rows) return;
  const int64_t id = static_cast<const I*>(p.ids[0])[i * p.ids_stride[0][0]];
  const int64_t k = resolve_index(id, p.id_dtype, p.length[0], p.mode);
  if (k < 0) report(fault, {FaultKind::index, id, p.length[0], p.axes[0]});
  result[i * p.result_stride[0]] = k < 0 ? T{} : data[i * p.data_stride[0] + k * p.step[0]];
}

template <bool kPut>
void run_rows(const Call& call, const View& data, const View& result, const View* ids) {
  TakeWalk p = make_take_walk(data, result, ids, call.attributes<TakeAttrs>());
  if (p.rows * p.inner.size == 0) return;
  const int bytes = widen(p.inner, size_of(data.meta.dtype), data.data, result.data,
                          Strides{p.data_stride, p.rank}, Strides{p.result_stride, p.rank},
                          Strides{p.step, p.n_ids});
  const int64_t n = p.rows * p.inner.size;
  Fault* const fault = cuda::fault(call);
  const bool elements =
      !kPut && p.rank == 1 && p.first_id == 0 && p.n_ids == 1 && p.inner.size == 1;
  by_bytes(bytes, [&](auto word) {
    using T = decltype(word);
    const unsigned all = static_cast<unsigned>((n + kBlock - 1) / kBlock);
    if (elements && (p.id_dtype == i64 || p.id_dtype == i32)) {
      const auto kernel = p.id_dtype == i64 ? take_elements<T, int64_t> : take_elements<T, int32_t>;
      kernel<<<all, kBlock, 0, stream(call)>>>(p, data.as<T>(), result.as<T>(), fault);
      return;
    }
    const auto kernel = narrow(n) ? move_rows<T, uint32_t, kPut> : move_rows<T, uint64_t, kPut>;
    launch(call.stream, n, kernel, p, data.as<T>(), result.as<T>(), fault);
  });
}

template <class T>
__global__ void __launch_bounds__(kBlock)
    pick_places(Along p, PickAttrs a, const T* data, const void* ids, DType type, T* out,
                Fault* fault) {
  const int64_t n = p.rows();
  for (int64_t i = first_thread(); i < n; i += all_threads()) {
    const int64_t id = id_at(ids, type, i), k = resolve_index(id, type, p.n, a.mode);
    if (k < 0) {
      report(fault, {FaultKind::index, id, p.n, a.axis, is_exact(id, type)});
      out[i] = T{};
    } else {
      out[i] = data[(i / p.inner * p.n + k) * p.inner + i % p.inner];
    }
  }
}

// One thread per element of the result: dout at the index, else 0.
template <class T>
__global__ void __launch_bounds__(kBlock)
    pick_scatter(Along p, PickAttrs a, const T* dout, const void* ids, DType type, T* out,
                 Fault* fault) {
  const int64_t n = p.rows() * p.n;
  for (int64_t i = first_thread(); i < n; i += all_threads()) {
    const int64_t rest = i / p.inner, place = rest / p.n * p.inner + i % p.inner;
    const int64_t id = id_at(ids, type, place), k = resolve_index(id, type, p.n, a.mode);
    if (k < 0) report(fault, {FaultKind::index, id, p.n, a.axis, is_exact(id, type)});
    out[i] = k == rest % p.n ? dout[place] : T{};
  }
}

template <bool kGrad>
void run_pick(const Call& call) {
  const PickAttrs& a = call.attributes<PickAttrs>();
  const Along p((kGrad ? call.out : call.in)[0].meta, a.axis);
  const View& ids = call.in[1];
  by_size(size_of(call.in[0].meta.dtype), [&](auto word) {
    using T = decltype(word);
    launch(call.stream, kGrad ? p.rows() * p.n : p.rows(), kGrad ? pick_scatter<T> : pick_places<T>,
           p, a, call.in[0].as<T>(), ids.data, ids.meta.dtype, call.out[0].as<T>(), fault(call));
  });
}

template <class T>
__global__ void __launch_bounds__(kBlock)
    one_hot_rows(const void* ids, DType type, int64_t n, int64_t depth, T on, T off, T* out) {
  for (int64_t i = first_thread(); i < n; i += all_threads())
    out[i] = id_at(ids, type, i / depth) == i % depth ? on : off;
}

template <class T, class I>
__global__ void __launch_bounds__(kBlock)
    mask_fill_places(Walk<2> w, const bool* mask, T* target, T value) {
  for (int64_t i = first_thread(); i < w.size; i += all_threads()) {
    int64_t at[2] = {};
    offsets<I>(w, i, at);
    if (mask[at[0]]) target[at[1]] = value;
  }
}

struct Backend {
  static void take(const Call& call) {
    run_rows<false>(call, call.in[0], call.out[0], call.in + 1);
  }

  static void put(const Call& call) { run_rows<true>(call, call.out[0], call.in[1], call.in + 2); }

  static void pick(const Call& call) { run_pick<false>(call); }

  static void pick_grad(const Call& call) { run_pick<true>(call); }

  static void one_hot(const Call& call) {
    const OneHotAttrs& a = call.attributes<OneHotAttrs>();
    const View& ids = call.in[0];
    const int64_t n = call.out[0].meta.size();
    const uint64_t on = element_bits(a.dtype, a.on), off = element_bits(a.dtype, a.off);
    by_size(size_of(a.dtype), [&](auto word) {
      using T = decltype(word);
      launch(call.stream, n, one_hot_rows<T>, ids.data, ids.meta.dtype, n, a.depth,
             static_cast<T>(on), static_cast<T>(off), call.out[0].as<T>());
    });
  }

  static void mask_fill(const Call& call) {
    const View &mask = call.in[1], &target = call.out[0];
    const Walk<2> w = walk_of(mask, target);
    const uint64_t bits = element_bits(target.meta.dtype, call.attributes<MaskFillAttrs>().value);
    by_size(size_of(target.meta.dtype), [&](auto word) {
      using T = decltype(word);
      const auto kernel =
          narrow(w.size) ? mask_fill_places<T, uint32_t> : mask_fill_places<T, uint64_t>;
      launch(call.stream, w.size, kernel, w, mask.as<bool>(), target.as<T>(), static_cast<T>(bits));
    });
  }
};

}  // namespace

extern constinit const KernelList index = index_kernels<Backend>();

}  // namespace locus::cuda
