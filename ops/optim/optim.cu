// One launch updates many tensors: their pointers travel as a parameter of the kernel, and each
// block finds its tensor by the number of blocks before it.
#include <utility>

#include <locus/ops/kernel/cast.h>
#include <locus/ops/kernel/launch.h>
#include <locus/ops/optim/optim_kernel.h>

namespace locus::cuda {
namespace {

constexpr int kMaxTensors = 64, kThreads = 256, kEach = 4;
constexpr int64_t kChunk = kThreads * kEach;  // elements of a block

template <class T, int kOperands>
struct Tensors {
  T* operand[kOperands][kMaxTensors];  // the weight, its gradient (read only), its states
  int64_t size[kMaxTensors];
  int first_block[kMaxTensors + 1];
  int n;
};

// `live`, where it is not null, has the numbers that `rule` is to be made of.
template <class T, class Rule, size_t... S>
__global__ void __launch_bounds__(kThreads)
    update(const __grid_constant__ Tensors<T, 2 + Rule::kStates> t, Rule rule,
           const typename Rule::Numbers* live, std::index_sequence<S...>) {
  using A = Compute<T>;
  constexpr int kOperands = 2 + Rule::kStates;
  if (live) rule = Rule(*live);
  int low = 0, high = t.n;  // first_block[low] <= blockIdx.x < first_block[high]
  const int block = static_cast<int>(blockIdx.x);
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (t.first_block[middle] <= block)
      low = middle;
    else
      high = middle;
  }
  T* at[kOperands];
#pragma unroll
  for (int k = 0; k < kOperands; ++k) at[k] = t.operand[k][low];
  const int64_t size = t.size[low];
  const int64_t begin = (block - t.first_block[low]) * kChunk + threadIdx.x;
  A v[kOperands][kEach];
#pragma unroll
  for (int u = 0; u < kEach; ++u) {
    const int64_t i = begin + u * kThreads;
    if (i >= size) continue;
#pragma unroll
    for (int k = 0; k < kOperands; ++k) v[k][u] = convert<A>(at[k][i]);
  }
#pragma unroll
  for (int u = 0; u < kEach; ++u) {
    const int64_t i = begin + u * kThreads;
    if (i >= size) continue;
    rule(v[0][u], v[1][u], v[2 + S][u]...);
    at[0][i] = convert<T>(v[0][u]);
    ((at[2 + S][i] = convert<T>(v[2 + S][u])), ...);
  }
}

struct Backend {
  template <class T, template <class> class RuleOf>
  static void multi_tensor(const Call& call) {
    using Rule = RuleOf<Compute<T>>;
    constexpr int kOut = 1 + Rule::kStates, kIn = kOut + 1;
    const auto& numbers = call.attributes<Live<typename Rule::Numbers>>();
    const Rule rule(numbers.value);
    Tensors<T, kIn> t;
    static_assert(sizeof t + sizeof rule + 16 <= 4096, "more than a kernel's parameters may take");
    t.n = 0;
    t.first_block[0] = 0;
    const auto flush = [&] {
      if (t.n == 0) return;
      update<<<static_cast<unsigned>(t.first_block[t.n]), kThreads, 0, stream(call)>>>(
          t, rule, numbers.at, std::make_index_sequence<Rule::kStates>());
      t.n = 0;
    };
    for (int i = 0; i < call.n_in / kIn; ++i) {
      const int64_t size = call.in[i * kIn].meta.size();
      if (size == 0) continue;
      for (int k = 0; k < kIn; ++k)
        t.operand[k][t.n] =
            (k == 1 ? call.in[i * kIn + 1] : call.out[i * kOut + (k ? k - 1 : 0)]).template as<T>();
      t.size[t.n] = size;
      t.first_block[t.n + 1] = t.first_block[t.n] + static_cast<int>((size + kChunk - 1) / kChunk);
      if (++t.n == kMaxTensors) flush();
    }
    flush();
  }
};

}  // namespace

extern constinit const KernelList optim = optim_kernels<Backend>();

}  // namespace locus::cuda
