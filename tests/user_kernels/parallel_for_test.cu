// parallel_for in a file that nvcc compiles: on every context. Lambdas for nvcc may not stand in a
// test's body, which is a private member function.
#include <gtest/gtest.h>

#include <vector>

#include <locus/core/compile.h>
#include <locus/core/device.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/parallel_for.h>

namespace locus::test {
namespace {

void add_scaled(float a, const Tensor& x, const Tensor& y) {
  parallel_for(
      x.size(), LOCUS_LAMBDA(int64_t i, float* to, const float* from) { to[i] += a * from[i]; },
      Writes<float>(y), Reads<float>(x));
}

struct Twice {
  LOCUS_HD void operator()(int64_t i, double* to, const int64_t* from) const {
    to[i] = 2.0 * static_cast<double>(from[i]);
  }
};

std::vector<Context> all_contexts() {
  std::vector<Context> list{cpu()};
  for (const Context c : gpus(num_gpus())) list.push_back(c);
  return list;
}

TEST(ParallelForCuda, RunsLambdasInOrderWithOps) {
  for (const Context c : all_contexts()) {
    const Tensor x = arange(100000, c) * 3, y = ones({100000}, c);
    add_scaled(2, x, y);
    EXPECT_EQ((y - x * 2).to_vector<float>(), std::vector<float>(100000, 1)) << to_string(c);
  }
}

TEST(ParallelForCuda, RunsStructs) {
  for (const Context c : all_contexts()) {
    const Tensor x = array({1, 2, 3}, c).astype(i64), y = zeros({3}, c).astype(f64);
    parallel_for(3, Twice(), Writes<double>(y), Reads<int64_t>(x));
    EXPECT_EQ(y.to_vector<double>(), (std::vector<double>{2, 4, 6})) << to_string(c);
  }
}

TEST(ParallelForCuda, IsRecordedAndReplayed) {
  for (const Context c : all_contexts()) {
    Compiled f([](const Tensors& in) {
      const Tensor out = ones_like(in[0]);
      add_scaled(3, in[0], out);
      return Tensors{out * 2};
    });
    for (int k = 0; k < 3; ++k)
      EXPECT_EQ(f({full({2}, k, c)})[0].to_vector<float>(),
                std::vector<float>(2, static_cast<float>(2 + 6 * k)))
          << to_string(c);
  }
}

}  // namespace
}  // namespace locus::test
