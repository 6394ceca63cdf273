// RawKernel and RawModule on real GPUs: variables, options, files, order, captures, faults.
#ifdef LOCUS_WITH_CUDA
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include <locus/core/capture.h>
#include <locus/core/compile.h>
#include <locus/core/error.h>
#include <locus/core/profiler.h>
#include <locus/core/stream.h>
#include <locus/devices/nvrtc/nvrtc.h>
#include <locus/ops/copy.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/raw_kernels.h>

#include "tests/devices/cuda_support.h"
#include "tests/support/contexts.h"
#include "tests/support/folder.h"
#include "tests/user_kernels/raw_add.h"

namespace locus::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(RawKernelCudaCalls, SetsConstants) {
  LOCUS_NEEDS_GPUS(1);
  const RawModule m(R"(
__constant__ float coefficients[3];
namespace ns { __device__ int calls; }
extern "C" __global__ void polynomial(float* x) {
  float y = 0;
  for (int i = 0; i < 3; ++i) y = y * x[threadIdx.x] + coefficients[i];
  x[threadIdx.x] = y;
  if (threadIdx.x == 0) ++ns::calls;
})",
                    {.name_expressions = {"&ns::calls"}});
  for (float c = 1; c < 4; ++c) {
    m.set_global(gpu(), "coefficients", array({c, 0.0f, 1.0f}));
    const Tensor x = arange(3, gpu());
    m.get("polynomial")({.block = {3}}, {x});
    EXPECT_THAT(values(x), ElementsAre(1, c + 1, 4 * c + 1));
  }
  EXPECT_THAT(values(m.get_global(gpu(), "ns::calls", i32)), ElementsAre(3));
  EXPECT_THAT(values(m.get_global(gpu(), "coefficients", f32, {3})), ElementsAre(3, 0, 1));
  EXPECT_THROW(m.set_global(gpu(), "coefficients", ones({4})), ValueError);
  EXPECT_THROW(m.set_global(gpu(), "others", ones({4})), ValueError);
}

// --- Text, options and files.

TEST(RawKernelCudaCalls, ErrorsNameTheUsersLines) {
  LOCUS_NEEDS_GPUS(1);
  const RawKernel broken("\nextern \"C\" __global__ void broken(float* x) {\n  *x = yy;\n}",
                         "broken");
  const Tensor x = ones({1}, gpu());
  for (int i = 0; i < 2; ++i)
    EXPECT_THAT(message_of<SourceError>([&] { broken({}, {x}); }),
                HasSubstr("broken: does not compile for gpu(0):\nbroken(3): error: "));
}

TEST(RawKernelCudaCalls, KeepsDenormals) {
  LOCUS_NEEDS_GPUS(1);
  const RawKernel k("extern \"C\" __global__ void half_of(float* x) { *x *= 0.5f; }", "half_of");
  const Tensor x = full({1}, 0x1p-140, gpu());
  k({}, {x});
  EXPECT_EQ(values(x).at(0), 0x1p-141);
}

TEST(RawKernelCudaCalls, OptionsMakeAnotherKernelOfTheSameText) {
  LOCUS_NEEDS_GPUS(1);
  const char* const text = "extern \"C\" __global__ void scale(float* x) { *x *= FACTOR; }";
  for (const int factor : {2, 3}) {
    const RawKernel k(text, "scale", {.options = {"-DFACTOR=" + std::to_string(factor)}});
    const Tensor x = ones({1}, gpu());
    k({}, {x});
    EXPECT_THAT(values(x), ElementsAre(factor));
  }
}

TEST(RawKernelCudaCalls, IncludesHeadersOfTheProgram) {
  LOCUS_NEEDS_GPUS(1);
  const RawKernel k(
      "#include \"mine.h\"\nextern \"C\" __global__ void k(float* x) { *x = mine(); }", "k",
      {.headers = {{"mine.h", "__device__ float mine() { return 42; }"}}});
  const Tensor x = ones({1}, gpu());
  k({}, {x});
  EXPECT_THAT(values(x), ElementsAre(42));
}

TEST(RawKernelCudaCalls, LoadsFiles) {
  LOCUS_NEEDS_GPUS(1);
  cudaDeviceProp properties;
  LOCUS_CUDA(cudaGetDeviceProperties(&properties, 0));
  const int capability = 10 * properties.major + properties.minor;
  const Folder folder;
  for (const bool ptx : {false, true}) {
    ProgramSource source{.name = "add", .text = kAdd};
    if (ptx) source.options = {text_of("-arch=compute_", capability)};
    const std::string path = folder / (ptx ? "add.ptx" : "add.cubin");
    std::ofstream(path, std::ios::binary) << cuda::compile_cuda(source, capability, gpu());
    const Tensor x = ones({8}, gpu()), z = zeros({8}, gpu());
    RawModule::load(path).get("add").for_all(8, {read(x), read(x), z, 8});
    EXPECT_EQ(values(z), std::vector<double>(8, 2));
  }
  std::ofstream(folder / "text") << "no code";
  EXPECT_THAT(message_of<DeviceError>(
                  [&] { RawModule::load(folder / "text").get("add").attributes(gpu()); }),
              HasSubstr("gpu(0) cannot load the code: "));
}

// --- Order, captures, faults.

TEST(RawKernelCudaCalls, IsOrderedWithOtherStreams) {
  LOCUS_NEEDS_GPUS(1);
  Stream other(gpu());
  const int n = 1 << 20;
  const Tensor x = zeros({n}, gpu()), one = ones({n}, gpu());
  for (int round = 0; round < 20; ++round) {
    add().for_all(n, {x, read(one), x, n});
    const StreamScope scope(other);
    add().for_all(n, {x, read(one), x, n});
  }
  EXPECT_EQ(values(x), std::vector<double>(static_cast<size_t>(n), 40));
}

TEST(RawKernelCudaCalls, IsCapturedAndCompiled) {
  LOCUS_NEEDS_GPUS(1);
  const Tensor x = ones({10}, gpu()), w = ones({10}, gpu()), z = zeros({10}, gpu());
  Capture capture(gpu());
  add().for_all(10, {read(x), read(w), z, 10});
  add()({.block = {32}}, {read(z), read(w), z, 10});
  Graph graph = capture.end();
  Compiled f([&](const Tensors& in) {
    const Tensor y = in[0].clone();
    add().for_all(10, {read(y), read(w), y, 10});
    return Tensors{y * 2};
  });
  for (float v : {2.0f, 5.0f, 7.0f}) {
    full({10}, v, gpu()).copyto(w);
    graph.replay();
    EXPECT_EQ(values(z), std::vector<double>(10, 1 + 2 * v));
    EXPECT_EQ(values(f({x})[0]), std::vector<double>(10, 2 * (1 + v)));
  }
}

TEST(RawKernelCudaCalls, IsInTheProfilersTotals) {
  LOCUS_NEEDS_GPUS(1);
  const RawKernel k("extern \"C\" __global__ void counted(float* x) { *x += 1; }", "counted");
  const Tensor x = ones({1}, gpu());
  profiler::start_totals();
  k({}, {x});
  profiler::stop_totals();
  EXPECT_THAT(profiler::dumps(), HasSubstr("counted"));
}

class RawKernelCudaCallsDeathTest : public testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
  void TearDown() override { GTEST_FLAG_SET(death_test_style, style_); }

 private:
  const std::string style_ = GTEST_FLAG_GET(death_test_style);
};

// A fault ends CUDA in its process.
TEST_F(RawKernelCudaCallsDeathTest, AFaultNamesTheKernelAtTheNextWait) {
  LOCUS_NEEDS_GPUS(1);
  const auto fault = [] {
    const RawKernel k("extern \"C\" __global__ void bad_write(float* x) { x[1ll << 40] = 1; }",
                      "bad_write");
    const Tensor x = ones({1}, gpu());
    try {
      k({}, {x});
      x.wait_to_read();
      device(gpu()).synchronize(current_stream(gpu()));
    } catch (const DeviceError& e) {
      std::fprintf(stderr, "%s\n", e.what());
      std::_Exit(3);
    }
    std::_Exit(4);
  };
  EXPECT_EXIT(fault(), testing::ExitedWithCode(3), "bad_write.*gpu\\(0\\).*illegal memory access");
}

}  // namespace
}  // namespace locus::test
#endif
