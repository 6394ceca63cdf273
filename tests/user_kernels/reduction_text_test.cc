// The text of reduction kernels for GPUs compiles, to little code.
#ifdef LOCUS_WITH_CUDA
#include <gmock/gmock.h>

#include <locus/ops/jit/reduction_definition.h>

#include "tests/support/gpu_text.h"

namespace locus::jit {
namespace {

using test::compile_for_gpu;

TEST(ReductionText, CompilesForEveryDType) {
  for (const char* identity : {"0", ""}) {
    const ReductionDefinition* const d = &ReductionDefinition::of(
        "T x, T y, raw T w, int64 k", "T z, U m",
        {"x * y + w[i] + k", "a + b", "z = a + w[0]; m = a / n", identity}, "weighted", {});
    for (DType t : {f32, f64, f16, bf16, i32, i64, u8, i8, bool_}) {
      const std::string code = compile_for_gpu(*d, {t, t, t, i64, t, f32}, 0b1000);
      EXPECT_LT(code.size(), 64u << 10) << name(t);
      EXPECT_THAT(code, testing::HasSubstr("weighted_reduce"));
    }
  }
}

TEST(ReductionText, CompilesForStructsAndFunctions) {
  const KernelOptions options{.preamble = R"(
struct Best { T v; int64_t at; bool some; __device__ Best() {} };
__device__ Best best(T v, int64_t i) { Best b; b.v = v; b.at = i; b.some = true; return b; }
__device__ Best better(const Best& a, const Best& b) {
  return b.v > a.v || (b.v == a.v && b.at < a.at) ? b : a; })",
                              .reduce_type = "Best"};
  compile_for_gpu(
      ReductionDefinition::of("T x", "int64 y, T v",
                              {"best(sqrt(fabs(x)), i)", "better(a, b)", "y = a.at; v = a.v", ""},
                              "my_argmax", options),
      {f32, i64, f32});
  compile_for_gpu(ReductionDefinition::of("T x", "T y", {"x", "max(a, b)", "y = a;", ""}, "largest",
                                          {.reduce_type = "double"}),
                  {f16, f16});
}

}  // namespace
}  // namespace locus::jit
#endif
