// Singular values and vectors. cuSOLVER sees the memory of a row-major matrix as its transpose,
// column-major.
//
//   several small matrices  cuSOLVER's rotations, all at once
//   f32                     in f64, by the eigenvalues of a' a
//   f64                     cuSOLVER's QR iterations, one matrix after the other. Matrices are
//                           first scaled by powers of 2, because the iterations lose digits of
//                           numbers near the smallest
#include <algorithm>
#include <type_traits>

#include <locus/devices/cuda/blas.h>
#include <locus/devices/cusolver/solver.h>
#include <locus/ops/linalg/qr_gpu.h>
#include <locus/ops/linalg/spectral_gpu.h>

namespace locus::cuda {
namespace {

// The singular values, descending, from the eigenvalues of a' a, ascending.
template <class T>
__global__ void take_roots(const double* w, int64_t n, int64_t count, T* s) {
  for (int64_t at = first_thread(); at < count * n; at += all_threads()) {
    const double x = w[at / n * n + n - 1 - at % n];
    s[at] = static_cast<T>(x > 0 ? sqrt(x) : 0);
  }
}
__global__ void reverse_rows(const double* from, int64_t n, int64_t count, double* to) {
  const int64_t size = n * n;
  for (int64_t at = first_thread(); at < count * size; at += all_threads())
    to[at] = from[at / size * size + (n - 1 - at % size / n) * n + at % n];
}

// Multiplies each matrix by 2^e or, with `down`, by 2^-e. 2^e is the largest power of 2 that does
// not exceed the matrix's largest absolute value.
__global__ void scale(double* x, int64_t size, int64_t count, const double* largest, bool down) {
  for (int64_t at = first_thread(); at < count * size; at += all_threads()) {
    const double most = largest[at / size];
    const int exponent = most > 0 ? ilogb(most) : 0;
    x[at] = ldexp(x[at], down ? -exponent : exponent);
  }
}

template <class T>
class SvdDecomposition {
 public:
  SvdDecomposition(const Call& call, bool full_matrices, T* u, T* s, T* vh, bool* failed)
      : call_(call),
        a_(call.in[0].meta),
        from_(call.in[0].as<const T>()),
        wide_(a_.m < a_.n),
        full_(full_matrices),
        max_length_(std::max(a_.m, a_.n)),
        min_length_(std::min(a_.m, a_.n)),
        u_(u),
        s_(s),
        vh_(vh),
        failed_(failed) {}

  void run() {
    if (min_length_ == 0) return write_empty();
    if (a_.count > 1 && max_length_ <= kMaxRotatedLength)
      run_rotations();
    else if constexpr (std::is_same_v<T, float>)
      run_parts();
    else
      run_iterations();
  }

 private:
  // Work memory: `each` numbers for every matrix.
  template <class W>
  Scratch allocate(int64_t each) const {
    return Scratch(call_, static_cast<size_t>(a_.count * each) * sizeof(W));
  }
  Scratch allocate_info() const { return allocate<int>(1); }
  int64_t columns_of_u() const { return full_ ? a_.m : min_length_; }
  int64_t rows_of_vh() const { return full_ ? a_.n : min_length_; }

  void write_empty() {
    LOCUS_CUDA(cudaMemsetAsync(failed_, 0, static_cast<size_t>(a_.count), native(call_.stream)));
    if (!u_) return;
    const int64_t u = a_.count * columns_of_u() * columns_of_u(),
                  vh = a_.count * rows_of_vh() * rows_of_vh();
    launch(call_.stream, u, fill_identity<T>, u_, columns_of_u(), a_.count);
    launch(call_.stream, vh, fill_identity<T>, vh_, rows_of_vh(), a_.count);
  }

  // The solver gets the transposed matrices: its left vectors are the rows of vh.
  void run_rotations() {
    const int64_t m = a_.m, n = a_.n;
    const Scratch memory = allocate<T>(m * n), info = allocate_info();
    const Scratch left = allocate<T>(n * n), right = allocate<T>(m * m);
    copy_finite_matrices(call_, from_, a_, Part::all, memory.as<T>(), failed_);
    solver_svd_each(call_, dtype(), u_ != nullptr, n, m, memory.data(), s_, left.data(),
                    right.data(), a_.count, info.as<int>());
    finish(Vectors<T>{right.as<T>(), columns_of_u(), m, m * m, m, 1},
           Vectors<T>{left.as<T>(), rows_of_vh(), n, n * n, n, 1}, info);
  }

  // Each part needs up to six copies of its matrices in f64.
  void run_parts() {
    constexpr int64_t kMaxElements = 1 << 26;  // of a copy with several matrices
    const int64_t size = max_length_ * (u_ && full_ ? max_length_ : min_length_);
    const int64_t matrices = std::clamp(kMaxElements / size, int64_t{1}, a_.count);
    for (int64_t first = 0; first < a_.count; first += matrices)
      select_part(first, std::min(matrices, a_.count - first)).run_eigenvalues();
  }
  SvdDecomposition select_part(int64_t first, int64_t count) const {
    SvdDecomposition part = *this;
    part.a_.count = count;
    part.from_ += first * a_.size();
    part.s_ += first * min_length_;
    part.failed_ += first;
    if (!u_) return part;
    part.u_ += first * a_.m * columns_of_u();
    part.vh_ += first * rows_of_vh() * a_.n;
    return part;
  }

  // As spectral_kernel.h describes.
  void run_eigenvalues() {
    const int64_t m = max_length_, n = min_length_;
    const Scratch memory = allocate<double>(m * n), squares = allocate<double>(n * n);
    const Scratch values = allocate<double>(n), info = allocate_info();
    const double* const a = memory.as<const double>();
    copy_finite_matrices(call_, from_, a_, wide_ ? Part::transposed : Part::all,
                         memory.as<double>(), failed_);
    blas_product(call_, f64, n, n, m, Matrix{a, n, true, m * n}, Matrix{a, n, false, m * n},
                 squares.data(), a_.count, {.out = f64});
    decompose_symmetric(call_, u_ != nullptr, n, squares.as<double>(), values.as<double>(),
                        a_.count, info.as<int>());
    launch(call_.stream, a_.count * n, take_roots<T>, values.as<const double>(), n, a_.count, s_);
    if (!u_) return finish_values(info);

    const QrSizes sizes(MatrixBatch(a_.count, m, n), full_, true);
    const Scratch right = allocate<double>(n * n), product = allocate<double>(m * n);
    const Scratch left = allocate<double>(m * sizes.columns), r = allocate<double>(sizes.rows * n);
    launch(call_.stream, a_.count * n * n, reverse_rows, squares.as<const double>(), n, a_.count,
           right.as<double>());
    blas_product(call_, f64, m, n, n, Matrix{a, n, false, m * n},
                 Matrix{right.data(), n, true, n * n}, product.data(), a_.count, {.out = f64});
    decompose_qr(call_, f64, sizes, product.as<const double>(), left.as<double>(), r.as<double>());
    finish_tall(
        Vectors<double>{left.as<double>(), sizes.columns, m, m * sizes.columns, 1, sizes.columns},
        Vectors<double>{right.as<double>(), n, n, n * n, n, 1}, info);
  }

  // The solver needs tall matrices. A wide matrix is transposed.
  void run_iterations() {
    const int64_t m = max_length_, n = min_length_;
    const char vectors = !u_ ? 'N' : full_ ? 'A' : 'S';
    const int64_t left_count = full_ ? m : n, left_size = u_ ? m * left_count : 0,
                  right_size = u_ ? n * n : 0;
    const Scratch memory = allocate<T>(m * n), info = allocate_info();
    const Scratch left = allocate<T>(left_size), right = allocate<T>(right_size);
    copy_finite_matrices(call_, from_, a_, wide_ ? Part::all : Part::transposed, memory.as<T>(),
                         failed_);
    const Scratch largest = allocate<double>(1);
    find_largest(call_, memory.as<const T>(), m * n, a_.count, largest.as<double>());
    launch(call_.stream, a_.count * m * n, scale, memory.as<T>(), m * n, a_.count,
           largest.as<const double>(), true);
    for (int64_t k = 0; k < a_.count; ++k)
      solver_svd(call_, vectors, m, n, memory.as<T>() + k * m * n, s_ + k * n,
                 left.as<T>() + k * left_size, right.as<T>() + k * right_size, info.as<int>() + k);
    launch(call_.stream, a_.count * n, scale, s_, n, a_.count, largest.as<const double>(), false);
    finish_tall(Vectors<T>{left.as<T>(), left_count, m, left_size, m, 1},
                Vectors<T>{right.as<T>(), n, n, right_size, 1, n}, info);
  }

  void finish_values(const Scratch& info) {
    launch(call_.stream, a_.count, mark_failed<int>, info.as<const int>(), a_.count, failed_);
    launch(call_.stream, a_.count * min_length_, fill_nan<T>, s_, min_length_, a_.count, failed_);
  }
  template <class W>
  void finish(const Vectors<W>& u, const Vectors<W>& v, const Scratch& info) {
    finish_values(info);
    if (!u_) return;
    const Scratch signs_u = allocate<W>(u.vectors), signs_v = allocate<W>(v.vectors);
    launch_find_signs(call_, u, 0, a_.count, signs_u.as<W>());
    launch_find_signs(call_, v, min_length_, a_.count, signs_v.as<W>());
    write_vectors(call_, u, Signs<W>{nullptr, signs_u.as<W>(), 0, 0}, true, a_.count, failed_, u_);
    write_vectors(call_, v, Signs<W>{signs_u.as<W>(), signs_v.as<W>(), u.vectors, min_length_},
                  false, a_.count, failed_, vh_);
  }
  // The vectors of a, or of the transpose of a wide a.
  template <class W>
  void finish_tall(const Vectors<W>& left, const Vectors<W>& right, const Scratch& info) {
    if (wide_)
      finish(right, left, info);
    else
      finish(left, right, info);
  }

  static constexpr DType dtype() { return sizeof(T) == sizeof(double) ? f64 : f32; }

  const Call& call_;
  MatrixBatch a_;
  const T* from_;
  bool wide_, full_;
  int64_t max_length_, min_length_;
  T *u_, *s_, *vh_;
  bool* failed_;
};

}  // namespace

template <class T>
void decompose_svd(const Call& call, bool full_matrices, T* u, T* s, T* vh, bool* failed) {
  SvdDecomposition<T>(call, full_matrices, u, s, vh, failed).run();
}
template void decompose_svd(const Call&, bool, float*, float*, float*, bool*);
template void decompose_svd(const Call&, bool, double*, double*, double*, bool*);

}  // namespace locus::cuda
