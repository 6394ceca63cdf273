// One launch per device. A block synchronizes with the same block of the other devices.
//   - Few bytes: a block writes its slice to the others' inboxes, waits for theirs, and adds its
//     inbox in the devices' order. This takes one barrier.
//   - Many bytes: a device adds its share of the slices from parts in place and writes the sums to
//     all devices, between two barriers. Each link carries one part's bytes. Results may be the
//     parts.
//   - Results of one device, sums or copies: that device computes them from parts in place.
#include <locus/core/kernel_list.h>
#include <locus/devices/cuda/check.h>
#include <locus/devices/cuda/signals.h>
#include <locus/ops/collective/peers.h>
#include <locus/ops/kernel/cast.h>
#include <locus/ops/kernel/launch.h>
#include <locus/ops/kernel/types.h>

namespace locus::cuda {
namespace {

constexpr int kThreads = 512, kMostTensors = 32, kSeconds = 30;
constexpr int kDevices = PeerWords::kMostDevices;

template <class T>
inline constexpr int kEach = 16 / static_cast<int>(sizeof(T));
// Elements per block at a time, more for large tensors. One pack has kPeersChunk bytes.
template <class T, int Packs>
inline constexpr int kChunk = kThreads* Packs* kEach<T>;

static_assert(kChunk<float, 1> * sizeof(float) == kPeersChunk);

// Tensors of this device, or of all.
template <class T, int kHave, int kGive = kHave>
struct Tensors {
  const T* part[kMostTensors][kHave];
  T* result[kMostTensors][kGive];
  int64_t size[kMostTensors];
  int first[kMostTensors + 1];  // chunk
  uint32_t whole = 0;           // bit i: all of tensor i's parts and results are aligned
  int count = 0;

  __device__ int tensor_of(int chunk) const {
    int i = 0;
    while (chunk >= first[i + 1]) ++i;
    return i;
  }
};

// Synchronizes a block with the same block of the other devices.
class BlockBarrier {
 public:
  __device__ BlockBarrier(unsigned* const (&words)[kDevices], int me, int devices, Fault* fault)
      : words_(words), me_(me), devices_(devices), fault_(fault) {
    round_ = *rounds();
  }

  __device__ unsigned parity() const { return (round_ + 1) & 1; }

  // A barrier. The others see what this device wrote before it.
  __device__ void synchronize() {
    ++round_;
    __syncthreads();
    const int other = static_cast<int>(threadIdx.x);
    if (other < devices_ && !late_) {
      unsigned* const theirs = words_[other] + word(me_);
      const unsigned* const mine = words_[me_] + word(other);
      asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(theirs), "r"(round_) : "memory");
      const uint64_t start = now();
      for (int tries = 1;; ++tries) {
        unsigned seen;
        asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(seen) : "l"(mine) : "memory");
        if (static_cast<int>(seen - round_) >= 0) break;
        if (tries % 1024 == 0 && now() - start > uint64_t{kSeconds} * 1000000000) {
          report(fault_, {FaultKind::late_peer, other, kSeconds});
          late_ = true;
          break;
        }
      }
    }
    __syncthreads();
  }
  __device__ void leave() {
    if (threadIdx.x == 0) *rounds() = round_;
  }

 private:
  static __device__ uint64_t now() {
    uint64_t t;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
    return t;
  }
  static __device__ int word(int from) { return static_cast<int>(blockIdx.x) * kDevices + from; }
  __device__ unsigned* rounds() const {
    return words_[me_] + PeerWords::kMostBlocks * kDevices + blockIdx.x;
  }

  unsigned* const (&words_)[kDevices];
  const int me_, devices_;
  Fault* const fault_;
  unsigned round_;
  bool late_ = false;
};

// Reads memory of any device, past the caches that other devices' writes do not reach.
template <class T>
__device__ __forceinline__ Pack<T, kEach<T>> load(const T* from, int64_t left, bool whole) {
  constexpr int kN = kEach<T>;
  Pack<T, kN> p;
  if (whole && left >= kN) {
    uint4 w;
    asm volatile("ld.volatile.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(w.x), "=r"(w.y), "=r"(w.z), "=r"(w.w)
                 : "l"(from));
    return __builtin_bit_cast(Pack<T, kN>, w);
  }
  using Word = If<sizeof(T) == 8, uint64_t,
                  If<sizeof(T) == 4, uint32_t, If<sizeof(T) == 2, uint16_t, uint8_t>>>;
#pragma unroll
  for (int i = 0; i < kN; ++i)
    p.v[i] =
        __builtin_bit_cast(T, i < left ? reinterpret_cast<const volatile Word*>(from)[i] : Word{0});
  return p;
}

template <class T>
__device__ __forceinline__ void store(T* to, int64_t left, bool whole, const Pack<T, kEach<T>>& p) {
  constexpr int kN = kEach<T>;
  if (whole && left >= kN) {
    *reinterpret_cast<Pack<T, kN>*>(to) = p;
    return;
  }
#pragma unroll
  for (int i = 0; i < kN; ++i)
    if (i < left) to[i] = p.v[i];
}
template <class T, class A>
__device__ __forceinline__ void store(T* to, int64_t left, bool whole, const A (&sum)[kEach<T>],
                                      double share) {
  Pack<T, kEach<T>> p;
#pragma unroll
  for (int i = 0; i < kEach<T>; ++i)
    p.v[i] = convert<T>(share == 1 ? sum[i] : static_cast<A>(sum[i] * static_cast<A>(share)));
  store(to, left, whole, p);
}

struct Words {
  unsigned* of[kDevices];
};

// Adds this device's share of the chunks, of `devices` parts and results each. If kGive == 1: all
// its chunks, each the sum of `parts`. u8 copies bytes.
template <class T, int kPacks, int kGive>
__global__ void __launch_bounds__(kThreads)
    combine(const __grid_constant__ Tensors<T, kDevices, kGive> t,
            const __grid_constant__ Words words, int me, int devices, int parts, double share,
            Fault* fault) {
  constexpr int kN = kEach<T>;
  constexpr bool kAlone = kGive == 1, kCopies = kSame<T, uint8_t>;
  const int first = kAlone ? 0 : me, stride = kAlone ? 1 : devices;
  BlockBarrier barrier(words.of, me, devices, fault);
  barrier.synchronize();
  for (int chunk = first + stride * static_cast<int>(blockIdx.x); chunk < t.first[t.count];
       chunk += stride * static_cast<int>(gridDim.x)) {
    const int tensor = t.tensor_of(chunk);
    const bool whole = t.whole >> tensor & 1;
    const int64_t begin = static_cast<int64_t>(chunk - t.first[tensor]) * kChunk<T, kPacks>;
    const int64_t left = t.size[tensor] - begin;
    const auto at = [](int k) { return (k * kThreads + static_cast<int>(threadIdx.x)) * kN; };
    const auto fetch = [&](int part, Pack<T, kN>(&p)[kPacks]) {
#pragma unroll
      for (int k = 0; k < kPacks; ++k)
        if (at(k) < left) p[k] = load(t.part[tensor][part] + begin + at(k), left - at(k), whole);
    };
    if constexpr (kCopies) {
      Pack<T, kN> p[kPacks];
      fetch(0, p);
#pragma unroll
      for (int k = 0; k < kPacks; ++k)
        if (at(k) < left) store(t.result[tensor][0] + begin + at(k), left - at(k), whole, p[k]);
    } else {
      using A = Compute<T>;
      A sum[kPacks][kN];
#pragma unroll 2
      for (int part = 0; part < parts; ++part) {
        Pack<T, kN> p[kPacks];
        fetch(part, p);
#pragma unroll
        for (int k = 0; k < kPacks; ++k)
#pragma unroll
          for (int i = 0; i < kN; ++i) {
            const A v = convert<A>(p[k].v[i]);
            sum[k][i] = part == 0 ? v : sum[k][i] + v;
          }
      }
      for (int result = 0; result < (kAlone ? 1 : devices); ++result)
#pragma unroll
        for (int k = 0; k < kPacks; ++k)
          if (at(k) < left)
            store(t.result[tensor][result] + begin + at(k), left - at(k), whole, sum[k], share);
    }
  }
  barrier.synchronize();
  barrier.leave();
}

struct Inboxes {
  std::byte* of[kDevices];
  size_t bytes;
};

// One chunk per block.
template <class T>
__global__ void __launch_bounds__(kThreads)
    all_reduce_pushed(const __grid_constant__ Tensors<T, 1> t, const __grid_constant__ Words words,
                      const __grid_constant__ Inboxes inboxes, int me, int devices, double share,
                      Fault* fault) {
  using A = Compute<T>;
  constexpr int kN = kEach<T>;
  const auto chunk = static_cast<int>(blockIdx.x), at = static_cast<int>(threadIdx.x) * kN;
  const int tensor = t.tensor_of(chunk);
  const bool whole = t.whole >> tensor & 1;
  const int64_t begin = static_cast<int64_t>(chunk - t.first[tensor]) * kChunk<T, 1> + at;
  const int64_t left = t.size[tensor] - begin;
  BlockBarrier barrier(words.of, me, devices, fault);
  const auto inbox = [&](int of, int from) {
    const size_t slot = barrier.parity() * static_cast<size_t>(devices) + static_cast<size_t>(from);
    return reinterpret_cast<T*>(inboxes.of[of] + slot * inboxes.bytes + chunk * kPeersChunk) + at;
  };
  const T* inbox_of[kDevices];
  Pack<T, kN> own;
  if (left > 0) {
    own = load(t.part[tensor][0] + begin, left, whole);
    for (int other = 0; other < devices; ++other) {
      inbox_of[other] = inbox(me, other);
      if (other != me) *reinterpret_cast<Pack<T, kN>*>(inbox(other, me)) = own;
    }
  }
  barrier.synchronize();
  if (left > 0) {
    A sum[kN];
    for (int device = 0; device < devices; ++device) {
      const Pack<T, kN> p = device == me ? own : load(inbox_of[device], kN, true);
#pragma unroll
      for (int i = 0; i < kN; ++i) {
        const A v = convert<A>(p.v[i]);
        sum[i] = device == 0 ? v : sum[i] + v;
      }
    }
    store(t.result[tensor][0] + begin, left, whole, sum, share);
  }
  barrier.leave();
}

// The tensors from `begin` on that fit, of `have` parts each. call.in: all parts, then all results:
// kGive each if that is 1, else as many as parts.
template <class T, int kHave, int kGive = kHave>
Tensors<T, kHave, kGive> table(const Call& call, int begin, int have, int chunk) {
  const int give = kGive == 1 ? 1 : have;
  Tensors<T, kHave, kGive> t;
  t.first[0] = 0;
  for (int k = begin; k < call.n_out && t.count < kMostTensors; ++k) {
    const int i = t.count++;
    const Meta& m = call.out[k].meta;
    t.size[i] = m.size() * size_of(m.dtype) / static_cast<int>(sizeof(T));
    bool whole = true;
    for (int d = 0; d < have; ++d) {
      t.part[i][d] = call.in[k * have + d].template as<const T>();
      whole = whole && aligned(t.part[i][d], 16);
    }
    for (int d = 0; d < give; ++d) {
      t.result[i][d] = call.in[call.n_out * have + k * give + d].template as<T>();
      whole = whole && aligned(t.result[i][d], 16);
    }
    t.whole |= static_cast<uint32_t>(whole) << i;
    t.first[i + 1] = t.first[i] + static_cast<int>((t.size[i] + chunk - 1) / chunk);
  }
  return t;
}

// With `beside` the kernel has priority: its few blocks mostly wait for other devices.
template <class... P>
void enqueue(const Call& call, bool beside, int blocks, void (*kernel)(P...), const auto&... args) {
  cudaLaunchAttribute priority;
  priority.id = cudaLaunchAttributePriority;
  int least = 0;
  if (beside) LOCUS_CUDA(cudaDeviceGetStreamPriorityRange(&least, &priority.val.priority));
  cudaLaunchConfig_t config{};
  config.gridDim = static_cast<unsigned>(blocks);
  config.blockDim = kThreads;
  config.stream = native(call.stream);
  config.attrs = &priority;
  config.numAttrs = beside;
  LOCUS_CUDA(cudaLaunchKernelEx(&config, kernel, args...));
}

Words words_of(const PeersAttrs& a) {
  Words words;
  for (int i = 0; i < kDevices; ++i) words.of[i] = a.words->words[i];
  return words;
}
int most_blocks(const PeersAttrs& a) { return a.beside ? 16 : PeerWords::kMostBlocks; }
double share_of(const PeersAttrs& a) { return a.mean ? 1. / a.devices : 1.; }

constexpr int kMany = 4;

template <class T>
void run_all_reduce(const Call& call) {
  const auto& a = call.attributes<PeersAttrs>();
  const int most = most_blocks(a);
  const double share = share_of(a);
  const Words words = words_of(a);
  Inboxes inboxes{{}, a.words->inbox_bytes};
  for (int i = 0; i < kDevices; ++i) inboxes.of[i] = a.words->inbox[i];
  for (int begin = 0; begin < call.n_out; begin += kMostTensors) {
    if (a.pushed) {
      const auto t = table<T, 1>(call, begin, 1, kChunk<T, 1>);
      if (const int chunks = t.first[t.count]; chunks > 0)
        enqueue(call, a.beside, chunks, &all_reduce_pushed<T>, t, words, inboxes, a.me, a.devices,
                share, fault(call));
      continue;
    }
    const auto launch = [&](const auto& t, auto* kernel) {
      const int chunks = (t.first[t.count] + a.devices - 1) / a.devices;
      if (chunks > 0)
        enqueue(call, a.beside, chunks < most ? chunks : most, kernel, t, words, a.me, a.devices,
                a.devices, share, fault(call));
    };
    const auto t = table<T, kDevices>(call, begin, a.devices, kChunk<T, 1>);
    if (t.first[t.count] <= most * a.devices)
      launch(t, &combine<T, 1, kDevices>);
    else
      launch(table<T, kDevices>(call, begin, a.devices, kChunk<T, kMany>),
             &combine<T, kMany, kDevices>);
  }
}

// Every device makes the same launches of as many blocks, even with less to do.
template <class T>
void run_exchange(const Call& call) {
  const auto& a = call.attributes<PeersAttrs>();
  const int most = most_blocks(a);
  const Words words = words_of(a);
  const auto launch = [&](int begin, int chunk, auto* kernel) {
    enqueue(call, a.beside, a.chunks < most ? a.chunks : most, kernel,
            table<T, kDevices, 1>(call, begin, a.parts, chunk), words, a.me, a.devices, a.parts,
            share_of(a), fault(call));
  };
  for (int begin = 0; begin < a.results; begin += kMostTensors)
    if (a.chunks <= kMany * most)
      launch(begin, kChunk<T, 1>, &combine<T, 1, 1>);
    else
      launch(begin, kChunk<T, kMany>, &combine<T, kMany, 1>);
}

constexpr KernelList peers_kernels() {
  KernelList list;
  list.add_each("all_reduce_peers", kFloatDTypes,
                [](auto d) -> Kernel { return &run_all_reduce<CppTypeOf<decltype(d)::value>>; });
  list.add_each("exchange_peers", DTypes<f32, f64, f16, bf16, u8>(),
                [](auto d) -> Kernel { return &run_exchange<CppTypeOf<decltype(d)::value>>; });
  return list;
}

}  // namespace

extern constinit const KernelList peers = peers_kernels();

}  // namespace locus::cuda
