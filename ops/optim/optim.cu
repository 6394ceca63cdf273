#include <utility>

#include <locus/core/scratch.h>
#include <locus/ops/optim/optim_cuda.h>
#include <locus/ops/optim/optim_kernel.h>

namespace locus::cuda {
namespace {

// Operands: the weight, its gradient (read only), states, and its master, if any.
template <class R>
using TableOf = Table<R::kStates + 3>;

struct Norms {
  double weight, other;  // sums of squares
};

// Weights and gradients are of type T, states of type S. If S is another type, there are masters of
// type S. A thread has kPacks packs of kEach elements, of at most 16 bytes each, and loads them all
// before it computes.
template <class T, class S>
struct Cut {
  using A = Compute<T>;
  static constexpr bool kMaster = !kSame<T, S>;
  static constexpr int kEach = 16 / sizeof(S), kPacks = (sizeof(A) == 8 ? 4 : 8) / kEach;
  static constexpr int64_t kChunk = kBlock * kEach * kPacks;  // elements of a block
};

// If others changed a weight, its master takes the new value.
template <class T, class S>
__device__ __forceinline__ Compute<T> value_of(T weight, const S& master) {
  if constexpr (!kSame<T, S>)
    if (convert<T>(master).bits == weight.bits) return master;
  return convert<Compute<T>>(weight);
}

// `ratio`: for rules with norms.
template <class T, class S, class R, size_t... K>
__device__ __forceinline__ void update_one(const typename R::Numbers& u, double ratio, T& weight,
                                           T g, S* states, S& master, std::index_sequence<K...>) {
  using A = Compute<T>;
  A v[R::kStates + 1];
  ((v[K] = convert<A>(states[K])), ...);
  A w = value_of(weight, master);
  if constexpr (R::kNorms)
    R::update(u, ratio, w, convert<A>(g), v[K]...);
  else
    R::update(u, w, convert<A>(g), v[K]...);
  weight = convert<T>(w);
  if constexpr (!kSame<T, S>) master = w;
  ((states[K] = convert<S>(v[K])), ...);
}

// The first launch of a rule with norms: the norms of each tensor.
template <class T, class S, class R, size_t... K>
__global__ void __launch_bounds__(kBlock)
    measure(const __grid_constant__ TableOf<R> t, const typename R::Numbers numbers,
            const typename R::Numbers* live, Norms* of_block, Norms* norms, unsigned* counter,
            std::index_sequence<K...>) {
  using A = Compute<T>;
  const typename R::Numbers u = live ? *live : numbers;
  const int block = static_cast<int>(blockIdx.x), tensor = t.tensor_of(block);
  const int64_t begin = (block - t.first_block[tensor]) * Cut<T, S>::kChunk;
  const int64_t left = t.size[tensor] - begin;
  Norms sum{0, 0};
#pragma unroll 4
  for (int i = static_cast<int>(threadIdx.x); i < Cut<T, S>::kChunk; i += kBlock) {
    if (i >= left) break;
    const int64_t at = begin + i;
    const S* const states[] = {static_cast<const S*>(t.operand[2 + K][tensor])...};
    const A v[] = {convert<A>(states[K][at])...};
    const S* const masters = static_cast<const S*>(t.operand[2 + R::kStates][tensor]);
    const A w = value_of(static_cast<const T*>(t.operand[0][tensor])[at],
                         Cut<T, S>::kMaster ? masters[at] : S());
    const A g = convert<A>(static_cast<const T*>(t.operand[1][tensor])[at]);
    const double d = static_cast<double>(R::measure(u, w, g, v[K]...));
    sum.weight += static_cast<double>(w) * static_cast<double>(w);
    sum.other += d * d;
  }
  const auto add = [](Norms a, Norms b) { return Norms{a.weight + b.weight, a.other + b.other}; };
  sum = all_of_team(sum, kBlock, add);
  if (threadIdx.x == 0) of_block[block] = sum;
  if (!arrives_last(counter, gridDim.x)) return;
  each_tensor(t, of_block, Norms{0, 0}, add, [&](int i, Norms v) { norms[i] = v; });
}

template <class T, class S, class R>
__global__ void __launch_bounds__(kBlock)
    update(const __grid_constant__ TableOf<R> t, const typename R::Numbers numbers,
           const typename R::Numbers* live, const Norms* norms) {
  using C = Cut<T, S>;
  constexpr int kStates = R::kStates, kMore = kStates + C::kMaster, kEach = C::kEach;
  constexpr auto kEachState = std::make_index_sequence<kStates>();
  const typename R::Numbers u = live ? *live : numbers;
  const int block = static_cast<int>(blockIdx.x), tensor = t.tensor_of(block);
  const int64_t begin = (block - t.first_block[tensor]) * C::kChunk;
  const int64_t left = t.size[tensor] - begin;
  double ratio = 1;
  if constexpr (R::kNorms)
    if (!R::kMatrices || !(t.flat >> tensor & 1))
      ratio = R::ratio(u, sqrt(norms[tensor].weight), sqrt(norms[tensor].other));
  T* const w = static_cast<T*>(t.operand[0][tensor]) + begin;
  const T* const g = static_cast<const T*>(t.operand[1][tensor]) + begin;
  S* more[kMore + 1];
  bool whole = aligned(w, kEach * sizeof(T)) && aligned(g, kEach * sizeof(T));
#pragma unroll
  for (int k = 0; k < kMore; ++k) {
    more[k] = static_cast<S*>(t.operand[2 + k][tensor]) + begin;
    whole = whole && aligned(more[k], kEach * sizeof(S));
  }
  const int size = left < C::kChunk ? static_cast<int>(left) : static_cast<int>(C::kChunk);
  const int packs = whole ? size / kEach : 0, first = static_cast<int>(threadIdx.x);
  Pack<T, kEach> ws[C::kPacks], gs[C::kPacks];
  Pack<S, kEach> ss[C::kPacks][kMore + 1];
#pragma unroll
  for (int p = 0; p < C::kPacks; ++p) {
    const int at = p * kBlock + first;
    if (at >= packs) break;
    ws[p] = reinterpret_cast<const Pack<T, kEach>*>(w)[at];
    gs[p] = reinterpret_cast<const Pack<T, kEach>*>(g)[at];
#pragma unroll
    for (int k = 0; k < kMore; ++k) ss[p][k] = reinterpret_cast<const Pack<S, kEach>*>(more[k])[at];
  }
#pragma unroll
  for (int p = 0; p < C::kPacks; ++p) {
    const int at = p * kBlock + first;
    if (at >= packs) break;
#pragma unroll
    for (int e = 0; e < kEach; ++e) {
      S s[kMore + 1];
#pragma unroll
      for (int k = 0; k < kMore; ++k) s[k] = ss[p][k].v[e];
      update_one<T, S, R>(u, ratio, ws[p].v[e], gs[p].v[e], s, s[kStates], kEachState);
#pragma unroll
      for (int k = 0; k < kMore; ++k) ss[p][k].v[e] = s[k];
    }
    reinterpret_cast<Pack<T, kEach>*>(w)[at] = ws[p];
#pragma unroll
    for (int k = 0; k < kMore; ++k) reinterpret_cast<Pack<S, kEach>*>(more[k])[at] = ss[p][k];
  }
  for (int i = packs * kEach + first; i < size; i += kBlock) {
    S s[kMore + 1];
#pragma unroll
    for (int k = 0; k < kMore; ++k) s[k] = more[k][i];
    T weight = w[i];
    update_one<T, S, R>(u, ratio, weight, g[i], s, s[kStates], kEachState);
    w[i] = weight;
#pragma unroll
    for (int k = 0; k < kMore; ++k) more[k][i] = s[k];
  }
}

template <class T, class S, class R>
void update_all(const Call& call) {
  using Numbers = typename R::Numbers;
  static_assert(sizeof(TableOf<R>) + sizeof(Numbers) + 48 <= 4096,
                "more than a kernel may be given");
  const auto& numbers = call.attributes<Live<Numbers>>();
  const int n = call.n_in - call.n_out, per = n == 0 ? 1 : call.n_out / n;
  const auto view = [&](int i, int k) -> const View& {
    if (k == 1) return call.in[i * (per + 1) + 1];
    return call.out[i * per + (k == 0 || k > per ? 0 : k - 1)];
  };
  each_table<R::kStates + 3>(n, Cut<T, S>::kChunk, view, [&](const TableOf<R>& t, int) {
    const auto blocks = static_cast<unsigned>(t.first_block[t.n]);
    if (blocks == 0) return;
    const Scratch scratch(call, R::kNorms ? (blocks + kMaxTensors) * sizeof(Norms) : 0);
    Norms* const norms = scratch.as<Norms>();
    if constexpr (R::kNorms)
      measure<T, S, R><<<blocks, kBlock, 0, stream(call)>>>(
          t, numbers.value, numbers.at, norms + kMaxTensors, norms, counters(call.stream, 1),
          std::make_index_sequence<R::kStates>());
    update<T, S, R><<<blocks, kBlock, 0, stream(call)>>>(t, numbers.value, numbers.at, norms);
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
