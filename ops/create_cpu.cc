#include <locus/devices/cpu.h>
#include <locus/ops/create_kernel.h>

namespace locus::LOCUS_ISA {
namespace {

constexpr int64_t kGrain = 16384;

void fill(const Call& call) {
  const View& out = call.out[0];
  const Scalar& s = call.attributes<FillAttrs>().value;
  uint64_t bits = 0;
  View value = out;
  value.data = &bits;
  for (int i = 0; i < out.meta.rank; ++i) value.stride[i] = 0;
  dispatch(out.meta.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    const T v = element<T>(s.kind(), s.integer(), s.floating());
    __builtin_memcpy(&bits, &v, sizeof v);
  });
  copy_view(value, out);
}

template <class T>
void arange(const Call& call) {
  const ArangeAttrs& a = call.attributes<ArangeAttrs>();
  const int64_t n = call.out[0].meta.size();
  T* out = call.out[0].as<T>();
  parallel_for(n, kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      out[i] = convert<T>(a.start + static_cast<double>(i) * a.step);
  });
  if (a.has_last && n > 0) out[n - 1] = convert<T>(a.last);
}

const KernelEntry kEntries[] = {
    {"fill", f32, &fill},
    {"fill", f64, &fill},
    {"fill", f16, &fill},
    {"fill", bf16, &fill},
    {"fill", i32, &fill},
    {"fill", i64, &fill},
    {"fill", u8, &fill},
    {"fill", i8, &fill},
    {"fill", bool_, &fill},
    {"arange", f32, &arange<float>},
    {"arange", f64, &arange<double>},
    {"arange", f16, &arange<Half>},
    {"arange", bf16, &arange<BFloat16>},
    {"arange", i32, &arange<int32_t>},
    {"arange", i64, &arange<int64_t>},
    {"arange", u8, &arange<uint8_t>},
    {"arange", i8, &arange<int8_t>},
    {"arange", bool_, &arange<bool>},
};

}  // namespace

extern const KernelTable create;
const KernelTable create{kEntries, sizeof kEntries / sizeof *kEntries};

}  // namespace locus::LOCUS_ISA
