// parallel_for in a file that nvcc does not compile. parallel_for_test.cu: on CUDA.
#include <numeric>

#include <locus/core/autograd.h>
#include <locus/core/compile.h>
#include <locus/core/error.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/parallel_for.h>
#include <locus/ops/reduce.h>
#include <locus/ops/view.h>
#include "tests/support/contexts.h"
#include "tests/support/expect_line.h"

namespace locus::test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

// Contexts that run the host's functions.
std::vector<Context> host_kernels() {
  std::vector<Context> list = contexts();
  std::erase_if(list, [](Context c) { return device(c).kernels() != DeviceType::cpu; });
  return list;
}

struct Twice {
  LOCUS_HD void operator()(int64_t i, auto* to, const auto* from) const {
    to[i] = from[i] + from[i];
  }
};

TEST(ParallelFor, RunsInOrderWithOpsOnTheSameTensors) {
  for (Context c : host_kernels()) {
    SCOPED_TRACE(to_string(c));
    const Tensor x = arange(100000, c) * 3, y = ones({100000}, c);
    const float a = 2;
    parallel_for(
        x.size(), LOCUS_LAMBDA(int64_t i, float* to, const float* from) { to[i] += a * from[i]; },
        Writes<float>(y), Reads<float>(x));
    const Tensor z = y - x * 2;
    EXPECT_EQ(values(z), std::vector<double>(100000, 1));
  }
}

TEST(ParallelFor, TakesEveryDType) {
  const auto doubles = [](auto zero, DType d) {
    using T = decltype(zero);
    const Tensor x = array({1.0, 2.0, 0.0}).astype(d), y = zeros_like(x);
    parallel_for(
        2, LOCUS_LAMBDA(int64_t i, T * to, const T* from) { to[i] = from[i]; }, Writes<T>(y),
        Reads<T>(x));
    EXPECT_THAT(values(y), ElementsAre(1, d == bool_ ? 1 : 2, 0)) << name(d);
  };
  doubles(0.F, f32);
  doubles(0.0, f64);
  doubles(Half(), f16);
  doubles(BFloat16(), bf16);
  doubles(int32_t{}, i32);
  doubles(int64_t{}, i64);
  doubles(uint8_t{}, u8);
  doubles(int8_t{}, i8);
  doubles(false, bool_);
}

TEST(ParallelFor, CopiesTensorsThatItReadsInAnotherOrder) {
  const Tensor x = array({1.F, 2.F, 3.F, 4.F}).reshape({2, 2}), y = zeros({4});
  parallel_for(4, Twice(), Writes<float>(y), Reads<float>(x.T()));
  EXPECT_THAT(values(y), ElementsAre(2, 6, 4, 8));
}

TEST(ParallelFor, WritesSeveralTensors) {
  const Tensor all = zeros({4}), sums = zeros({2}).astype(f64);
  parallel_for(
      2,
      LOCUS_LAMBDA(int64_t i, float* low, double* sum, float* high) {
        low[i] = 1;
        high[i] = 2;
        sum[i] = 3;
      },
      Writes<float>(all(Slice(0, 2))), Writes<double>(sums), Writes<float>(all(Slice(2, 4))));
  EXPECT_THAT(values(all), ElementsAre(1, 1, 2, 2));
  EXPECT_THAT(values(sums), ElementsAre(3, 3));
}

TEST(ParallelFor, IsRecordedAndReplayed) {
  for (Context c : host_kernels()) {
    SCOPED_TRACE(to_string(c));
    Compiled f([](const Tensors& in) {
      const Tensor out = zeros_like(in[0]);
      parallel_for(in[0].size(), Twice(), Writes<float>(out), Reads<float>(in[0]));
      return Tensors{out + 1};
    });
    for (int k = 0; k < 3; ++k)
      EXPECT_THAT(values(f({full({2}, k, c)})[0]), ElementsAre(2 * k + 1, 2 * k + 1));
    EXPECT_EQ(f.recorded(), 1);
  }
}

TEST(ParallelFor, ThrowsWhatTheFunctionThrows) {
  const auto fails = [](Context c) {
    const Tensor y = zeros({10000}, c);
    parallel_for(
        10000,
        [](int64_t i, float* to) {
          if (i == 9000) throw ValueError("element ", i);
          to[i] = 1;
        },
        Writes<float>(y));
    wait_all();
  };
  for (Context c : host_kernels())
    EXPECT_THAT(message_of<ValueError>([&] { fails(c); }), HasSubstr("element 9000"));
}

TEST(ParallelFor, RefusesWrongCallsAndWritesNothing) {
  const Tensor x = ones({2, 3}), y = zeros({6});
  const auto run = [](int64_t n, const Tensor& from, const Tensor& to) {
    return [=] { parallel_for(n, Twice(), Writes<float>(to), Reads<float>(from)); };
  };
  EXPECT_THAT(message_of<DTypeError>(run(6, x.astype(f64), y)),
              HasSubstr("parallel_for: tensor 1, cpu(0) (2,3) f64, is Reads of f32; expected one "
                        "dtype: cast it, or change the function"));
  EXPECT_THAT(message_of<EmptyTensor>(run(6, Tensor(), y)), HasSubstr("parallel_for: tensor 1"));
  EXPECT_THAT(message_of<ShapeError>(run(6, y, x.T())),
              HasSubstr("expected a contiguous tensor; pass contiguous(x), and copy back"));
  EXPECT_THAT(message_of<ValueError>(run(-1, x, y)),
              HasSubstr("parallel_for: n is -1; expected 0 or more"));
  EXPECT_THROW(run(6, ones({6}, cpu(1)), y)(), ContextMismatch);
  EXPECT_THROW(
      parallel_for(6, LOCUS_LAMBDA(int64_t, float*, float*){}, Writes<float>(y), Writes<float>(y)),
      ValueError);
  Tensor leaf = ones({6});
  leaf.attach_grad();
  autograd::Record record;
  const Tensor inner = leaf * 2;
  EXPECT_THROW(run(6, inner, y)(), Error);
  EXPECT_EQ(values(y), std::vector<double>(6, 0));
}

TEST(ParallelFor, TakesAtMost32Tensors) {
  const Tensor y = zeros({1});
  const auto run = [&]<size_t... I>(std::index_sequence<I...>) {
    const std::vector<Tensor> read(sizeof...(I), y.clone());
    parallel_for(
        1, [](int64_t, float* to, const auto*... from) { *to = (*from + ...); }, Writes<float>(y),
        Reads<float>(read[I])...);
  };
  EXPECT_THAT(message_of<ValueError>([&] { run(std::make_index_sequence<32>()); }),
              HasSubstr("parallel_for: 33 tensors; expected at most 32"));
  run(std::make_index_sequence<31>());
}

TEST(ParallelFor, ErrorsNameTheLineOfTheFirstTensor) {
  const Tensor y = zeros({3});
  EXPECT_NAMES_ITS_LINE(parallel_for(-1, LOCUS_LAMBDA(int64_t, float*){}, Writes<float>(y)));
}

TEST(ParallelFor, NeedsNvccOnAGpu) {
  if (num_gpus() == 0 || emulated_gpus()) GTEST_SKIP() << "needs a GPU";
  const Tensor y = zeros({3}, gpu(0));
  EXPECT_THAT(message_of<UnsupportedOnContext>([&] {
                parallel_for(
                    3, LOCUS_LAMBDA(int64_t i, float* to) { to[i] = 1; }, Writes<float>(y));
              }),
              AllOf(HasSubstr("are on gpu(0)"), HasSubstr("nvcc"), HasSubstr("LOCUS_LAMBDA")));
  EXPECT_THAT(values(y), ElementsAre(0, 0, 0));
}

}  // namespace
}  // namespace locus::test
