#include <locus/core/scratch.h>
#include <locus/ops/optim/multi_kernel.h>
#include <locus/ops/optim/optim_cuda.h>

namespace locus::cuda {
namespace {

constexpr int kPacks = 4;
template <class T>
constexpr int kEach = 16 / sizeof(T);
template <class T>
constexpr int64_t kChunk = kBlock* kEach<T>* kPacks;

// Calls f(packs) for a whole, aligned chunk, else g(x) for each element.
template <class T>
__device__ __forceinline__ void each_element(const Table<1>& t, const auto& f, const auto& g) {
  const int block = static_cast<int>(blockIdx.x), tensor = t.tensor_of(block);
  const int64_t begin = (block - t.first_block[tensor]) * kChunk<T>;
  const int64_t left = t.size[tensor] - begin;
  T* const x = static_cast<T*>(t.operand[0][tensor]) + begin;
  if (left >= kChunk<T> && aligned(x, 16)) return f(reinterpret_cast<Pack<T, kEach<T>>*>(x));
  for (int i = static_cast<int>(threadIdx.x); i < kChunk<T> && i < left; i += kBlock) g(x[i]);
}

template <class T, class R>
__global__ void __launch_bounds__(kBlock)
    reduce_tensors(const __grid_constant__ Table<1> t, double* of_block, double* out, bool first,
                   unsigned* counter) {
  using A = Compute<T>;
  const auto combine = [](double a, double b) { return R::combine(a, b); };
  double v = R::kInit;
  each_element<T>(
      t,
      [&](const Pack<T, kEach<T>>* x) {
        Pack<T, kEach<T>> packs[kPacks];
#pragma unroll
        for (int p = 0; p < kPacks; ++p) packs[p] = x[p * kBlock + threadIdx.x];
#pragma unroll
        for (int p = 0; p < kPacks; ++p)
#pragma unroll
          for (int e = 0; e < kEach<T>; ++e) v = combine(v, R::of(convert<A>(packs[p].v[e])));
      },
      [&](const T& x) { v = combine(v, R::of(convert<A>(x))); });
  v = all_of_team(v, kBlock, combine);
  if (threadIdx.x == 0) of_block[blockIdx.x] = v;
  if (!arrives_last(counter, gridDim.x)) return;
  if constexpr (R::kEach) {
    each_tensor(t, of_block, R::kInit, combine, [&](int i, double sum) { out[i] = sum; });
  } else {
    v = R::kInit;
    for (int b = static_cast<int>(threadIdx.x); b < t.first_block[t.n]; b += kBlock)
      v = combine(v, __ldcg(of_block + b));
    v = all_of_team(v, kBlock, combine);
    if (threadIdx.x == 0) *out = first ? v : combine(v, *out);
  }
}

template <class T>
__global__ void __launch_bounds__(kBlock)
    clip_tensors(const __grid_constant__ Table<1> t, const double* norm, MultiClipAttrs attrs) {
  using A = Compute<T>;
  const A factor = A(clip_factor(norm, attrs));
  const auto f = [&](T& x) { x = convert<T>(limited(convert<A>(x) * factor, attrs.limit)); };
  each_element<T>(
      t,
      [&](Pack<T, kEach<T>>* x) {
        Pack<T, kEach<T>> packs[kPacks];
#pragma unroll
        for (int p = 0; p < kPacks; ++p) packs[p] = x[p * kBlock + threadIdx.x];
#pragma unroll
        for (int p = 0; p < kPacks; ++p) {
#pragma unroll
          for (int e = 0; e < kEach<T>; ++e) f(packs[p].v[e]);
          x[p * kBlock + threadIdx.x] = packs[p];
        }
      },
      f);
}

struct Backend {
  template <class T, class R>
  static void reduce(const Call& call) {
    double* const out = call.out[0].as<double>();
    unsigned* const counter = counters(call.stream, 1);
    each_table<1>(
        call.n_in, kChunk<T>, [&](int i, int) -> const View& { return call.in[i]; },
        [&](const Table<1>& t, int first) {
          const int blocks = t.first_block[t.n] > 0 ? t.first_block[t.n] : 1;
          const Scratch of_block(call, static_cast<size_t>(blocks) * sizeof(double));
          reduce_tensors<T, R><<<static_cast<unsigned>(blocks), kBlock, 0, stream(call)>>>(
              t, of_block.as<double>(), out + (R::kEach ? first : 0), first == 0, counter);
        });
  }

  template <class T>
  static void clip(const Call& call) {
    const double* const norm = call.n_in > call.n_out ? call.in[call.n_out].as<double>() : nullptr;
    const auto& attrs = call.attributes<MultiClipAttrs>();
    each_table<1>(
        call.n_out, kChunk<T>, [&](int i, int) -> const View& { return call.out[i]; },
        [&](const Table<1>& t, int) {
          if (t.first_block[t.n] == 0) return;
          clip_tensors<T><<<static_cast<unsigned>(t.first_block[t.n]), kBlock, 0, stream(call)>>>(
              t, norm, attrs);
        });
  }
};

}  // namespace

extern constinit const KernelList optim_multi = optim_multi_kernels<Backend>();

}  // namespace locus::cuda
