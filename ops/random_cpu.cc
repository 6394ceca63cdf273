#include <locus/devices/cpu.h>
#include <locus/ops/random_kernel.h>

namespace locus::LOCUS_ISA {
namespace {

constexpr int64_t kGrain = 1024;  // blocks

template <class T, template <class> class Distribution>
void draw(const Call& call) {
  using D = Distribution<T>;
  const RandomAttrs& a = call.attributes<RandomAttrs>();
  const int64_t n = call.out[0].meta.size();
  T* out = call.out[0].as<T>();
  parallel_for((n + D::kCount - 1) / D::kCount, kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      T values[D::kCount];
      D::draw(a, philox(a.key, static_cast<uint64_t>(i)), values);
      const int64_t at = i * D::kCount, count = n - at < D::kCount ? n - at : D::kCount;
      for (int64_t k = 0; k < count; ++k) out[at + k] = values[k];
    }
  });
}

const KernelEntry kEntries[] = {
    {"uniform", f32, &draw<float, Uniform>},       {"uniform", f64, &draw<double, Uniform>},
    {"uniform", f16, &draw<Half, Uniform>},        {"uniform", bf16, &draw<BFloat16, Uniform>},
    {"normal", f32, &draw<float, Normal>},         {"normal", f64, &draw<double, Normal>},
    {"normal", f16, &draw<Half, Normal>},          {"normal", bf16, &draw<BFloat16, Normal>},
    {"randint", i32, &draw<int32_t, Randint>},     {"randint", i64, &draw<int64_t, Randint>},
    {"randint", u8, &draw<uint8_t, Randint>},      {"randint", i8, &draw<int8_t, Randint>},
    {"bernoulli", f32, &draw<float, Bernoulli>},   {"bernoulli", f64, &draw<double, Bernoulli>},
    {"bernoulli", f16, &draw<Half, Bernoulli>},    {"bernoulli", bf16, &draw<BFloat16, Bernoulli>},
    {"bernoulli", i32, &draw<int32_t, Bernoulli>}, {"bernoulli", i64, &draw<int64_t, Bernoulli>},
    {"bernoulli", u8, &draw<uint8_t, Bernoulli>},  {"bernoulli", i8, &draw<int8_t, Bernoulli>},
    {"bernoulli", bool_, &draw<bool, Bernoulli>},
};

}  // namespace

extern const KernelTable random;
const KernelTable random{kEntries, sizeof kEntries / sizeof *kEntries};

}  // namespace locus::LOCUS_ISA
