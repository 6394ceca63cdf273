#include <locus/devices/cpu.h>
#include <locus/ops/random/random_kernel.h>

namespace locus::LOCUS_ISA_NAMESPACE {
namespace {

constexpr int64_t kGrain = 1024;  // blocks

struct Backend {
  template <class T, template <class> class Distribution>
  static void draw(const Call& call) {
    using D = Distribution<T>;
    const RandomAttrs& a = call.attributes<RandomAttrs>();
    const PhiloxKey key = a.key.now();
    const int64_t n = call.out[0].meta.size();
    T* out = call.out[0].as<T>();
    parallel_ranges((n + D::kCount - 1) / D::kCount, kGrain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        T values[D::kCount];
        D::draw(a, philox(key, static_cast<uint64_t>(i)), values);
        const int64_t at = i * D::kCount, count = n - at < D::kCount ? n - at : D::kCount;
        for (int64_t k = 0; k < count; ++k) out[at + k] = values[k];
      }
    });
  }
};

}  // namespace

extern constinit const KernelList random = random_kernels<Backend>();

}  // namespace locus::LOCUS_ISA_NAMESPACE
