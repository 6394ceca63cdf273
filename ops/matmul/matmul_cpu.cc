// Batches of matrix products, of every dtype, from gemm().
#include <locus/ops/matmul/matmul_cpu.h>
#include <locus/ops/matmul/matmul_pack_cpu.h>

namespace locus::LOCUS_ISA_NAMESPACE {
namespace {

// One entry of the batch. f32 and f64 operands that BLAS could read are used in place. All others
// are packed first.
template <class S>
struct BatchEntry {
  using T = Factor<S>;
  static constexpr bool kDirect = std::is_same_v<S, float> || std::is_same_v<S, double>;

  explicit BatchEntry(const Product& product)
      : p(product),
        la(leading(p.m, p.k, p.a_m, p.a_k)),
        lb(leading(p.k, p.n, p.b_k, p.b_n)),
        bytes_a(kDirect && la.ok ? 0 : bytes(p.m * p.k)),
        bytes_b(kDirect && lb.ok ? 0 : bytes(p.k * p.n)),
        bytes_c(sizeof(S) == sizeof(T) ? 0 : bytes(p.m * p.n)) {}

  static size_t bytes(int64_t n) { return padded(static_cast<size_t>(n) * sizeof(T)); }
  size_t scratch(int threads) const {
    return bytes_a + bytes_b + bytes_c + gemm_scratch<T>(p.m, p.n, p.k, threads);
  }

  void multiply(int64_t entry, int threads, char* memory) const {
    int64_t at[2] = {};
    p.batch.locate(entry, at, p.batch.rank);
    const S* a = static_cast<const S*>(p.a) + at[0];
    const S* b = static_cast<const S*>(p.b) + at[1];
    S* c = static_cast<S*>(p.c) + entry * p.m * p.n;
    T* const packed_a = reinterpret_cast<T*>(memory);
    T* const packed_b = reinterpret_cast<T*>(memory + bytes_a);
    T* const sums =
        bytes_c > 0 ? reinterpret_cast<T*>(memory + bytes_a + bytes_b) : reinterpret_cast<T*>(c);
    if (bytes_a > 0) pack(a, p.m, p.k, p.a_m, p.a_k, packed_a);
    if (bytes_b > 0) pack(b, p.k, p.n, p.b_k, p.b_n, packed_b);
    Matrix<T> left{packed_a, p.k > 0 ? p.k : 1, false};
    Matrix<T> right{packed_b, p.n > 0 ? p.n : 1, false};
    if constexpr (kDirect) {
      if (la.ok) left = {a, la.ld, la.column_major};
      if (lb.ok) right = {b, lb.ld, lb.column_major};
    }
    gemm<T>(p.m, p.n, p.k, left, right, sums, nullptr, false, threads,
            memory + bytes_a + bytes_b + bytes_c);
    if (bytes_c > 0)
      for (int64_t i = 0; i < p.m * p.n; ++i) c[i] = static_cast<S>(sums[i]);
  }

  const Product& p;
  Leading la, lb;
  size_t bytes_a, bytes_b, bytes_c;
};

struct Backend {
  template <DType D>
  static void matmul(const Call& call) {
    using S = CppTypeOf<D>;
    const Product p =
        make_product(call.in[0], call.in[1], call.out[0], call.attributes<MatmulAttrs>());
    const BatchEntry<S> product(p);
    const int64_t count = p.batch.size;
    const int threads = threads_for(p.m * count, p.n, p.k);
    const bool apart = threads > 1 && count >= threads;  // one entry per thread
    const size_t bytes = product.scratch(apart ? 1 : threads);
    const int64_t each = apart ? (count + threads - 1) / threads : count;
    const Scratch scratch(call, apart ? static_cast<size_t>(threads) * bytes : bytes);
    parallel_ranges(count, each, [&](int64_t begin, int64_t end) {
      char* memory = scratch.as<char>() + static_cast<size_t>(begin / each) * bytes;
      for (int64_t i = begin; i < end; ++i) product.multiply(i, apart ? 1 : threads, memory);
    });
  }
};

}  // namespace

extern constinit const KernelList matmul = matmul_kernels<Backend>();

}  // namespace locus::LOCUS_ISA_NAMESPACE
