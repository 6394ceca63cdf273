// The text of elementwise kernels for GPUs compiles, to little code.
#ifdef LOCUS_WITH_CUDA
#include <gmock/gmock.h>

#include <locus/ops/jit/element_definition.h>

#include "tests/support/gpu_text.h"

#include "tests/user_kernels/every_name.h"

namespace locus::jit {
namespace {

using test::compile_for_gpu;

TEST(ElementText, CompilesForEveryDType) {
  const ElementDefinition* const d = &ElementDefinition::of(
      "T x, T y, raw T w, int64 k", "T z, U u, raw T v",
      "z = x * y + w[i % k]; u = z; v[i] = w[n - 1 - i];", "weighted", {}, false);
  for (DType t : {f32, f64, f16, bf16, i32, i64, u8, i8, bool_}) {
    const std::string code = compile_for_gpu(*d, {t, t, t, i64, t, f32, t});
    EXPECT_LT(code.size(), 36u << 10) << name(t);
    EXPECT_THAT(code, testing::AllOf(testing::HasSubstr("weighted_flat"),
                                     testing::HasSubstr("weighted_strided")));
  }
}

TEST(ElementText, CompilesForNumbersIndicesPointersAndPreambles) {
  compile_for_gpu(
      ElementDefinition::of("T x, U y", "T z", "z = x + y + _ind.get()[0] + _ind.size();",
                            "indexed", {}, false),
      {i8, f32, f16}, 0b011);
  compile_for_gpu(ElementDefinition::of("const half *x, float a, double *y, long long b", "",
                                        "*(y + i) = a * x[i] + n + b;", "pointers", {}, true),
                  {f16, f32, f64, i64}, 0b1010);
  compile_for_gpu(ElementDefinition::of(
                      "T x, int32 m", "T y, raw int64 c",
                      R"(y = sqrt(x) + exp(x) + log1p(x) + pow(x, 2) + fabs(-x) + max(x, T(m)) +
  min(m, 1) + abs(-m) + fmod(x, T(2)) + atan2(x, T(1)) + hypot(x, x) + floor(x) + erf(x) + tanh(x) +
  T(isnan(x)) + T(isinf(x)) + rsqrt(x) + exp2(x) + erfc(x) + tgamma(x) + fma(x, x, x) + sqrtf(4.0f) +
  fmaxf(1.0f, 2.0f) + copysign(x, T(-1)) + cbrt(x) + round(x) + __expf(0.0f) + powf(2.0f, 3.0f) +
  larger(x, T(2)) + sqrt(m); atomicAdd(&c[0], 1);)",
                      "functions",
                      {.preamble = "#define ROW i\nstruct P { T a; };\n"
                                   "__device__ T larger(T a, T b) { return a > b ? a : b; }"},
                      false),
                  {f64, i32, f64, i64});
}

TEST(ElementText, FunctionsTakeOperandsOfAllTypes) {
  compile_for_gpu(ElementDefinition::of(test::EveryName::kInputs, test::EveryName::kOutputs,
                                        test::EveryName().body(), "every_name", {}, false),
                  {f32, f64, i32, i64, bool_, f16, f64, i32}, 0b11111, "compute_90");
  const std::string out = "raw T x, raw T old";
  for (DType t : {f32, f64, i32, i64, u8, i8, bool_}) {
    compile_for_gpu(ElementDefinition::of("T v", out, test::kAtomics, "atomics", {}, false),
                    {t, t, t}, 1);
    if (!is_floating(t))
      compile_for_gpu(
          ElementDefinition::of("T v", out, test::kBitAtomics, "bit_atomics", {}, false), {t, t, t},
          1);
  }
}

}  // namespace
}  // namespace locus::jit
#endif
