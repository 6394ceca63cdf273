#include <locus/ops/matmul/matmul_cpu.h>

namespace locus::LOCUS_ISA {
namespace {

// A row-major operand as its compute type: itself, or a copy of a 16-bit one. A View without data
// is an operand that is not there.
template <class S>
class Input {
  using T = typename ComputeOf<S>::type;

 public:
  explicit Input(const View& v)
      : size_(v.data == nullptr ? 0 : v.meta.size()),
        copy_(kDirect ? 0 : size_),
        data_(static_cast<const T*>(v.data)) {
    if constexpr (!kDirect) {
      pack(static_cast<const S*>(v.data), 1, size_, 0, 1, copy_.data());
      data_ = copy_.data();
    }
  }
  const T* data() const { return data_; }

 private:
  static constexpr bool kDirect = sizeof(S) == sizeof(T);
  int64_t size_;
  Buffer<T> copy_;
  const T* data_;
};

// Where a result is computed; store() puts a 16-bit one where it belongs.
template <class S>
class Output {
  using T = typename ComputeOf<S>::type;

 public:
  explicit Output(const View& v)
      : out_(static_cast<S*>(v.data)), size_(v.meta.size()), copy_(kDirect ? 0 : size_) {}
  T* data() {
    if constexpr (kDirect)
      return out_;
    else
      return copy_.data();
  }
  void store() {
    if constexpr (!kDirect)
      for (int64_t i = 0; i < size_; ++i) out_[i] = static_cast<S>(copy_.data()[i]);
  }

 private:
  static constexpr bool kDirect = sizeof(S) == sizeof(T);
  S* out_;
  int64_t size_;
  Buffer<T> copy_;
};

LOCUS_HD int64_t at_least_1(int64_t n) { return n > 0 ? n : 1; }

template <class S, bool Relu>
void dense_kernel(const Call& call) {
  using T = typename ComputeOf<S>::type;
  const int64_t rows = call.in[0].meta.shape[0], inputs = call.in[0].meta.shape[1],
                units = call.in[1].meta.shape[0];
  const Input<S> x(call.in[0]), w(call.in[1]);
  const bool has_bias = call.n_in == 3;
  const Input<S> bias(has_bias ? call.in[2] : View{});
  Output<S> y(call.out[0]);
  const int64_t ld = at_least_1(inputs);
  gemm<T>(rows, units, inputs, {x.data(), ld, false}, {w.data(), ld, true}, y.data(),
          has_bias ? bias.data() : nullptr, Relu, threads_for(rows, units, inputs));
  y.store();
}

// dz = 0 where y <= 0, else (also at NaN) dy (skipped when dz is null), and db = the sum of its
// rows. Each thread has columns of its own and adds up blocks of rows, so the sum does not depend
// on the threads.
template <class T>
void mask_and_sum(int64_t rows, int64_t units, const T* dy, const T* y, T* dz, T* db) {
  constexpr int64_t kColumns = 128, kRows = 64;
  const bool parallel = rows * units > 65536;
  const int64_t blocks = (units + kColumns - 1) / kColumns;
  parallel_for(blocks, parallel ? 1 : blocks, [&](int64_t first, int64_t last) {
    for (int64_t block = first; block < last; ++block) {
      const int64_t begin = block * kColumns;
      const int64_t n = units - begin < kColumns ? units - begin : kColumns;
      T total[kColumns] = {};
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
        for (int64_t j = 0; j < n; ++j) total[j] += part[j];
      }
      if (db != nullptr)
        for (int64_t j = 0; j < n; ++j) db[begin + j] = total[j];
    }
  });
}

template <class S>
void dense_backward_kernel(const Call& call) {
  using T = typename ComputeOf<S>::type;
  const auto& attrs = call.attributes<DenseBackwardAttrs>();
  const int64_t rows = call.in[1].meta.shape[0], inputs = call.in[1].meta.shape[1],
                units = call.in[2].meta.shape[0];
  const Input<S> dy(call.in[0]), x(call.in[1]), w(call.in[2]);
  const Input<S> y(attrs.relu ? call.in[3] : View{});
  const Buffer<T> masked(attrs.relu ? rows * units : 0);
  Output<S> dx(call.out[0]), dw(call.out[1]), db(call.out[2]);

  if (attrs.relu || attrs.bias)
    mask_and_sum(rows, units, dy.data(), y.data(), attrs.relu ? masked.data() : nullptr,
                 attrs.bias ? db.data() : nullptr);
  const T* dz = attrs.relu ? masked.data() : dy.data();
  const int threads = threads_for(rows, units, inputs);
  const int64_t ld_units = at_least_1(units), ld_inputs = at_least_1(inputs);
  if (attrs.data)
    gemm<T>(rows, inputs, units, {dz, ld_units, false}, {w.data(), ld_inputs, false}, dx.data(),
            nullptr, false, threads);
  if (attrs.weight)
    gemm<T>(units, inputs, rows, {dz, ld_units, true}, {x.data(), ld_inputs, false}, dw.data(),
            nullptr, false, threads);
  dx.store();
  dw.store();
  db.store();
}

struct Backend {
  template <DType D, bool kRelu>
  static void dense(const Call& call) {
    dense_kernel<CppTypeOf<D>, kRelu>(call);
  }
  template <DType D>
  static void dense_backward(const Call& call) {
    dense_backward_kernel<CppTypeOf<D>>(call);
  }
};

}  // namespace

extern constinit const KernelList dense = dense_kernels<Backend>();

}  // namespace locus::LOCUS_ISA
