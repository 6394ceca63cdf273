// Results and gradients have the same bits for any number of host threads.
#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <locus/core/autograd.h>
#include <locus/devices/cpu.h>
#include <locus/ops/activation.h>
#include <locus/ops/compare.h>
#include <locus/ops/convolution.h>
#include <locus/ops/copy.h>
#include <locus/ops/create.h>
#include <locus/ops/dense.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/gather.h>
#include <locus/ops/index.h>
#include <locus/ops/linalg.h>
#include <locus/ops/norm.h>
#include <locus/ops/optim.h>
#include <locus/ops/pooling.h>
#include <locus/ops/random.h>
#include <locus/ops/reduce.h>
#include <locus/ops/softmax.h>
#include <locus/ops/view.h>
#include "tests/registry/run.h"
#include "tests/support/contexts.h"
#include "tests/tape/gradcheck.h"

namespace locus {
namespace {

using test::values;
using Function = std::function<Tensor(const Tensors&)>;

struct Threads {
  explicit Threads(int n) : before(num_threads()) { set_num_threads(n); }
  ~Threads() { set_num_threads(before); }
  int before;
};

// The result and the gradients of all inputs.
std::vector<std::vector<double>> all_of(const Function& f, const Tensors& in) {
  for (const Tensor& t : in) t.attach_grad();
  Tensor y;
  {
    const autograd::Record record;
    y = f(in);
  }
  y.backward({.head_gradient = sample_values(y.context(), y.dtype(), y.shape(), -1, 1, 9)});
  std::vector<std::vector<double>> all{values(y)};
  for (const Tensor& t : in) all.push_back(values(t.grad()));
  return all;
}

void expect_same_bits(const std::string& what, const Function& f, const std::vector<Shape>& shapes,
                      const std::vector<DType>& dtypes = {f32}) {
  for (DType d : dtypes) {
    Tensors in;
    for (const Shape& s : shapes)
      in.push_back(sample_values(cpu(), d, s, -2, 2, static_cast<int>(in.size())));
    std::vector<std::vector<double>> one;
    for (int threads : {1, 2, 3, 8}) {
      const Threads scope(threads);
      const auto here = all_of(f, in);
      if (threads == 1) one = here;
      for (size_t i = 0; i < one.size(); ++i)
        EXPECT_TRUE(here[i] == one[i])
            << what << " " << to_string(shapes[0]) << " " << name(d) << ": "
            << (i == 0 ? "result" : "gradient " + std::to_string(i - 1)) << " with " << threads
            << " threads";
    }
  }
}

TEST(ThreadBits, OfProducts) {
  const int64_t sizes[][3] = {{97, 83, 71},   {64, 256, 784}, {64, 784, 256}, {256, 784, 64},
                              {3001, 10, 40}, {10, 3001, 40}, {2, 5000, 64},  {5000, 3, 64},
                              {4, 4001, 64},  {1, 1500, 700}, {1500, 1, 700}, {33, 49, 5000},
                              {1, 1, 700000}, {600, 500, 17}, {129, 33, 300}, {1003, 17, 33},
                              {10, 128, 4096}};
  for (const auto& [m, n, k] : sizes) {
    const std::vector<DType> dtypes =
        m * n * k < 2'000'000 ? std::vector{f32, f64, f16, bf16} : std::vector{f32, f64};
    for (const bool ta : {false, true})
      for (const bool tb : {false, true})
        expect_same_bits(
            "matmul",
            [&](const Tensors& in) {
              return matmul(in[0], in[1], MatmulAttrs{ta, tb});
            },
            {ta ? Shape{k, m} : Shape{m, k}, tb ? Shape{n, k} : Shape{k, n}}, dtypes);
    expect_same_bits(
        "dense",
        [](const Tensors& in) { return dense(in[0], in[1], in[2], FusedActivation::relu); },
        {{m, k}, {n, k}, {n}}, dtypes);
  }
  for (const int64_t batch : {2, 5, 9})
    expect_same_bits("matmul", [](const Tensors& in) { return matmul(in[0], in[1]); },
                     {{batch, 90, 70}, {batch, 70, 110}}, {f32, f64});
}

TEST(ThreadBits, OfSolutions) {
  const auto diagonal = [](const Tensor& a) {
    return eye(90, 0, 0, {a.context(), a.dtype()}) * 99;
  };
  const auto solved = [&](const Tensors& in) { return solve(in[0] + diagonal(in[0]), in[1]); };
  const auto triangular = [&](const Tensors& in) {
    return solve_triangular(in[0] + diagonal(in[0]), in[1], {.upper = true});
  };
  for (const Shape& right : {Shape{90, 300}, Shape{40, 90, 7}}) {
    expect_same_bits("solve", solved, {{90, 90}, right}, {f32, f64});
    expect_same_bits("solve_triangular", triangular, {{90, 90}, right});
  }
}

TEST(ThreadBits, OfEigenvectorsAndSingularVectors) {
  const auto vectors = [](const Tensors& in) { return eigh(in[0]).eigenvectors; };
  for (const Shape& shape : {Shape{150, 150}, Shape{3, 70, 70}})
    expect_same_bits("eigh", vectors, {shape}, {f32, f64});
  for (const Shape& shape : {Shape{200, 150}, Shape{3, 70, 90}})
    expect_same_bits("svd",
                     [](const Tensors& in) { return svd(in[0], {.full_matrices = false}).u; },
                     {shape}, {f32, f64});
}

TEST(ThreadBits, OfConvolutionsAndPooling) {
  for (const int64_t groups : {1, 2, 8})
    for (const int64_t images : {1, 5, 33})
      expect_same_bits("convolution",
                       [&](const Tensors& in) {
                         return convolution(
                             in[0], in[1], in[2],
                             {.padding = 1, .groups = groups, .activation = FusedActivation::relu});
                       },
                       {{images, 8, 21, 19}, {16, 8 / groups, 3, 3}, {16}}, {f32, f64, bf16});
  expect_same_bits(
      "deconvolution",
      [](const Tensors& in) { return deconvolution(in[0], in[1], in[2], {.strides = 2}); },
      {{5, 8, 21, 19}, {8, 6, 3, 3}, {6}});
  const Shape images{9, 16, 61, 59};
  expect_same_bits(
      "max_pool",
      [](const Tensors& in) { return max_pool(in[0], 3, {.strides = 2, .padding = 1}); }, {images},
      {f32, bf16});
  expect_same_bits(
      "avg_pool",
      [](const Tensors& in) { return avg_pool(in[0], 3, {.strides = 2, .padding = 1}); }, {images},
      {f32, bf16});
  expect_same_bits("global_avg_pool", [](const Tensors& in) { return global_avg_pool(in[0]); },
                   {images});
  expect_same_bits("adaptive_avg_pool",
                   [](const Tensors& in) { return adaptive_avg_pool(in[0], 7); }, {images});
}

TEST(ThreadBits, OfReductionsAndNormalizations) {
  const std::vector<DType> dtypes = {f32, f64, f16};
  for (const Shape& s : {Shape{500, 1001}, Shape{3, 200003}, Shape{200003, 3}})
    for (const Axes& axis : {Axes{}, Axes{0}, Axes{1}}) {
      const auto reduction = [&](const char* what,
                                 Tensor (*f)(const Tensor&, const ReduceOptions&, Caller)) {
        expect_same_bits(
            what, [&](const Tensors& in) { return f(in[0], {.axis = axis}, Caller::here()); }, {s},
            dtypes);
      };
      reduction("sum", sum);
      reduction("mean", mean);
      reduction("max", max);
      reduction("logsumexp", logsumexp);
      expect_same_bits("var", [&](const Tensors& in) { return var(in[0], {.axis = axis}); }, {s});
      expect_same_bits("norm", [&](const Tensors& in) { return norm(in[0], {.axis = axis}); }, {s});
    }
  expect_same_bits("softmax", [](const Tensors& in) { return softmax(in[0]); }, {{3000, 101}});
  expect_same_bits("log_softmax", [](const Tensors& in) { return log_softmax(in[0], {.axis = 0}); },
                   {{3000, 101}});
  expect_same_bits(
      "layer_norm", [](const Tensors& in) { return layer_norm(in[0], in[1], in[2]); },
      {{3001, 130}, {130}, {130}}, dtypes);
  expect_same_bits("rms_norm", [](const Tensors& in) { return rms_norm(in[0], in[1]); },
                   {{3001, 130}, {130}});
  expect_same_bits(
      "group_norm",
      [](const Tensors& in) { return group_norm(in[0], in[1], in[2], {.num_groups = 4}); },
      {{17, 16, 61, 9}, {16}, {16}});
  expect_same_bits("batch_norm",
                   [](const Tensors& in) {
                     return batch_norm(in[0], in[1], in[2], zeros({16}, in[0].context()),
                                       ones({16}, in[0].context()));
                   },
                   {{17, 16, 61, 9}, {16}, {16}});
}

TEST(ThreadBits, OfElementsAndIndices) {
  const Shape s{700, 401};
  expect_same_bits("add", [](const Tensors& in) { return in[0] * in[1] + in[0] / 3; }, {s, {401}},
                   {f32, f64, bf16});
  expect_same_bits("take",
                   [](const Tensors& in) {
                     const Context c = in[0].context();
                     return take(in[0], arange(9000, {c, i64}) % 700);
                   },
                   {s}, {f32, bf16});
  for (int64_t places : {700, 300000})  // one thread adds, or each of them adds in its part
    expect_same_bits("index_add",
                     [&](const Tensors& in) {
                       const Tensor ids = arange(280700, {in[0].context(), i64}) * 7919 % places;
                       return index_add(zeros({places}, {in[0].context(), in[0].dtype()}), 0, ids,
                                        in[0].reshape({280700}));
                     },
                     {s}, {f32, f64, bf16});
  expect_same_bits("masks", [](const Tensors& in) { return Tensor(in[0][in[0] > .5]); }, {s});
}

// Ops whose sample tensors can be replaced by equally long vectors.
TEST(ThreadBits, OfEveryOpOfLongVectors) {
  constexpr int64_t kLength = 100003;
  int walked = 0;
  for (const Op* op : test::every_op()) {
    if (op->no_samples != nullptr || op->in_place || !op->samples) continue;
    for (DType d : {f32, f64, bf16}) {
      if (!op->function && !op->make_view && !op->kernel(DeviceType::cpu, d)) continue;
      const Samples samples = op->samples(cpu(), d);
      if (samples.empty()) continue;
      Tensors in;
      for (const Tensor& t : samples[0].inputs)
        in.push_back(
            sample_values(cpu(), t.dtype(), {kLength}, .1, .9, static_cast<int>(in.size())));
      std::vector<std::vector<double>> one;
      for (int threads : {1, 2, 3, 8}) {
        const Threads scope(threads);
        std::vector<std::vector<double>> here;
        try {
          for (const Tensor& y : test::run(*op, in, samples[0].attrs, cpu()))
            here.push_back(values(y));
        } catch (const Error&) {
          EXPECT_EQ(threads, 1) << op->name;
          break;
        }
        if (threads == 1) one = here;
        walked += threads == 1;
        for (size_t i = 0; i < one.size(); ++i)
          for (size_t k = 0; k < one[i].size(); ++k)
            if (std::memcmp(&here[i][k], &one[i][k], sizeof(double)) != 0) {
              ADD_FAILURE() << op->name << " " << name(d) << ", element " << k << " with "
                            << threads << " threads";
              break;
            }
      }
    }
  }
  EXPECT_GT(walked, 150);
}

// Ops without a gradient.
TEST(ThreadBits, OfUpdatesAndRandomNumbers) {
  std::vector<std::vector<double>> one;
  for (int threads : {1, 2, 3, 8}) {
    const Threads scope(threads);
    std::vector<std::vector<double>> here;
    const Tensor w = sample_values(cpu(), f32, {300001}), g = sample_values(cpu(), f32, {300001});
    const Tensor mean = zeros({300001}), var = zeros({300001});
    adam_update({w}, {g}, {{mean}, {var}}, AdamUpdate{});
    lamb_update({w}, {g}, {{mean}, {var}}, LambUpdate{});
    multi_clip_norm({w, g}, pow(sum(multi_sum_sq({w, g})), .5), 1);
    for (const Tensor& t : {w, g, mean, var}) here.push_back(values(t));
    random::seed(3);
    here.push_back(values(random::normal(0, 1, {300001})));
    here.push_back(values(random::uniform(0, 1, {300001})));
    if (threads == 1) one = here;
    EXPECT_TRUE(here == one) << threads << " threads";
  }
}

}  // namespace
}  // namespace locus
