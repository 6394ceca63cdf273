// NVRTC: options, errors with the user's lines, and the size of the code. Needs no GPU.
#ifdef LOCUS_WITH_CUDA
#include <locus/devices/nvrtc/nvrtc.h>

#include <string>
#include <vector>

#include <locus/core/error.h>
#include <locus/ops/kernel/source.h>
#include "tests/support/contexts.h"

namespace locus::test {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr const char* kElf = "\177ELF";

std::string compile(const ProgramSource& source, int capability = 90) {
  return cuda::compile_cuda(source, capability, gpu());
}

ProgramSource twice() {
  return {.name = "twice",
          .text = "extern \"C\" __global__ void twice(float* x) { x[threadIdx.x] *= 2; }",
          .functions = {"twice"}};
}

TEST(Nvrtc, CompilesToMachineCode) {
  EXPECT_THAT(compile(twice()), StartsWith(kElf));
  EXPECT_LT(compile(twice()).size(), 8000u);
}

TEST(Nvrtc, CompilesToPtxForAGpuThatItDoesNotKnow) {
  EXPECT_THAT(compile(twice(), 999), HasSubstr(".entry twice"));
}

TEST(Nvrtc, RefusesAGpuThatIsTooOld) {
  EXPECT_THAT(message_of<UnsupportedOnContext>([] { compile(twice(), 20); }),
              testing::MatchesRegex("twice: gpu\\(0\\) has compute capability 2.0, and NVRTC .* "
                                    "compiles for .* or newer; install an older NVRTC"));
}

TEST(Nvrtc, TakesTheArchitectureOfTheOptions) {
  ProgramSource source = twice();
  source.options = {"--gpu-architecture=compute_90"};
  EXPECT_THAT(compile(source, 80), HasSubstr(".target sm_90"));
  source.options = {"-arch=sm_90a"};
  EXPECT_THAT(compile(source, 80), StartsWith(kElf));
}

TEST(Nvrtc, ErrorsNameTheUsersLines) {
  ProgramSource source = twice();
  source.text = "\nextern \"C\" __global__ void twice(float* x) { *x = yy; }";
  const std::string text = message_of<SourceError>([&] { compile(source); });
  EXPECT_THAT(text, StartsWith("twice: does not compile for gpu(0):\ntwice(2): error: "));
  EXPECT_THAT(text, HasSubstr("\"yy\" is undefined"));
  source.text = "extern \"C\" __global__ void f(float* x) {\n#line 1 \"sqdiff\"\n*x = yy;\n}";
  EXPECT_THAT(message_of<SourceError>([&] { compile(source); }), HasSubstr("sqdiff(1): error: "));
}

TEST(Nvrtc, NamesAnOptionThatItDoesNotKnow) {
  ProgramSource source = twice();
  source.options = {"--no-such-option"};
  EXPECT_THAT(message_of<SourceError>([&] { compile(source); }), HasSubstr("no-such-option"));
}

// The code comes behind a line for each name.
TEST(Nvrtc, TellsTheNamesOfExpressions) {
  ProgramSource source = twice();
  source.text =
      "template <class T> __global__ void add(T* x) { *x += 1; }\n"
      "namespace ns { __constant__ float w; __global__ void f(float* x) { *x = w; } }\n";
  source.expressions = {"add<float>", "&ns::w", "ns::f"};
  std::string code = compile(source);
  EXPECT_THAT(cuda::take_names(code, 3),
              testing::ElementsAre("_Z3addIfEvPT_", "_ZN2ns1wE", "_ZN2ns1fEPf"));
  EXPECT_THAT(code, StartsWith(kElf));
  source.expressions = {"add<no_type>"};
  EXPECT_THAT(message_of<SourceError>([&] { compile(source); }),
              HasSubstr("identifier \"no_type\" is undefined"));
  std::string plain = compile(twice());
  EXPECT_THAT(cuda::take_names(plain, 0), testing::ElementsAre());
  EXPECT_THAT(plain, StartsWith(kElf));
}

TEST(Nvrtc, IncludesHeadersOfTheSource) {
  static constexpr SourceFile kHeaders[] = {{"mine.h", "__device__ float mine() { return 3; }"}};
  ProgramSource source = twice();
  source.text = "#include \"mine.h\"\nextern \"C\" __global__ void f(float* x) { *x = mine(); }";
  source.headers = kHeaders;
  EXPECT_THAT(compile(source), StartsWith(kElf));
}

TEST(Nvrtc, FindsTheToolkitsHeaders) {
  ProgramSource source = twice();
  source.text =
      "#include <cooperative_groups.h>\n#include <cuda_fp16.h>\n"
      "extern \"C\" __global__ void twice(__half* x) { *x = *x + *x; }";
  EXPECT_THAT(compile(source), StartsWith(kElf));
}

// As PTX, where the contraction shows.
TEST(Nvrtc, ContractsOnlyIfAsked) {
  ProgramSource source = twice();
  source.text = "extern \"C\" __global__ void f(float* x) { *x = x[1] * x[2] + x[3]; }";
  source.options = {"--gpu-architecture=compute_90"};
  EXPECT_THAT(compile(source), Not(HasSubstr("fma.rn")));
  source.contract = true;
  EXPECT_THAT(compile(source), HasSubstr("fma.rn"));
}

TEST(Nvrtc, HasNoFastMathUnlessAsked) {
  ProgramSource source = twice();
  source.text = "extern \"C\" __global__ void f(float* x) { *x = sinf(*x) / x[1]; }";
  source.options = {"--gpu-architecture=compute_90"};
  EXPECT_THAT(compile(source), Not(testing::ContainsRegex("[.]ftz|[.]approx")));
  source.options.emplace_back("--use_fast_math");
  EXPECT_THAT(compile(source), HasSubstr(".ftz"));
}

// Large code takes long to load: a static member of a formula is a device variable.
TEST(Nvrtc, FormulasAreSmall) {
  const ProgramSource source{
      .name = "formulas",
      .text =
          "#include <locus/ops/elementwise/activation_kernel.h>\n"
          "extern \"C\" __global__ void f(float* x) {\n"
          "  *x = locus::formula::Softplus().apply(locus::formula::Gelu().apply(*x));\n"
          "}\n",
      .functions = {"f"},
      .options = {"-default-device"},
      .headers = formula_source()};
  EXPECT_LT(compile(source).size(), 16000u);
}

}  // namespace
}  // namespace locus::test
#endif
