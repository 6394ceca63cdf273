#include <locus/ops/matmul/matmul_cpu.h>

namespace locus::LOCUS_ISA_NAMESPACE {
namespace {

template <class T>
size_t bytes_of(const View& v) {
  return static_cast<size_t>(v.meta.size()) * sizeof(T);
}

// A row-major operand as T: in place, or a copy if 16-bit. A View without data is an absent
// operand.
template <class S>
class Input {
  using T = Factor<S>;

 public:
  Input(const Call& call, const View& v)
      : copy_(call, kDirect || v.data == nullptr ? 0 : bytes_of<T>(v)),
        data_(static_cast<const T*>(v.data)) {
    if constexpr (!kDirect) {
      if (v.data) pack(static_cast<const S*>(v.data), 1, v.meta.size(), 0, 1, copy_.as<T>());
      data_ = copy_.as<T>();
    }
  }
  const T* data() const { return data_; }

 private:
  static constexpr bool kDirect = sizeof(S) == sizeof(T);
  Scratch copy_;
  const T* data_;
};

// Memory for a result. store() converts 16-bit results.
template <class S>
class Output {
  using T = Factor<S>;

 public:
  Output(const Call& call, const View& v)
      : out_(static_cast<S*>(v.data)),
        size_(v.meta.size()),
        copy_(call, kDirect ? 0 : bytes_of<T>(v)) {}
  T* data() {
    if constexpr (kDirect)
      return out_;
    else
      return copy_.as<T>();
  }
  void store() {
    if constexpr (!kDirect)
      for (int64_t i = 0; i < size_; ++i) out_[i] = static_cast<S>(copy_.as<T>()[i]);
  }

 private:
  static constexpr bool kDirect = sizeof(S) == sizeof(T);
  S* out_;
  int64_t size_;
  Scratch copy_;
};

LOCUS_HD int64_t at_least_1(int64_t n) { return n > 0 ? n : 1; }

// dz = 0 where y <= 0, else dy (skipped if dz is null). db = the sum of its rows. A thread adds
// blocks of rows of its columns, so the sum does not depend on threads.
template <class T>
void mask_and_sum(int64_t rows, int64_t units, const T* dy, const T* y, T* dz, T* db) {
  constexpr int64_t kColumns = 128, kRows = 64;
  const bool parallel = rows * units > 65536;
  const int64_t blocks = (units + kColumns - 1) / kColumns;
  parallel_ranges(blocks, parallel ? 1 : blocks, [&](int64_t first, int64_t last) {
    for (int64_t block = first; block < last; ++block) {
      const int64_t begin = block * kColumns;
      const int64_t n = units - begin < kColumns ? units - begin : kColumns;
      double total[kColumns] = {};
      for (int64_t row = 0; row < rows; row += kRows) {
        T part[kColumns] = {};
        const int64_t end = row + kRows < rows ? row + kRows : rows;
        for (int64_t i = row; i < end; ++i) {
          const int64_t at = i * units + begin;
          if (dz != nullptr) {
            for (int64_t j = 0; j < n; ++j) {
              const T v = y[at + j] <= T(0) ? T(0) : dy[at + j];
              dz[at + j] = v;
              part[j] += v;
            }
          } else {
            for (int64_t j = 0; j < n; ++j) part[j] += dy[at + j];
          }
        }
        for (int64_t j = 0; j < n; ++j) total[j] += static_cast<double>(part[j]);
      }
      if (db != nullptr)
        for (int64_t j = 0; j < n; ++j) db[begin + j] = static_cast<T>(total[j]);
    }
  });
}

struct Backend {
  template <DType D>
  static void dense(const Call& call) {
    using S = CppTypeOf<D>;
    using T = Factor<S>;
    const int64_t rows = call.in[0].meta.shape[0], inputs = call.in[0].meta.shape[1],
                  units = call.in[1].meta.shape[0];
    const Input<S> x(call, call.in[0]), w(call, call.in[1]);
    const bool has_bias = call.n_in == 3;
    const Input<S> bias(call, has_bias ? call.in[2] : View{});
    Output<S> y(call, call.out[0]);
    const int threads = threads_for(rows, units, inputs);
    const Scratch scratch(call, gemm_scratch<T>(rows, units, inputs, threads));
    const int64_t ld = at_least_1(inputs);
    gemm<T>(rows, units, inputs, {x.data(), ld, false}, {w.data(), ld, true}, y.data(),
            has_bias ? bias.data() : nullptr,
            call.attributes<DenseAttrs>().activation == FusedActivation::relu, threads,
            scratch.data());
    y.store();
  }

  template <DType D>
  static void dense_backward(const Call& call) {
    using S = CppTypeOf<D>;
    using T = Factor<S>;
    const auto& attrs = call.attributes<DenseBackwardAttrs>();
    const int64_t rows = call.in[1].meta.shape[0], inputs = call.in[1].meta.shape[1],
                  units = call.in[2].meta.shape[0];
    const Input<S> dy(call, call.in[0]), x(call, call.in[1]), w(call, call.in[2]);
    const Input<S> y(call, attrs.relu ? call.in[3] : View{});
    const Scratch masked(call, attrs.relu ? bytes_of<T>(call.in[0]) : 0);
    Output<S> dx(call, call.out[0]), dw(call, call.out[1]), db(call, call.out[2]);

    if (attrs.relu || attrs.bias)
      mask_and_sum(rows, units, dy.data(), y.data(), masked.as<T>(),
                   attrs.bias ? db.data() : nullptr);
    const T* dz = attrs.relu ? masked.as<T>() : dy.data();
    const int threads = threads_for(rows, units, inputs);
    const int64_t ld_units = at_least_1(units), ld_inputs = at_least_1(inputs);
    const auto multiply = [&](int64_t m, int64_t n, int64_t k, Matrix<T> a, const T* b, T* c) {
      const Scratch scratch(call, gemm_scratch<T>(m, n, k, threads));
      gemm<T>(m, n, k, a, {b, ld_inputs, false}, c, nullptr, false, threads, scratch.data());
    };
    if (attrs.data) multiply(rows, inputs, units, {dz, ld_units, false}, w.data(), dx.data());
    if (attrs.weight) multiply(units, inputs, rows, {dz, ld_units, true}, x.data(), dw.data());
    dx.store();
    dw.store();
    db.store();
  }
};

}  // namespace

extern constinit const KernelList dense = dense_kernels<Backend>();

}  // namespace locus::LOCUS_ISA_NAMESPACE
