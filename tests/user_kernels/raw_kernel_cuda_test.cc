// RawKernel and RawModule on real GPUs: launches, arguments, attributes.
#ifdef LOCUS_WITH_CUDA
#include <random>
#include <string>
#include <vector>

#include <locus/core/error.h>
#include <locus/core/stream.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/raw_kernels.h>
#include <locus/ops/view.h>

#include "tests/devices/cuda_support.h"
#include "tests/support/contexts.h"
#include "tests/user_kernels/raw_add.h"

namespace locus::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// --- CuPy's tests of raw kernels.

TEST(RawKernelCuda, Basic) {
  LOCUS_NEEDS_GPUS(1);
  const Tensor x = arange(1000, gpu()), y = ones({1000}, gpu()), z = zeros({1000}, gpu());
  add()({.grid = {4}, .block = {256}}, {read(x), read(y), z, 1000});
  EXPECT_EQ(values(z), values(x + y));
}

TEST(RawKernelCuda, Module) {
  LOCUS_NEEDS_GPUS(1);
  const RawModule m(R"(
extern "C" __global__ void sum(const float* x, float* y) { y[threadIdx.x] += x[threadIdx.x]; }
extern "C" __global__ void times(float* y, double by, unsigned char plus) {
  y[threadIdx.x] = y[threadIdx.x] * by + plus;
})");
  const Tensor x = arange(32, gpu()), y = ones({32}, gpu());
  m.get("sum")({.block = {32}}, {read(x), y});
  m.get("times")({.block = {32}}, {y, 0.5, uint8_t{200}});
  EXPECT_EQ(values(y), values((x + 1) * 0.5 + 200));
}

TEST(RawKernelCuda, AMissingFunctionIsNamed) {
  LOCUS_NEEDS_GPUS(1);
  const RawModule m(std::string(kAdd) + "__global__ void mangled(float* x, int n) { x[n] = 1; }");
  const Tensor x = zeros({1}, gpu());
  EXPECT_THAT(message_of<ValueError>([&] { m.get("no_such_kernel")({}, {x}); }),
              HasSubstr("no_such_kernel: the module has no such kernel on gpu(0); it has add, "
                        "mangled(float*, int); expected"));
  m.get("add")({}, {x, x, x, 1});
}

TEST(RawKernelCuda, RawPointer) {
  LOCUS_NEEDS_GPUS(1);
  const Tensor x = arange(6, gpu()).reshape({2, 3}), z = zeros({2}, gpu());
  device(gpu()).synchronize(current_stream(gpu()));
  add()({.block = {2}}, {static_cast<float*>(x.data_ptr()) + 1, read(x), z, 2});
  EXPECT_THAT(values(z), ElementsAre(1, 3));
  // The kernel sees the first element of a view, and no strides.
  add()({.block = {2}}, {read(any_layout(x.T()[1])), read(any_layout(x.T())), z, 2});
  EXPECT_THAT(values(z), ElementsAre(1, 3));
}

TEST(RawKernelCuda, TemplateSpecialization) {
  LOCUS_NEEDS_GPUS(1);
  const RawModule m(R"(
template <class T, int Plus> __global__ void add(T* x, T by) { x[threadIdx.x] += by + Plus; }
namespace ns { __global__ void twice(float* x) { x[threadIdx.x] *= 2; } })",
                    {.name_expressions = {"add<int, 1>", "add<double, 2>", "ns::twice"}});
  const Tensor i = arange(4, {gpu(), i32}), d = arange(4, {gpu(), f64}), f = arange(4, gpu());
  m.get("add<int, 1>")({.block = {4}}, {i, 10});
  m.get("add<double, 2>")({.block = {4}}, {d, 0.5});
  m.get("ns::twice")({.block = {4}}, {f});
  EXPECT_THAT(values(i), ElementsAre(11, 12, 13, 14));
  EXPECT_THAT(values(d), ElementsAre(2.5, 3.5, 4.5, 5.5));
  EXPECT_THAT(values(f), ElementsAre(0, 2, 4, 6));
  const RawKernel one("template <class T> __global__ void set(T* x) { *x = 7; }", "set<float>");
  one({}, {f});
  EXPECT_EQ(values(f).at(0), 7);
}

TEST(RawKernelCuda, RunsOnTheDeviceOfItsTensors) {
  LOCUS_NEEDS_GPUS(2);
  for (const int i : {0, 1, 0, 1}) {
    const Tensor x = arange(100, gpu(i)), z = zeros({100}, gpu(i));
    add().for_all(100, {read(x), read(x), z, 100});
    EXPECT_EQ(values(z), values(x + x));
  }
  const RawModule m(
      "__constant__ float by; extern \"C\" __global__ void f(float* x) { *x *= by; }");
  for (const int i : {0, 1}) m.set_global(gpu(i), "by", full({}, i + 2));
  for (const int i : {0, 1}) {
    const Tensor x = ones({1}, gpu(i));
    m.get("f")({}, {x});
    EXPECT_THAT(values(x), ElementsAre(i + 2));
  }
}

// PyCUDA's sum of two matrices: most threads of the block have no element.
TEST(RawKernelCuda, SumsMatricesInOneBlock) {
  LOCUS_NEEDS_GPUS(1);
  const RawKernel sum(R"(
extern "C" __global__ void sum(const float* a, const float* b, float* c, int width, int height) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x < width && y < height) c[y * width + x] = a[y * width + x] + b[y * width + x];
})",
                      "sum");
  // numpy.random.RandomState(123).rand(2, 5) * 10
  std::mt19937 random(123);
  std::vector<float> draws(10);
  for (float& v : draws) {
    const uint32_t high = random() >> 5, low = random() >> 6;
    v = static_cast<float>((high * 0x1p26 + low) * 0x1p-53 * 10);
  }
  const Tensor a = array(draws).copyto(gpu()).reshape({2, 5}),
               b = arange(10, gpu()).reshape({2, 5}), all = zeros({3, 5}, gpu()),
               c = all(Slice(0, 2));
  sum({.grid = {1, 1, 1}, .block = {16, 16, 1}}, {read(a), read(b), c, 5, 2});
  EXPECT_EQ(values(c), values(a + b));
  const double expected[] = {6.9646916, 3.8613935, 4.2685146, 8.513147,  11.19469,
                             9.231065,  15.807642, 13.848297, 12.809319, 12.921175};
  for (size_t i = 0; i < 10; ++i) EXPECT_NEAR(values(c)[i], expected[i], 2e-6);
  EXPECT_EQ(values(all[2]), std::vector<double>(5, 0));
}

// --- Arguments and attributes.

TEST(RawKernelCuda, ChecksArgumentsAgainstTheKernel) {
  LOCUS_NEEDS_GPUS(1);
  const Tensor x = ones({4}, gpu());
  EXPECT_THAT(message_of<ValueError>([&] {
                add()({}, {x, x, x});
              }),
              HasSubstr("the kernel has 4 parameters, of 8, 8, 8, 4 bytes"));
  EXPECT_THAT(message_of<ValueError>([&] {
                add()({}, {x, x, x, int64_t{4}});
              }),
              HasSubstr("add: argument 3 (i64, 8 bytes); the kernel's parameter 3 has 4 bytes"));
  const RawKernel none("__device__ int n; extern \"C\" __global__ void none() { n = 1; }", "none");
  none({.context = gpu()}, {});
  EXPECT_THROW(none({}, {x}), ValueError);
  EXPECT_EQ(values(x), std::vector<double>(4, 1));
}

TEST(RawKernelCuda, PassesStructs) {
  LOCUS_NEEDS_GPUS(1);
  struct Line {
    int64_t n;
    float slope, offset;
    int8_t sign;
  };
  const RawKernel fill(R"(
struct Line { long long n; float slope, offset; signed char sign; };
extern "C" __global__ void fill(float* x, bool negative, Line line) {
  const int i = threadIdx.x;
  if (i < line.n) x[i] = (negative ? line.sign : 1) * (line.slope * i + line.offset);
})",
                       "fill");
  const Tensor x = zeros({4}, gpu());
  fill({.block = {32}}, {x, true, Line{3, 2, 0.5f, -1}});
  EXPECT_THAT(values(x), ElementsAre(-0.5, -2.5, -4.5, 0));
}

TEST(RawKernelCuda, HasAttributes) {
  LOCUS_NEEDS_GPUS(1);
  const RawKernel k(R"(
__constant__ int table[64];
extern "C" __global__ void __launch_bounds__(128) k(int* x, int n) {
  __shared__ int s[256];
  s[threadIdx.x] = table[n];
  __syncthreads();
  x[threadIdx.x] = s[threadIdx.x ^ 1];
})",
                    "k");
  const KernelAttributes a = k.attributes(gpu());
  EXPECT_GT(a.registers, 0);
  EXPECT_EQ(a.max_threads, 128);
  EXPECT_EQ(a.shared_bytes, 1024);
  EXPECT_GE(a.constant_bytes, 256);
  EXPECT_GT(a.max_shared, 46 << 10);
  EXPECT_GT(a.suggested_block, 0);
  EXPECT_LE(a.suggested_block, 128);
  EXPECT_EQ(a.parameters, (std::vector<size_t>{8, 4}));
  const Tensor x = zeros({256}, {gpu(), i32});
  EXPECT_THAT(message_of<ValueError>([&] {
                k({.block = {256}}, {x, 0});
              }),
              HasSubstr("k: blocks of 256 threads; on gpu(0) the kernel runs with at most 128"));
}

TEST(RawKernelCuda, UsesLargeSharedMemory) {
  LOCUS_NEEDS_GPUS(1);
  const RawKernel reverse(R"(
extern "C" __global__ void reverse(float* x, int n) {
  extern __shared__ float s[];
  for (int i = threadIdx.x; i < n; i += blockDim.x) s[n - 1 - i] = x[i];
  __syncthreads();
  for (int i = threadIdx.x; i < n; i += blockDim.x) x[i] = s[i];
})",
                          "reverse");
  const int64_t most = reverse.attributes(gpu()).max_shared;
  for (const int64_t bytes : {int64_t{4096}, most, int64_t{64} << 10}) {
    const int n = static_cast<int>(bytes / 4);
    const Tensor x = arange(n, gpu());
    reverse({.block = {256}, .shared = bytes}, {x, n});
    EXPECT_EQ(values(x), values(n - 1 - arange(n)));
  }
  const Tensor x = zeros({1}, gpu());
  EXPECT_THAT(message_of<ValueError>([&] {
                reverse({.shared = most + 1}, {x, 1});
              }),
              HasSubstr("bytes of dynamic shared memory; gpu(0) has"));
}

TEST(RawKernelCuda, LaunchesCooperatively) {
  LOCUS_NEEDS_GPUS(1);
  const RawKernel k(R"(
#include <cooperative_groups.h>
extern "C" __global__ void k(int* x, int* sums) {
  x[blockIdx.x] = blockIdx.x;
  cooperative_groups::this_grid().sync();
  int sum = 0;
  for (int i = 0; i < gridDim.x; ++i) sum += x[i];
  sums[blockIdx.x] = sum;
})",
                    "k");
  const int64_t most = k.max_active_blocks(gpu(), {.block = {32}});
  ASSERT_GT(most, 1);
  const Tensor x = zeros({most}, {gpu(), i32}), sums = zeros({most}, {gpu(), i32});
  k({.grid = {most}, .block = {32}, .cooperative = true}, {x, sums});
  EXPECT_EQ(values(sums), std::vector<double>(static_cast<size_t>(most),
                                              static_cast<double>(most * (most - 1) / 2)));
  EXPECT_THAT(message_of<ValueError>([&] {
                k({.grid = {most + 1}, .block = {32}, .cooperative = true}, {x, sums});
              }),
              HasSubstr(text_of("runs at most ", most, " such blocks at a time")));
}

TEST(RawKernelCuda, ForAllCoversAllElements) {
  LOCUS_NEEDS_GPUS(1);
  for (const int n : {0, 1, 1000, 100001}) {
    const Tensor x = ones({n}, gpu()), z = zeros({n}, gpu());
    add().for_all(n, {read(x), read(x), z, n});
    EXPECT_EQ(values(z), std::vector<double>(static_cast<size_t>(n), 2));
  }
}

TEST(RawKernelCuda, ForAllTakesSharedMemory) {
  LOCUS_NEEDS_GPUS(1);
  const RawKernel k(R"(
extern "C" __global__ void k(float* x, int n) {
  extern __shared__ float s[];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  s[threadIdx.x] = i;
  __syncthreads();
  if (i < n) x[i] = s[threadIdx.x ^ 1];
})",
                    "k");
  const Tensor x = zeros({3000}, gpu());
  k.for_all(3000, {x, 3000}, {.shared = 4096});
  std::vector<double> expected(3000);
  for (size_t i = 0; i < expected.size(); ++i) expected[i] = static_cast<double>(i ^ 1);
  EXPECT_EQ(values(x), expected);
}

}  // namespace
}  // namespace locus::test
#endif
