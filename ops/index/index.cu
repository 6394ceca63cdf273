#include <cuda_runtime.h>

#include <locus/ops/index/index_kernel.h>
#include <locus/ops/kernel/copy_gpu.h>

namespace locus::cuda {
namespace {

// Elements of up to 16 bytes where rows are runs on both sides; rescales the plan.
int widen_rows(TakePlan& p, int bytes, const void* data, const void* result) {
  const int last = p.inner.rank - 1;
  if (last < 0 || p.inner.stride[0][last] != 1 || p.inner.stride[1][last] != 1) return bytes;
  const auto odd = [](const int64_t* v, int n) {
    bool any = false;
    for (int i = 0; i < n; ++i) any = any || v[i] % 2 != 0;
    return any;
  };
  const auto halve = [](int64_t* v, int n) {
    for (int i = 0; i < n; ++i) v[i] /= 2;
  };
  while (bytes < 16) {
    if ((reinterpret_cast<uintptr_t>(data) | reinterpret_cast<uintptr_t>(result)) %
            static_cast<uintptr_t>(2 * bytes) !=
        0)
      break;
    if (p.inner.shape[last] % 2 != 0 || odd(p.inner.stride[0], last) ||
        odd(p.inner.stride[1], last) || odd(p.data_stride, p.rank) ||
        odd(p.result_stride, p.rank) || odd(p.step, p.n_ids))
      break;
    p.inner.shape[last] /= 2;
    p.inner.size /= 2;
    halve(p.inner.stride[0], last);
    halve(p.inner.stride[1], last);
    halve(p.data_stride, p.rank);
    halve(p.result_stride, p.rank);
    halve(p.step, p.n_ids);
    bytes *= 2;
  }
  return bytes;
}

// Take reads data and writes result; put the other way. I: uint32_t below 2^31 elements.
template <class T, class I, bool kPut>
__global__ void __launch_bounds__(kBlock) move_rows(TakePlan p, T* data, T* result, Fault* fault) {
  const I inner = static_cast<I>(p.inner.size);
  const int64_t n = p.rows * p.inner.size;
  for (int64_t i = first_thread(); i < n; i += all_threads()) {
    const I row = static_cast<I>(i) / inner, q = static_cast<I>(i) - row * inner;
    const TakeRow at = take_row(p, static_cast<int64_t>(row));
    int64_t d = at.data, r = at.result;
    take_inner(p, static_cast<int64_t>(q), d, r);
    if (at.bad_axis >= 0) {
      report(fault, at.bad, p.length[at.bad_axis]);
      if constexpr (!kPut) result[r] = T{};
    } else if constexpr (kPut) {
      data[d] = result[r];
    } else {
      result[r] = data[d];
    }
  }
}

// One index tensor, single elements: nothing to divide. The memory's rate of random reads is the
// limit, so a thread an element does as well as any other way.
template <class T, class I>
__global__ void __launch_bounds__(kBlock)
    take_elements(const __grid_constant__ TakePlan p, const T* __restrict__ data,
                  T* __restrict__ result, Fault* fault) {
  const int64_t i = first_thread();
  if (i >= p.rows) return;
  const int64_t id = static_cast<const I*>(p.ids[0])[i * p.ids_stride[0][0]];
  const int64_t k = resolve_index(id, p.length[0], p.mode);
  if (k < 0) report(fault, id, p.length[0]);
  result[i * p.result_stride[0]] = k < 0 ? T{} : data[k * p.step[0]];
}

template <bool kPut>
void run_rows(const Call& call, const View& data, const View& result, const View* ids) {
  TakePlan p = make_take_plan(data, result, ids, call.attributes<TakeAttrs>());
  if (p.rows * p.inner.size == 0) return;
  const int bytes = widen_rows(p, size_of(data.meta.dtype), data.data, result.data);
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

void take(const Call& call) { run_rows<false>(call, call.in[0], call.out[0], call.in + 1); }
void put(const Call& call) { run_rows<true>(call, call.out[0], call.in[1], call.in + 2); }

template <class T>
__global__ void __launch_bounds__(kBlock)
    pick_places(Along p, int mode, const T* data, const void* ids, DType type, T* out,
                Fault* fault) {
  const int64_t n = p.rows();
  for (int64_t i = first_thread(); i < n; i += all_threads()) {
    const int64_t id = id_at(ids, type, i), k = resolve_index(id, p.n, mode);
    if (k < 0) {
      report(fault, id, p.n);
      out[i] = T{};
    } else {
      out[i] = data[(i / p.inner * p.n + k) * p.inner + i % p.inner];
    }
  }
}

// A thread an element of the result: dout where the index points, else 0. One launch.
template <class T>
__global__ void __launch_bounds__(kBlock)
    pick_scatter(Along p, int mode, const T* dout, const void* ids, DType type, T* out,
                 Fault* fault) {
  const int64_t n = p.rows() * p.n;
  for (int64_t i = first_thread(); i < n; i += all_threads()) {
    const int64_t rest = i / p.inner, place = rest / p.n * p.inner + i % p.inner;
    const int64_t id = id_at(ids, type, place), k = resolve_index(id, p.n, mode);
    if (k < 0) report(fault, id, p.n);
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
           p, a.mode, call.in[0].as<T>(), ids.data, ids.meta.dtype, call.out[0].as<T>(),
           fault(call));
  });
}

void pick(const Call& call) { run_pick<false>(call); }
void pick_grad(const Call& call) { run_pick<true>(call); }

template <class T>
__global__ void __launch_bounds__(kBlock)
    one_hot_rows(const void* ids, DType type, int64_t n, int64_t depth, T on, T off, T* out) {
  for (int64_t i = first_thread(); i < n; i += all_threads())
    out[i] = id_at(ids, type, i / depth) == i % depth ? on : off;
}

void one_hot(const Call& call) {
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

template <class T, class I>
__global__ void __launch_bounds__(kBlock)
    mask_fill_places(Walk<2> w, const bool* mask, T* target, T value) {
  for (int64_t i = first_thread(); i < w.size; i += all_threads()) {
    int64_t at[2] = {};
    offsets<I>(w, i, at);
    if (mask[at[0]]) target[at[1]] = value;
  }
}

void mask_fill(const Call& call) {
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

__global__ void __launch_bounds__(kBlock)
    unravel_places(Meta m, const int64_t* flat, int64_t* out, int64_t n) {
  for (int64_t i = first_thread(); i < n; i += all_threads()) {
    int64_t rest = flat[i];
    for (int axis = m.rank - 1; axis >= 0; --axis) {
      out[axis * n + i] = rest % m.shape[axis];
      rest /= m.shape[axis];
    }
  }
}

void unravel(const Call& call) {
  const int64_t n = call.in[0].meta.size();
  launch(call.stream, n, unravel_places, call.attributes<UnravelAttrs>().shape,
         call.in[0].as<int64_t>(), call.out[0].as<int64_t>(), n);
}

}  // namespace

// index_scatter.cu
template <class T>
void take_grad(const Call& call);
void mask_offsets(const Call& call);
void mask_indices(const Call& call);
void mask_select(const Call& call);
void mask_select_grad(const Call& call);

namespace {
struct Backend {
  static constexpr Kernel take = cuda::take, put = cuda::put, pick = cuda::pick,
                          pick_grad = cuda::pick_grad, one_hot = cuda::one_hot,
                          mask_fill = cuda::mask_fill, mask_offsets = cuda::mask_offsets,
                          mask_indices = cuda::mask_indices, mask_select = cuda::mask_select,
                          mask_select_grad = cuda::mask_select_grad, unravel_index = cuda::unravel;
  template <DType D>
  static void take_grad(const Call& call) {
    cuda::take_grad<CppTypeOf<D>>(call);
  }
};
}  // namespace

extern constinit const KernelList index = index_kernels<Backend>();

}  // namespace locus::cuda
