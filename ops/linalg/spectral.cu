// cuSOLVER sees the memory of a row-major matrix as its transpose, column-major.
#include <limits>

#include <locus/core/scratch.h>
#include <locus/devices/cuda/check.h>
#include <locus/devices/cusolver/solver.h>
#include <locus/ops/kernel/launch.h>
#include <locus/ops/kernel/math_base.h>
#include <locus/ops/linalg/spectral_kernel.h>

namespace locus::cuda {
namespace {

constexpr int64_t kWarp = 32;

// Copies `count` matrices (m x n): the triangle that is read as a whole symmetric matrix, or all,
// transposed or not. Sets failed[k] if an element of matrix k is not finite.
enum class Part { lower, upper, all, transposed };
template <class T>
__global__ void copy_finite(const T* from, int64_t m, int64_t n, int64_t count, Part part, T* to,
                            bool* failed) {
  const int64_t size = m * n, all = count * size;
  for (int64_t at = first_thread(); at < all; at += all_threads()) {
    const int64_t k = at / size, i = at % size / n, j = at % n;
    const bool other = part == Part::lower ? i < j : part == Part::upper && i > j;
    const T x = from[other ? k * size + j * n + i : at];
    to[part == Part::transposed ? k * size + j * m + i : at] = x;
    if (!isfinite(x)) failed[k] = true;
  }
}
// Zeros in place of matrices that failed: iterations of the others are not disturbed.
template <class T>
__global__ void clear_failed(T* x, int64_t size, int64_t count, const bool* failed) {
  for (int64_t at = first_thread(); at < count * size; at += all_threads())
    if (failed[at / size]) x[at] = 0;
}
__global__ void join_failed(const int* info, int64_t count, bool* failed) {
  for (int64_t k = first_thread(); k < count; k += all_threads())
    if (info[k] != 0) failed[k] = true;
}
template <class T>
__global__ void spoil_failed(T* x, int64_t size, int64_t count, const bool* failed) {
  for (int64_t at = first_thread(); at < count * size; at += all_threads())
    if (failed[at / size]) x[at] = std::numeric_limits<T>::quiet_NaN();
}

// Vectors of `count` matrices: component i of vector j of matrix k is data[k * matrix + j * vector
// + i * component].
template <class T>
struct Vectors {
  T* data;
  int64_t vectors, components;
  int64_t matrix, vector, component;

  __device__ T* begin(int64_t k, int64_t j) const { return data + k * matrix + j * vector; }
};

// signs[k * x.vectors + j] for vectors from `first` on. A warp each.
template <class T>
__global__ void find_signs(Vectors<T> x, int64_t first, int64_t count, T* signs) {
  constexpr unsigned kAll = ~0u;
  const int64_t rest = x.vectors - first, lane = threadIdx.x % kWarp;
  const int64_t warps = all_threads() / kWarp;
  for (int64_t at = first_thread() / kWarp; at < count * rest; at += warps) {
    const int64_t k = at / rest, j = first + at % rest;
    const T* const v = x.begin(k, j);
    T most = 0;
    for (int64_t i = lane; i < x.components; i += kWarp)
      most = m::max(most, m::abs(v[i * x.component]));
    for (int step = 16; step > 0; step /= 2) most = m::max(most, __shfl_xor_sync(kAll, most, step));
    const T least = most * static_cast<T>(kAsLarge);
    T sign = 1;
    for (int64_t base = 0; base < x.components; base += kWarp) {
      const int64_t i = base + lane;
      const T value = i < x.components ? v[i * x.component] : T{0};
      const unsigned found = __ballot_sync(kAll, i < x.components && m::abs(value) >= least);
      if (found == 0) continue;
      sign = __shfl_sync(kAll, value, __ffs(static_cast<int>(found)) - 1) < 0 ? T{-1} : T{1};
      break;
    }
    if (lane == 0) signs[k * x.vectors + j] = sign;
  }
}

// Signs of vectors below `shared` come from signs of `left` vectors per matrix, the others from
// `own`. NaN in matrices that failed. `to` is row-major: vectors are its columns, or its rows.
template <class T>
struct Signs {
  const T *shared, *own;
  int64_t left, until;
};
template <class T>
__global__ void write_vectors(Vectors<T> x, Signs<T> signs, bool columns, int64_t count,
                              const bool* failed, T* to) {
  const int64_t size = x.vectors * x.components;
  for (int64_t at = first_thread(); at < count * size; at += all_threads()) {
    const int64_t k = at / size, inner = at % size;
    const int64_t j = columns ? inner % x.vectors : inner / x.components;
    const int64_t i = columns ? inner / x.vectors : inner % x.components;
    const T sign =
        j < signs.until ? signs.shared[k * signs.left + j] : signs.own[k * x.vectors + j];
    to[at] =
        failed[k] ? std::numeric_limits<T>::quiet_NaN() : x.begin(k, j)[i * x.component] * sign;
  }
}

template <class T>
void signs_of(const Call& call, const Vectors<T>& x, int64_t first, int64_t count, T* signs) {
  const int64_t n = count * (x.vectors - first);
  if (n > 0 && x.components > 0)
    launch(call.stream, n * kWarp, find_signs<T>, x, first, count, signs);
}
template <class T>
void write(const Call& call, const Vectors<T>& x, const Signs<T>& signs, bool columns,
           int64_t count, const bool* failed, T* to) {
  const int64_t n = count * x.vectors * x.components;
  if (n > 0) launch(call.stream, n, write_vectors<T>, x, signs, columns, count, failed, to);
}
template <class T>
void spoil(const Call& call, T* x, int64_t size, int64_t count, const bool* failed) {
  launch(call.stream, count * size, spoil_failed<T>, x, size, count, failed);
}

// Copies the call's matrices, all finite afterwards, and sets `failed`.
template <class T>
void prepare(const Call& call, const Stack& a, Part part, T* to, bool* failed) {
  if (a.count == 0) return;
  LOCUS_CUDA(cudaMemsetAsync(failed, 0, static_cast<size_t>(a.count), native(call.stream)));
  const int64_t all = a.count * a.size();
  if (all == 0) return;
  launch(call.stream, all, copy_finite<T>, call.in[0].as<const T>(), a.m, a.n, a.count, part, to,
         failed);
  launch(call.stream, all, clear_failed<T>, to, a.size(), a.count, failed);
}

// 1 on the diagonals of `count` matrices of n x n, else 0.
template <class T>
__global__ void fill_identity(T* x, int64_t n, int64_t count) {
  const int64_t size = n * n;
  for (int64_t at = first_thread(); at < count * size; at += all_threads())
    x[at] = at % size / n == at % n ? T{1} : T{0};
}

template <class T>
void eigenvalues(const Call& call, DType d, T* w, T* v, bool* failed) {
  const Stack s(call.in[0].meta);
  const int64_t n = s.n;
  const Scratch memory(call, static_cast<size_t>(s.count * s.size()) * sizeof(T));
  const Scratch info(call, static_cast<size_t>(s.count) * sizeof(int));
  T* const a = memory.as<T>();
  prepare(call, s, call.attributes<EighAttrs>().upper ? Part::upper : Part::lower, a, failed);
  if (s.count * s.size() == 0) return;
  solver_eigen(call, d, v != nullptr, n, a, w, s.count, info.as<int>());
  launch(call.stream, s.count, join_failed, info.as<const int>(), s.count, failed);
  spoil(call, w, n, s.count, failed);
  if (!v) return;
  const Scratch signs(call, static_cast<size_t>(s.count * n) * sizeof(T));
  const Vectors<T> vectors{a, n, n, s.size(), n, 1};
  signs_of(call, vectors, 0, s.count, signs.as<T>());
  write(call, vectors, Signs<T>{nullptr, signs.as<T>(), 0, 0}, true, s.count, failed, v);
}

// The singular values and, if u is given, the vectors of a call's matrices.
template <class T>
class SingularVectors {
 public:
  SingularVectors(const Call& call, DType d, bool full, T* u, T* s, T* vh, bool* failed)
      : call_(call), d_(d), a_(call.in[0].meta), u_(u), s_(s), vh_(vh), failed_(failed) {
    short_ = a_.m < a_.n ? a_.m : a_.n;
    columns_ = full ? a_.m : short_;
    rows_ = full ? a_.n : short_;
    full_ = full;
  }
  void run() {
    const bool at_once = a_.count > 1 && a_.m <= kSmallSvd && a_.n <= kSmallSvd;
    const bool tall = a_.m > a_.n;
    const Scratch memory(call_, bytes(a_.count * a_.size()));
    T* const a = memory.as<T>();
    prepare(call_, a_, tall && !at_once ? Part::transposed : Part::all, a, failed_);
    if (a_.count == 0) return;
    if (short_ == 0) return without_values();
    const Scratch info(call_, static_cast<size_t>(a_.count) * sizeof(int));
    if (at_once)
      by_rotations(a, info.as<int>());
    else
      one_by_one(a, tall, info.as<int>());
  }

 private:
  static size_t bytes(int64_t numbers) { return static_cast<size_t>(numbers) * sizeof(T); }

  void without_values() {
    if (!u_) return;
    if (columns_ > 0)
      launch(call_.stream, a_.count * columns_ * columns_, fill_identity<T>, u_, columns_,
             a_.count);
    if (rows_ > 0)
      launch(call_.stream, a_.count * rows_ * rows_, fill_identity<T>, vh_, rows_, a_.count);
  }

  // The solver gets the transposed matrices: its left vectors are the rows of vh.
  void by_rotations(T* a, int* info) {
    const int64_t m = a_.m, n = a_.n;
    const Scratch left(call_, bytes(a_.count * n * n)), right(call_, bytes(a_.count * m * m));
    solver_svd_each(call_, d_, u_ != nullptr, n, m, a, s_, left.data(), right.data(), a_.count,
                    info);
    finish(Vectors<T>{right.as<T>(), columns_, m, m * m, m, 1},
           Vectors<T>{left.as<T>(), rows_, n, n * n, n, 1}, info);
  }

  // The solver needs tall matrices. Those of wide ones are the transposed matrices.
  void one_by_one(T* a, bool tall, int* info) {
    const int64_t m = tall ? a_.m : a_.n, n = short_;
    const int64_t wide = full_ ? m : n;  // the number of left vectors
    const int64_t lefts = u_ ? m * wide : 0, rights = u_ ? n * n : 0;
    const Scratch left(call_, bytes(a_.count * lefts)), right(call_, bytes(a_.count * rights));
    for (int64_t k = 0; k < a_.count; ++k)
      solver_svd(call_, d_,
                 !u_     ? 'N'
                 : full_ ? 'A'
                         : 'S',
                 m, n, a + k * m * n, s_ + k * n, left.as<T>() + k * lefts,
                 right.as<T>() + k * rights, info + k);
    const Vectors<T> of_left{left.as<T>(), wide, m, lefts, m, 1};
    const Vectors<T> of_right{right.as<T>(), n, n, rights, 1, n};
    if (tall)
      finish(of_left, of_right, info);
    else
      finish(of_right, of_left, info);
  }

  void finish(const Vectors<T>& u, const Vectors<T>& v, const int* info) {
    launch(call_.stream, a_.count, join_failed, info, a_.count, failed_);
    spoil(call_, s_, short_, a_.count, failed_);
    if (!u_) return;
    const Scratch of_u(call_, bytes(a_.count * u.vectors)),
        of_v(call_, bytes(a_.count * v.vectors));
    signs_of(call_, u, 0, a_.count, of_u.as<T>());
    signs_of(call_, v, short_, a_.count, of_v.as<T>());
    write(call_, u, Signs<T>{nullptr, of_u.as<T>(), 0, 0}, true, a_.count, failed_, u_);
    write(call_, v, Signs<T>{of_u.as<T>(), of_v.as<T>(), u.vectors, short_}, false, a_.count,
          failed_, vh_);
  }

  const Call& call_;
  DType d_;
  Stack a_;
  T *u_, *s_, *vh_;
  bool* failed_;
  int64_t short_, columns_, rows_;
  bool full_;
};

struct Backend {
  template <DType D>
  static void eigh(const Call& call) {
    using T = CppTypeOf<D>;
    eigenvalues<T>(call, D, call.out[0].as<T>(), call.out[1].as<T>(), call.out[2].as<bool>());
  }
  template <DType D>
  static void eigvalsh(const Call& call) {
    using T = CppTypeOf<D>;
    eigenvalues<T>(call, D, call.out[0].as<T>(), nullptr, call.out[1].as<bool>());
  }
  template <DType D>
  static void svd(const Call& call) {
    using T = CppTypeOf<D>;
    SingularVectors<T>(call, D, call.attributes<SvdAttrs>().full_matrices, call.out[0].as<T>(),
                       call.out[1].as<T>(), call.out[2].as<T>(), call.out[3].as<bool>())
        .run();
  }
  template <DType D>
  static void svdvals(const Call& call) {
    using T = CppTypeOf<D>;
    SingularVectors<T>(call, D, false, nullptr, call.out[0].as<T>(), nullptr,
                       call.out[1].as<bool>())
        .run();
  }
};

}  // namespace

extern constinit const KernelList spectral = spectral_kernels<Backend>();

}  // namespace locus::cuda
