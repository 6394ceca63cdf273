// Functions of rows along an axis, in CUDA kernels. Included by *.cu only.
//
// `lanes` neighbouring threads share a row; a block holds as many rows as fit. A row is read once
// and kept in registers: short rows element by element, rows from 1024 elements on in 16-byte
// vectors if aligned. Longer rows are read again from the caches. So are rows along an axis that is
// not the last: one thread per row, so that neighbours read neighbouring rows.
//
//   struct Normalize {  // runs on every thread of a row
//     template <class V>
//     __device__ static V outside() { return 0; }  // what each() finds behind the row's end
//     __device__ void operator()(auto& row) const {
//       float total = 0;
//       row.each([&](int64_t, float x, float) { total += x; });
//       total = row.all(total, [](float a, float b) { return a + b; });
//       row.write([&](int64_t, float x, float) { return x / total; });
//     }
//   };
//   launch_rows(call, RowMemory<float, 1>{{x}, y, rows, n, inner}, Normalize());
#pragma once

#include <locus/devices/cuda.h>
#include <locus/ops/kernel/cast.h>
#include <locus/ops/kernel/launch.h>

namespace locus::cuda {
namespace {

constexpr int kMaxLanes = 1024, kVectorLanes = 512;

// Elements of a lane in registers: kSingles, or kVectors times kVector.
constexpr int kSingles = 8;
template <class T>
constexpr int kVector = 16 / sizeof(T);
template <class T>
constexpr int kVectors = sizeof(T) == 2 ? 4 : 8;

// N operands and the result have the same shape, (outer, n, inner) elements.
template <class T, int N>
struct RowMemory {
  const T* in[N];
  T* out;
  int64_t rows, n, inner;
};

// A row, as one of its threads sees it. All threads of a row call the members together. kN:
// elements read at once. kItems: reads that a thread keeps in registers, 0 for none. kOutside: the
// value of operand 0 behind the row's end, which each() visits, too; other operands are 0 there.
template <class T, int N, int kN, int kItems, class F>
class Row {
 public:
  using A = Compute<T>;
  static constexpr bool kCached = kItems > 0;
  static_assert(N == 1 || N == 2);

  __device__ __forceinline__ Row(const RowMemory<T, N>& memory, A* shared)
      : memory_(memory),
        shared_(shared),
        lanes_(blockDim.x),
        lane_(threadIdx.x),
        index_(blockIdx.x * static_cast<int64_t>(blockDim.y) + threadIdx.y) {
    n_ = active() ? static_cast<Int>(memory.n) : 0;
    const int64_t stride = memory.inner;
    base_ = stride == 1 ? index_ * memory.n : index_ / stride * memory.n * stride + index_ % stride;
    if constexpr (kCached) load();
  }

  __device__ bool active() const { return index_ < memory_.rows; }
  __device__ bool first_lane() const { return lane_ == 0; }
  __device__ int64_t index() const { return index_; }
  __device__ int64_t length() const { return memory_.n; }
  // Element c of operand 0, read from memory.
  __device__ A at(int64_t c) const { return convert<A>(memory_.in[0][base_ + c * memory_.inner]); }

  // Calls f(c, x[c], y[c]) for this thread's elements. If the row is cached, changes of x[c] are
  // kept.
  __device__ __forceinline__ void each(const auto& f) {
    if constexpr (kCached) {
#pragma unroll
      for (int i = 0; i < kItems; ++i)
#pragma unroll
        for (int k = 0; k < kN; ++k) f(place(i) + k, a_[i * kN + k], b_[N == 2 ? i * kN + k : 0]);
    } else {
      for (int64_t c = lane_; c < n_; c += lanes_) {
        A v = at(c);
        f(c, v, N == 2 ? convert<A>(memory_.in[N - 1][base_ + c * memory_.inner]) : A(0));
      }
    }
  }
  // result[c] = f(c, x[c], y[c])
  __device__ __forceinline__ void write(const auto& f) {
    if constexpr (kCached) {
#pragma unroll
      for (int i = 0; i < kItems; ++i) {
        if (place(i) >= n_) continue;
        Pack<T, kN> v;
#pragma unroll
        for (int k = 0; k < kN; ++k)
          v.v[k] = convert<T>(f(place(i) + k, a_[i * kN + k], b_[N == 2 ? i * kN + k : 0]));
        *reinterpret_cast<Pack<T, kN>*>(memory_.out + base_ + place(i)) = v;
      }
    } else {
      each([&](int64_t c, A v, A d) {
        memory_.out[base_ + c * memory_.inner] = convert<T>(f(c, v, d));
      });
    }
  }
  // The combination of the values of all threads of the row, in every thread. The order depends
  // only on the number of threads.
  __device__ A all(A a, const auto& combine) const {
    const int width = lanes_ < 32 ? lanes_ : 32;
    for (int d = width / 2; d > 0; d /= 2)
      a = combine(a, __shfl_xor_sync(0xffffffffu, a, d, width));
    if (lanes_ <= 32) return a;
    const int warps = lanes_ / 32;
    A* const mine = shared_ + threadIdx.y * warps;
    __syncthreads();
    if (threadIdx.x % 32 == 0) mine[threadIdx.x / 32] = a;
    __syncthreads();
    a = mine[0];
    for (int w = 1; w < warps; ++w) a = combine(a, mine[w]);
    return a;
  }

 private:
  using Int = std::conditional_t<kCached, int, int64_t>;  // short rows
  static constexpr int kSize = kCached ? kN * kItems : 1;

  __device__ int place(int i) const { return (lane_ + i * lanes_) * kN; }
  __device__ __forceinline__ void load() {
    using V = Pack<T, kN>;
    V v[kItems], d[N == 2 ? kItems : 1];  // all loads are issued before the first use
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      if (place(i) < n_) v[i] = *reinterpret_cast<const V*>(memory_.in[0] + base_ + place(i));
      if (N == 2 && place(i) < n_)
        d[i] = *reinterpret_cast<const V*>(memory_.in[N - 1] + base_ + place(i));
    }
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      const bool inside = place(i) < n_;
#pragma unroll
      for (int k = 0; k < kN; ++k) {
        a_[i * kN + k] = inside ? convert<A>(v[i].v[k]) : F::template outside<A>();
        if constexpr (N == 2) b_[i * kN + k] = inside ? convert<A>(d[i].v[k]) : A(0);
      }
    }
  }

  const RowMemory<T, N>& memory_;
  A* const shared_;
  const int lanes_, lane_;
  const int64_t index_;
  Int n_;
  int64_t base_;
  A a_[kSize], b_[N == 2 ? kSize : 1];
};

template <class F, class T, int N, int kN, int kItems>
__global__ void __launch_bounds__(kN > 1 ? kVectorLanes : kMaxLanes)
    map_rows(const __grid_constant__ RowMemory<T, N> memory, const __grid_constant__ F f) {
  __shared__ Compute<T> shared[32];
  Row<T, N, kN, kItems, F> row(memory, shared);
  f(row);
}

// Runs f(row) on all threads of each row.
template <class T, class F, int N>
void launch_rows(const Call& call, const RowMemory<T, N>& m, const F& f) {
  // Launches blocks with enough lanes for `each` elements per lane.
  const auto run = [&](auto kernel, int least, int most, int64_t each) {
    int lanes = least;
    while (lanes < most && lanes * each < m.n) lanes *= 2;
    const int together = lanes >= 128 ? 1 : 128 / lanes;
    const dim3 block(static_cast<unsigned>(lanes), static_cast<unsigned>(together));
    const auto grid = static_cast<unsigned>((m.rows + together - 1) / together);
    kernel<<<grid, block, 0, stream(call)>>>(m, f);
  };
  constexpr int kV = kVector<T>, kVs = kVectors<T>;
  const bool runs = m.inner == 1,
             whole = aligned(m.in[0], 16) && aligned(m.in[N - 1], 16) && aligned(m.out, 16);
  if (runs && whole && m.n % kV == 0 && m.n >= 1024 && m.n <= kVectorLanes * kV * kVs)
    run(map_rows<F, T, N, kV, kVs>, 32, kVectorLanes, kV * kVs / 2);
  else if (runs && m.n <= kMaxLanes * kSingles)
    run(map_rows<F, T, N, 1, kSingles>, 8, kMaxLanes, kSingles);
  else
    run(map_rows<F, T, N, 1, 0>, runs ? kMaxLanes : 1, runs ? kMaxLanes : 1, 1);
}

}  // namespace
}  // namespace locus::cuda
