// The text of elementwise kernels for GPUs compiles, to little code.
#ifdef LOCUS_WITH_CUDA
#include <nvrtc.h>

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <locus/ops/create.h>
#include <locus/ops/jit/definition.h>
#include <locus/ops/kernel/source.h>

#include "tests/user_kernels/every_name.h"

namespace locus::jit {
namespace {

// The machine code of the text, or PTX for the architecture compute_90. Errors fail the test.
std::string compile(const std::string& text, const std::string& architecture) {
  std::vector<const char*> names, texts;
  for (const SourceFile& file : formula_source()) {
    names.push_back(file.name);
    texts.push_back(file.text);
  }
  nvrtcProgram handle;
  EXPECT_EQ(nvrtcCreateProgram(&handle, text.c_str(), "program", int(names.size()), texts.data(),
                               names.data()),
            NVRTC_SUCCESS);
  const std::string target = "--gpu-architecture=" + architecture;
  const char* options[] = {"--std=c++20", target.c_str(), "-default-device"};
  const nvrtcResult result = nvrtcCompileProgram(handle, 3, options);
  size_t size = 0;
  nvrtcGetProgramLogSize(handle, &size);
  std::string log(size, 0), code;
  nvrtcGetProgramLog(handle, log.data());
  EXPECT_EQ(result, NVRTC_SUCCESS) << log << text;
  if (result == NVRTC_SUCCESS && architecture.starts_with("sm")) {
    nvrtcGetCUBINSize(handle, &size);
    code.resize(size);
    nvrtcGetCUBIN(handle, code.data());
  }
  nvrtcDestroyProgram(&handle);
  return code;
}

// The code for tensors of these dtypes. Bit k of `numbers`: operand k is a number.
std::string compile(const Definition& d, const std::vector<DType>& dtypes, unsigned numbers = 0,
                    const std::string& architecture = "sm_90") {
  std::vector<Tensor> tensors;
  for (DType t : dtypes) tensors.push_back(zeros({2}, t));
  const Scalar two = 2;
  Operands operands(dtypes.size());
  for (size_t k = 0; k < dtypes.size(); ++k)
    if (numbers >> k & 1)
      operands.number[k] = &two;
    else
      operands.tensor[k] = &tensors[k];
  return compile(d.find(operands).text(true), architecture);
}

TEST(ElementText, CompilesForEveryDType) {
  const Definition* const d =
      &Definition::of("T x, T y, raw T w, int64 k", "T z, U u, raw T v",
                      "z = x * y + w[i % k]; u = z; v[i] = w[n - 1 - i];", "weighted", {}, false);
  for (DType t : {f32, f64, f16, bf16, i32, i64, u8, i8, bool_}) {
    const std::string code = compile(*d, {t, t, t, i64, t, f32, t});
    EXPECT_LT(code.size(), 36u << 10) << name(t);
    EXPECT_THAT(code, testing::AllOf(testing::HasSubstr("weighted_flat"),
                                     testing::HasSubstr("weighted_strided")));
  }
}

TEST(ElementText, CompilesForNumbersIndicesPointersAndPreambles) {
  compile(Definition::of("T x, U y", "T z", "z = x + y + _ind.get()[0] + _ind.size();", "indexed",
                         {}, false),
          {i8, f32, f16}, 0b011);
  compile(Definition::of("const half *x, float a, double *y, long long b", "",
                         "*(y + i) = a * x[i] + n + b;", "pointers", {}, true),
          {f16, f32, f64, i64}, 0b1010);
  compile(Definition::of("T x, int32 m", "T y, raw int64 c",
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
  compile(Definition::of(test::EveryName::kInputs, test::EveryName::kOutputs,
                         test::EveryName().body(), "every_name", {}, false),
          {f32, f64, i32, i64, bool_, f16, f64, i32}, 0b11111, "compute_90");
  const std::string out = "raw T x, raw T old";
  for (DType t : {f32, f64, i32, i64, u8, i8, bool_}) {
    compile(Definition::of("T v", out, test::kAtomics, "atomics", {}, false), {t, t, t}, 1);
    if (!is_floating(t))
      compile(Definition::of("T v", out, test::kBitAtomics, "bit_atomics", {}, false), {t, t, t},
              1);
  }
}

}  // namespace
}  // namespace locus::jit
#endif
