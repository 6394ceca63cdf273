// One launch updates many tensors: their pointers travel as a parameter of the kernel, and each
// block finds its tensor by the number of blocks before it.
#include <utility>

#include <locus/ops/kernel/cast.h>
#include <locus/ops/kernel/launch.h>
#include <locus/ops/optim/optim_kernel.h>

namespace locus::cuda {
namespace {

constexpr int kMaxTensors = 64;

template <int kOperands>
struct Table {
  void* operand[kOperands][kMaxTensors];  // the weight, its gradient (read only), states, master
  int64_t size[kMaxTensors];
  int first_block[kMaxTensors + 1];
  int n;

  // The tensor of a block: first_block[it] <= block < first_block[it + 1].
  __device__ int tensor_of(int block) const {
    int low = 0, high = n;
    while (high - low > 1) {
      const int middle = (low + high) / 2;
      if (first_block[middle] <= block)
        low = middle;
      else
        high = middle;
    }
    return low;
  }
};

// Weights and gradients of type T; states, and where it is another type masters, of type S. A
// thread has kEach elements at a time, of which the widest are 16 bytes, and loads all its kPacks
// of them before it computes.
template <class T, class S>
struct Cut {
  using A = Compute<T>;
  static constexpr bool kMaster = !kSame<T, S>;
  static constexpr int kEach = 16 / sizeof(S), kPacks = (sizeof(A) == 8 ? 4 : 8) / kEach;
  static constexpr int64_t kChunk = kBlock * kEach * kPacks;  // elements of a block
};

template <class T, class S, class R, size_t... K>
__device__ __forceinline__ void update_one(const typename R::Numbers& u, T& weight, T g, S* states,
                                           S& master, std::index_sequence<K...>) {
  using A = Compute<T>;
  A v[R::kStates + 1];
  ((v[K] = convert<A>(states[K])), ...);
  A w = convert<A>(weight);
  if constexpr (!kSame<T, S>)  // a weight that was changed by others is what its master is now
    if (convert<T>(master).bits == weight.bits) w = master;
  R::update(u, w, convert<A>(g), v[K]...);
  weight = convert<T>(w);
  if constexpr (!kSame<T, S>) master = w;
  ((states[K] = convert<S>(v[K])), ...);
}

template <class T, class S, class R>
__global__ void __launch_bounds__(kBlock)
    update(const __grid_constant__ Table<R::kStates + 3> t, const typename R::Numbers numbers,
           const typename R::Numbers* live) {
  using C = Cut<T, S>;
  constexpr int kStates = R::kStates, kMore = kStates + C::kMaster, kEach = C::kEach;
  constexpr auto kEachState = std::make_index_sequence<kStates>();
  const typename R::Numbers u = live ? *live : numbers;
  const int block = static_cast<int>(blockIdx.x), tensor = t.tensor_of(block);
  const int64_t begin = (block - t.first_block[tensor]) * C::kChunk;
  const int64_t left = t.size[tensor] - begin;
  T* const w = static_cast<T*>(t.operand[0][tensor]) + begin;
  const T* const g = static_cast<const T*>(t.operand[1][tensor]) + begin;
  S* more[kMore + 1];
  bool whole = left >= C::kChunk && aligned(w, kEach * sizeof(T)) && aligned(g, kEach * sizeof(T));
#pragma unroll
  for (int k = 0; k < kMore; ++k) {
    more[k] = static_cast<S*>(t.operand[2 + k][tensor]) + begin;
    whole = whole && aligned(more[k], kEach * sizeof(S));
  }
  if (!whole) {
    for (int i = static_cast<int>(threadIdx.x); i < C::kChunk && i < left; i += kBlock) {
      S s[kMore + 1];
#pragma unroll
      for (int k = 0; k < kMore; ++k) s[k] = more[k][i];
      T weight = w[i];
      update_one<T, S, R>(u, weight, g[i], s, s[kStates], kEachState);
      w[i] = weight;
#pragma unroll
      for (int k = 0; k < kMore; ++k) more[k][i] = s[k];
    }
    return;
  }
  Pack<T, kEach> ws[C::kPacks], gs[C::kPacks];
  Pack<S, kEach> ss[C::kPacks][kMore + 1];
#pragma unroll
  for (int p = 0; p < C::kPacks; ++p) {
    const int at = p * kBlock + static_cast<int>(threadIdx.x);
    ws[p] = reinterpret_cast<const Pack<T, kEach>*>(w)[at];
    gs[p] = reinterpret_cast<const Pack<T, kEach>*>(g)[at];
#pragma unroll
    for (int k = 0; k < kMore; ++k) ss[p][k] = reinterpret_cast<const Pack<S, kEach>*>(more[k])[at];
  }
#pragma unroll
  for (int p = 0; p < C::kPacks; ++p) {
#pragma unroll
    for (int e = 0; e < kEach; ++e) {
      S s[kMore + 1];
#pragma unroll
      for (int k = 0; k < kMore; ++k) s[k] = ss[p][k].v[e];
      update_one<T, S, R>(u, ws[p].v[e], gs[p].v[e], s, s[kStates], kEachState);
#pragma unroll
      for (int k = 0; k < kMore; ++k) ss[p][k].v[e] = s[k];
    }
    const int at = p * kBlock + static_cast<int>(threadIdx.x);
    reinterpret_cast<Pack<T, kEach>*>(w)[at] = ws[p];
#pragma unroll
    for (int k = 0; k < kMore; ++k) reinterpret_cast<Pack<S, kEach>*>(more[k])[at] = ss[p][k];
  }
}

// f(table) for up to kMaxTensors tensors at a time, cut into blocks of `chunk` elements.
template <int kOperands>
void each_table(const Call& call, int64_t chunk, const auto& f) {
  Table<kOperands> t;
  t.n = 0;
  t.first_block[0] = 0;
  const int n = call.n_in - call.n_out, per = n == 0 ? 1 : call.n_out / n;
  for (int i = 0; i < n; ++i) {
    const int64_t size = call.out[i * per].meta.size();
    if (size == 0) continue;
    t.operand[0][t.n] = call.out[i * per].data;
    t.operand[1][t.n] = call.in[i * (per + 1) + 1].data;
    for (int k = 1; k < per; ++k) t.operand[k + 1][t.n] = call.out[i * per + k].data;
    t.size[t.n] = size;
    t.first_block[t.n + 1] = t.first_block[t.n] + static_cast<int>((size + chunk - 1) / chunk);
    if (++t.n < kMaxTensors) continue;
    f(t);
    t.n = 0;
  }
  if (t.n > 0) f(t);
}

template <class T, class S, class R>
void update_all(const Call& call) {
  using Numbers = typename R::Numbers;
  using All = Table<R::kStates + 3>;
  static_assert(sizeof(All) + sizeof(Numbers) + 16 <= 4096, "more than a kernel may be given");
  const auto& numbers = call.attributes<Live<Numbers>>();
  each_table<R::kStates + 3>(call, Cut<T, S>::kChunk, [&](const All& t) {
    update<T, S, R><<<static_cast<unsigned>(t.first_block[t.n]), kBlock, 0, stream(call)>>>(
        t, numbers.value, numbers.at);
  });
}

struct Backend {
  template <class T, class R>
  static void multi_tensor(const Call& call) {
    if constexpr (k16Bit<T>)
      if (call.n_out == (call.n_in - call.n_out) * (R::kStates + 2))
        return update_all<T, float, R>(call);
    update_all<T, T, R>(call);
  }
};

}  // namespace

extern constinit const KernelList optim = optim_kernels<Backend>(OptimRules());

}  // namespace locus::cuda
