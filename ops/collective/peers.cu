// One launch a device: each block waits for the same block of the other devices, adds up its slice
// of all parts in the devices' order, and waits until the others have read theirs.
#include <locus/core/kernel_list.h>
#include <locus/core/tuning.h>
#include <locus/devices/cuda_signals.h>
#include <locus/ops/collective/peers.h>
#include <locus/ops/kernel/cast.h>
#include <locus/ops/kernel/launch.h>
#include <locus/ops/kernel/types.h>

namespace locus::cuda {
namespace {

constexpr int kThreads = 512, kMostTensors = 32, kSeconds = 30;
constexpr int kDevices = Meeting::kMostDevices;

template <class T>
inline constexpr int kEach = 16 / static_cast<int>(sizeof(T));
// Elements of a block at a time: more at once where there are many.
template <class T, int Packs>
inline constexpr int kChunk = kThreads* Packs* kEach<T>;

template <class T>
struct Tensors {
  const T* part[kMostTensors][kDevices];
  T* result[kMostTensors];
  int64_t size[kMostTensors];
  int first[kMostTensors + 1];  // chunk
  uint32_t whole = 0;           // bit i: all of tensor i's parts and its result are aligned
  int count = 0;

  __device__ int tensor_of(int chunk) const {
    int i = 0;
    while (chunk >= first[i + 1]) ++i;
    return i;
  }
};

// A block's way to meet its like on the other devices.
class Door {
 public:
  __device__ Door(unsigned* const (&words)[kDevices], int me, int devices, Fault* fault)
      : words_(words), me_(me), devices_(devices), fault_(fault) {
    turn_ = *turns();
  }

  // What this device wrote before is seen by the others behind it.
  __device__ void meet() {
    ++turn_;
    __syncthreads();
    const int other = static_cast<int>(threadIdx.x);
    if (other < devices_ && !late_) {
      unsigned* const theirs = words_[other] + word(me_);
      const unsigned* const mine = words_[me_] + word(other);
      asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(theirs), "r"(turn_) : "memory");
      const uint64_t start = now();
      for (int tries = 1;; ++tries) {
        unsigned seen;
        asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(seen) : "l"(mine) : "memory");
        if (static_cast<int>(seen - turn_) >= 0) break;
        if (tries % 1024 == 0 && now() - start > uint64_t{kSeconds} * 1000000000) {
          report(fault_, other, kSeconds, kLate);
          late_ = true;
          break;
        }
      }
    }
    __syncthreads();
  }
  __device__ void leave() {
    if (threadIdx.x == 0) *turns() = turn_;
  }

 private:
  static __device__ uint64_t now() {
    uint64_t t;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
    return t;
  }
  static __device__ int word(int from) { return static_cast<int>(blockIdx.x) * kDevices + from; }
  __device__ unsigned* turns() const {
    return words_[me_] + Meeting::kMostBlocks * kDevices + blockIdx.x;
  }

  unsigned* const (&words_)[kDevices];
  const int me_, devices_;
  Fault* const fault_;
  unsigned turn_;
  bool late_ = false;
};

// From memory of any device, past the caches that another device's writes do not reach.
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
  using Word = If<sizeof(T) == 8, uint64_t, If<sizeof(T) == 4, uint32_t, uint16_t>>;
#pragma unroll
  for (int i = 0; i < kN; ++i)
    p.v[i] =
        __builtin_bit_cast(T, i < left ? reinterpret_cast<const volatile Word*>(from)[i] : Word{0});
  return p;
}

struct Words {
  unsigned* of[kDevices];
};

template <class T, int kPacks>
__global__ void __launch_bounds__(kThreads)
    all_reduce(const __grid_constant__ Tensors<T> t, const __grid_constant__ Words words, int me,
               int devices, bool in_place, double share, Fault* fault) {
  using A = Compute<T>;
  constexpr int kN = kEach<T>;
  Door door(words.of, me, devices, fault);
  door.meet();
  for (int chunk = static_cast<int>(blockIdx.x); chunk < t.first[t.count];
       chunk += static_cast<int>(gridDim.x)) {
    const int tensor = t.tensor_of(chunk);
    const bool whole = t.whole >> tensor & 1;
    const int64_t begin = static_cast<int64_t>(chunk - t.first[tensor]) * kChunk<T, kPacks>;
    const int64_t left = t.size[tensor] - begin;
    A sum[kPacks][kN];
    for (int device = 0; device < devices; ++device) {
      Pack<T, kN> p[kPacks];
#pragma unroll
      for (int k = 0; k < kPacks; ++k) {
        const int at = (k * kThreads + static_cast<int>(threadIdx.x)) * kN;
        if (at < left) p[k] = load(t.part[tensor][device] + begin + at, left - at, whole);
      }
#pragma unroll
      for (int k = 0; k < kPacks; ++k)
#pragma unroll
        for (int i = 0; i < kN; ++i) {
          const A v = convert<A>(p[k].v[i]);
          sum[k][i] = device == 0 ? v : sum[k][i] + v;
        }
    }
    if (in_place) door.meet();  // all have read what is written now
#pragma unroll
    for (int k = 0; k < kPacks; ++k) {
      const int at = (k * kThreads + static_cast<int>(threadIdx.x)) * kN;
      if (at >= left) break;
      T* const to = t.result[tensor] + begin + at;
      Pack<T, kN> p;
#pragma unroll
      for (int i = 0; i < kN; ++i)
        p.v[i] =
            convert<T>(share == 1 ? sum[k][i] : static_cast<A>(sum[k][i] * static_cast<A>(share)));
      if (whole && left - at >= kN) {
        *reinterpret_cast<Pack<T, kN>*>(to) = p;
      } else {
#pragma unroll
        for (int i = 0; i < kN; ++i)
          if (i < left - at) to[i] = p.v[i];
      }
    }
  }
  if (!in_place) door.meet();  // nobody writes a part that another still reads
  door.leave();
}

// The tensors from `begin` on, as far as they fit.
template <class T>
Tensors<T> table(const Call& call, int begin, int devices, int chunk) {
  Tensors<T> t;
  t.first[0] = 0;
  for (int k = begin; k < call.n_out && t.count < kMostTensors; ++k) {
    const int i = t.count++;
    t.size[i] = call.out[k].meta.size();
    t.result[i] = call.out[k].as<T>();
    bool whole = aligned(t.result[i], 16);
    for (int d = 0; d < devices; ++d) {
      t.part[i][d] = call.in[k * devices + d].as<const T>();
      whole = whole && aligned(t.part[i][d], 16);
    }
    t.whole |= static_cast<uint32_t>(whole) << i;
    t.first[i + 1] = t.first[i] + static_cast<int>((t.size[i] + chunk - 1) / chunk);
  }
  return t;
}

template <class T>
void run(const Call& call) {
  constexpr int kBlocks = Meeting::kMostBlocks, kMany = 4;
  const auto& a = call.attributes<PeersAttrs>();
  // A recorded call's words are its own for as long as it is replayed.
  if (std::shared_ptr<const void>* const kept = tuning::kept_place(); kept && !*kept)
    *kept = a.meeting->shared_from_this();
  Words words;
  for (int i = 0; i < kDevices; ++i) words.of[i] = a.meeting->words[i];
  for (int begin = 0; begin < call.n_out; begin += kMostTensors) {
    Tensors<T> t = table<T>(call, begin, a.devices, kChunk<T, 1>);
    const bool many = t.first[t.count] > kBlocks;
    if (many) t = table<T>(call, begin, a.devices, kChunk<T, kMany>);
    const int chunks = t.first[t.count];
    if (chunks == 0) continue;
    const auto blocks = static_cast<unsigned>(chunks < kBlocks ? chunks : kBlocks);
    (many ? &all_reduce<T, kMany>
          : &all_reduce<T, 1>)<<<blocks, kThreads, 0, native(call.stream)>>>(
        t, words, a.me, a.devices, a.in_place, a.mean ? 1. / a.devices : 1., fault(call));
  }
}

constexpr KernelList peers_kernels() {
  KernelList list;
  list.add_each("all_reduce_peers", kFloatDTypes,
                [](auto d) -> Kernel { return &run<CppTypeOf<decltype(d)::value>>; });
  return list;
}

}  // namespace

extern constinit const KernelList peers = peers_kernels();

}  // namespace locus::cuda
