// Programs of real GPUs: launches, errors, threads, captures, several GPUs.
#ifdef LOCUS_WITH_CUDA
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include <locus/core/error.h>
#include <locus/core/program.h>
#include <locus/core/stream.h>
#include <locus/core/tensor.h>
#include <locus/ops/create.h>
#include <locus/ops/kernel/source.h>
#include "tests/devices/cuda_support.h"
#include "tests/support/contexts.h"

namespace locus::test {
namespace {

using testing::HasSubstr;

struct Args {
  float* x;
  int64_t n;
  float by;
};

// x *= by. The name makes the text its own.
ProgramSource scale(const std::string& name) {
  return {.name = name,
          .text =
              "struct Args { float* x; long long n; float by; };\n"
              "extern \"C\" __global__ void scale(const __grid_constant__ Args a) {\n"
              "  const long long i = blockIdx.x * 256ll + threadIdx.x;\n"
              "  if (i < a.n) a.x[i] *= a.by;\n"
              "}  // " +
              name,
          .functions = {"scale"}};
}

struct Launch {
  const KernelFunction* function;
  LaunchShape shape;
  const void* args;
  size_t bytes;
};

// As an op's kernel function does.
void launch(StreamView s, const Launch& l) {
  const Call call{nullptr, nullptr, 0, 0, &l, sizeof(l), s};
  device(s.context).launch(
      [](const Call& c) {
        const auto& args = c.attributes<Launch>();
        args.function->launch(c.stream, args.shape, args.args, args.bytes);
      },
      call, "scale");
}

// Elements 1, 1, ... scaled on context c.
std::vector<double> scaled(Context c, const KernelProgram& p, float by, int64_t n = 1000) {
  const Tensor x = ones({n}, {c});
  const Args args{static_cast<float*>(x.data_ptr()), n, by};
  const StreamView s = current_stream(c);
  launch(s, {p.find("scale"), {.grid = {(n + 255) / 256}, .block = {256}}, &args, sizeof(args)});
  device(c).synchronize(s);
  return values(x);
}

TEST(CudaProgram, Launches) {
  LOCUS_NEEDS_GPUS(1);
  const KernelProgram& p = *compile_program(gpu(), scale("launches"));
  EXPECT_EQ(scaled(gpu(), p, 3), std::vector<double>(1000, 3));
  EXPECT_EQ(p.find("other"), nullptr);
  EXPECT_EQ(p.find("scale")->host, nullptr);
}

TEST(CudaProgram, LaunchesInThreeDimensions) {
  LOCUS_NEEDS_GPUS(1);
  const KernelProgram& p = *compile_program(
      gpu(), {.name = "axes",
              .text = "extern \"C\" __global__ void axes(float* x) {\n"
                      "  const unsigned g = blockIdx.x + 2 * (blockIdx.y + 3 * blockIdx.z),\n"
                      "                 b = threadIdx.x + 4 * (threadIdx.y + 5 * threadIdx.z);\n"
                      "  x[g * 40 + b] = g * 40 + b;\n"
                      "}",
              .functions = {"axes"}});
  const Tensor x = zeros({2 * 3 * 4 * 4 * 5 * 2}, {gpu()});
  void* const data = x.data_ptr();
  const StreamView s = current_stream(gpu());
  launch(s, {p.find("axes"), {.grid = {2, 3, 4}, .block = {4, 5, 2}}, &data, sizeof(data)});
  device(gpu()).synchronize(s);
  const std::vector<double> all = values(x);
  for (size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i], double(i));
}

TEST(CudaProgram, CallsFormulas) {
  LOCUS_NEEDS_GPUS(1);
  const KernelProgram& p = *compile_program(
      gpu(), {.name = "softplus",
              .text = "#include <locus/ops/elementwise/activation_kernel.h>\n"
                      "struct Args { float* x; long long n; float by; };\n"
                      "extern \"C\" __global__ void scale(const __grid_constant__ Args a) {\n"
                      "  const long long i = blockIdx.x * 256ll + threadIdx.x;\n"
                      "  if (i < a.n) a.x[i] = locus::formula::Softplus().apply(a.x[i] * a.by);\n"
                      "}",
              .functions = {"scale"},
              .options = {"-default-device"},
              .headers = formula_source()});
  for (const double x : scaled(gpu(), p, 0)) EXPECT_NEAR(x, 0.693147181, 1e-7);
}

TEST(CudaProgram, WorksInAThreadThatHasNotUsedCuda) {
  LOCUS_NEEDS_GPUS(1);
  const Tensor x = ones({10}, {gpu()});
  const StreamView s = current_stream(gpu());
  device(gpu()).synchronize(s);
  std::thread([&] {
    const Args args{static_cast<float*>(x.data_ptr()), 10, 2};
    const KernelFunction& f = *compile_program(gpu(), scale("threads"))->find("scale");
    launch(s, {&f, {.block = {256}}, &args, sizeof(args)});
    // And one whose program another thread has loaded.
    std::thread([&] { launch(s, {&f, {.block = {256}}, &args, sizeof(args)}); }).join();
  }).join();
  device(gpu()).synchronize(s);
  EXPECT_EQ(values(x), std::vector<double>(10, 4));
}

TEST(CudaProgram, IsBuiltWhileAStreamIsCaptured) {
  LOCUS_NEEDS_GPUS(1);
  device(gpu());
  cudaStream_t captured;
  LOCUS_CUDA(cudaStreamCreateWithFlags(&captured, cudaStreamNonBlocking));
  LOCUS_CUDA(cudaStreamBeginCapture(captured, cudaStreamCaptureModeGlobal));
  const KernelProgram& p = *compile_program(gpu(), scale("in a capture"));
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(captured, &graph), cudaSuccess);
  LOCUS_CUDA(cudaGraphDestroy(graph));
  LOCUS_CUDA(cudaStreamDestroy(captured));
  EXPECT_EQ(scaled(gpu(), p, 2), std::vector<double>(1000, 2));
}

TEST(CudaProgram, IsLoadedOnEachGpu) {
  LOCUS_NEEDS_GPUS(2);
  const KernelProgram& first = *compile_program(gpu(0), scale("two GPUs"));
  const KernelProgram& second = *compile_program(gpu(1), scale("two GPUs"));
  EXPECT_NE(&first, &second);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(scaled(gpu(1), second, 5), std::vector<double>(1000, 5));
    EXPECT_EQ(scaled(gpu(0), first, 7), std::vector<double>(1000, 7));
  }
}

TEST(CudaProgram, KeepsDenormals) {
  LOCUS_NEEDS_GPUS(1);
  const KernelProgram& p = *compile_program(gpu(), scale("denormals"));
  EXPECT_EQ(scaled(gpu(), p, 0x1p-140f, 1), std::vector<double>(1, 0x1p-140));
}

// --- Errors.

TEST(CudaProgram, ErrorsNameTheUsersLines) {
  LOCUS_NEEDS_GPUS(1);
  ProgramSource source = scale("broken");
  source.text += "\nint f() { return yy; }";
  const std::string text = message_of<SourceError>([&] { compile_program(gpu(), source); });
  EXPECT_THAT(text, HasSubstr("broken: does not compile for gpu(0):\nbroken(6): error: "));
}

TEST(CudaProgram, NamesAFunctionThatIsMissing) {
  LOCUS_NEEDS_GPUS(1);
  ProgramSource source = scale("missing");
  source.functions.emplace_back("other");
  EXPECT_THAT(
      message_of<SourceError>([&] { compile_program(gpu(), source); }),
      HasSubstr("missing: compiled for gpu(0), but has no function other; expected extern"));
}

TEST(CudaProgram, NamesCodeForAnotherGpu) {
  LOCUS_NEEDS_GPUS(1);
  ProgramSource source = scale("other GPU");
  cudaDeviceProp properties;
  LOCUS_CUDA(cudaGetDeviceProperties(&properties, 0));
  source.options = {properties.major == 8 ? "-arch=sm_90" : "-arch=sm_80"};
  EXPECT_THAT(message_of<DeviceError>([&] { compile_program(gpu(), source); }),
              HasSubstr("other GPU: gpu(0) cannot load the compiled code: "));
  EXPECT_EQ(scaled(gpu(), *compile_program(gpu(), scale("after")), 2).at(0), 2);
}

TEST(CudaProgram, RefusesALaunchThatIsTooLarge) {
  LOCUS_NEEDS_GPUS(1);
  const KernelProgram& p = *compile_program(gpu(), scale("large"));
  const Args args{nullptr, 0, 1};
  const StreamView s = current_stream(gpu());
  for (const LaunchShape& shape : {LaunchShape{.block = {2048}}, LaunchShape{.grid = {0}}})
    EXPECT_THAT(message_of<DeviceError>([&] {
                  launch(s, {p.find("scale"), shape, &args, sizeof(args)});
                }),
                HasSubstr("large: the launch on gpu(0) failed: "));
  EXPECT_EQ(scaled(gpu(), p, 2).at(0), 2);
}

class CudaProgramDeathTest : public testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
  void TearDown() override { GTEST_FLAG_SET(death_test_style, style_); }

 private:
  const std::string style_ = GTEST_FLAG_GET(death_test_style);
};

// A fault ends CUDA in its process.
TEST_F(CudaProgramDeathTest, AFaultIsReportedAtTheNextWaitWithItsName) {
  LOCUS_NEEDS_GPUS(1);
  const auto fault = [] {
    const KernelProgram& p = *compile_program(gpu(), scale("fault"));
    const Args args{reinterpret_cast<float*>(64), 1, 1};
    const StreamView s = current_stream(gpu());
    launch(s, {p.find("scale"), {.block = {256}}, &args, sizeof(args)});
    try {
      device(gpu()).synchronize(s);
    } catch (const DeviceError& e) {
      std::fprintf(stderr, "%s\n", e.what());
      std::_Exit(3);
    }
    std::_Exit(4);
  };
  EXPECT_EXIT(fault(), testing::ExitedWithCode(3), "scale.*gpu\\(0\\).*illegal memory access");
}

// Repeated builds read the code from the cache: they take less than a compilation.
TEST(CudaProgram, IsReadFromTheCache) {
  LOCUS_NEEDS_GPUS(1);
  const auto built = [](const ProgramSource& source) {
    const auto start = std::chrono::steady_clock::now();
    static_cast<void>(device(gpu()).build(source));
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
        .count();
  };
  const auto now = std::chrono::steady_clock::now().time_since_epoch().count();
  built(scale(text_of("opens NVRTC ", now)));
  const double compiled = built(scale(text_of("cached ", now)));
  double cached = compiled;
  for (int i = 0; i < 5; ++i) cached = std::min(cached, built(scale(text_of("cached ", now))));
  std::printf("compiled: %.2f ms, cached: %.2f ms\n", compiled, cached);
  EXPECT_LT(cached, compiled / 2);
}

}  // namespace
}  // namespace locus::test
#endif
