#include <locus/devices/cpu.h>
#include <locus/ops/create/create_kernel.h>

namespace locus::LOCUS_ISA_NAMESPACE {
namespace {

constexpr int64_t kGrain = 16384;

struct Backend {
  template <class T>
  static void arange(const Call& call) {
    const ArangeAttrs& a = call.attributes<ArangeAttrs>();
    const int64_t n = call.out[0].meta.size();
    T* out = call.out[0].as<T>();
    parallel_ranges(n, kGrain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        out[i] = convert<T>(a.start + static_cast<double>(i) * a.step);
    });
    if (a.has_last && n > 0) out[n - 1] = convert<T>(a.last);
  }
};

}  // namespace

extern constinit const KernelList create = create_kernels<Backend, Views>();

}  // namespace locus::LOCUS_ISA_NAMESPACE
