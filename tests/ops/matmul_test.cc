#include <cmath>
#include <string>

#include <locus/core/kernel_list.h>
#include <locus/core/memory/storage.h>
#include <locus/core/op.h>
#include <locus/devices/cpu.h>
#include <locus/ops/copy.h>
#include <locus/ops/create.h>
#include <locus/ops/matmul.h>
#include <locus/ops/matmul/matmul_tiling.h>
#include <locus/ops/view.h>
#include "tests/support/contexts.h"
#include "tests/tape/gradcheck.h"

namespace locus {

namespace base {
extern const KernelList matmul;
}
namespace v3 {
extern const KernelList matmul;
}
namespace v4 {
extern const KernelList matmul;
}

namespace {

using test::values;

double epsilon(DType d) {
  return d == f64 ? 1e-12 : d == f32 ? 2e-6 : d == f16 ? 2e-3 : d == bf16 ? 1.6e-2 : 0;
}

// Checks row-major (m,k)·(k,n); the tolerance depends on the size of the terms.
void expect_product(const std::vector<double>& c, const std::vector<double>& a,
                    const std::vector<double>& b, int64_t m, int64_t n, int64_t k, DType d) {
  ASSERT_EQ(c.size(), static_cast<size_t>(m * n));
  const auto at = [](const std::vector<double>& v, int64_t i) { return v[static_cast<size_t>(i)]; };
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0, size = 0;
      for (int64_t l = 0; l < k; ++l) {
        const double term = at(a, i * k + l) * at(b, l * n + j);
        sum += term;
        size += std::fabs(term);
      }
      ASSERT_NEAR(at(c, i * n + j), sum, epsilon(d) * (1 + size)) << "at " << i << "," << j;
    }
}

class MatmulTest : public testing::Test {
 protected:
  template <class F>
  void on_all(F&& f) {
    for (Context c : test::contexts()) {
      SCOPED_TRACE(to_string(c));
      f(c);
    }
  }
};

TEST_F(MatmulTest, DotMultipliesMatricesOfEveryShape) {
  const int64_t shapes[][3] = {{1, 1, 1},     {1, 5, 7},      {7, 5, 1},     {1, 1, 300},
                               {64, 10, 128}, {64, 128, 10},  {127, 65, 33}, {33, 64, 129},
                               {2, 200, 3},   {256, 64, 200}, {1, 3, 5000},  {3, 1, 5000}};
  on_all([&](Context c) {
    for (const auto& [m, n, k] : shapes)
      for (DType d : {f32, f64}) {
        SCOPED_TRACE(to_string(Shape{m, n, k}) + name(d));
        const Tensor a = sample_values(c, d, {m, k}), b = sample_values(c, d, {k, n}, -2, 2, 1);
        const Tensor y = dot(a, b);
        EXPECT_EQ(y.shape(), (Shape{m, n}));
        EXPECT_EQ(y.context(), c);
        expect_product(values(y), values(a), values(b), m, n, k, d);
      }
  });
}

TEST_F(MatmulTest, SixteenBitAndIntegerTypes) {
  on_all([](Context c) {
    for (DType d : {f16, bf16, i32, i64, i8, u8}) {
      SCOPED_TRACE(name(d));
      const double low = d == u8 ? 0 : -2;
      const Tensor a = sample_values(c, d, {17, 9}, low, 2),
                   b = sample_values(c, d, {9, 13}, low, 2);
      const Tensor y = dot(a, b);
      EXPECT_EQ(y.dtype(), d);
      expect_product(values(y), values(a), values(b), 17, 13, 9, d);
    }
  });
}

TEST_F(MatmulTest, IntegersWrap) {
  on_all([](Context c) {
    const Tensor a = array({{100, 100}}, {c, i8}), b = array({{2}, {1}}, {c, i8});
    EXPECT_THAT(values(dot(a, b)), testing::ElementsAre(44));
    const Tensor x = array({{2147483647}}, {c, i32}), y = array({{2}}, {c, i32});
    EXPECT_THAT(values(dot(x, y)), testing::ElementsAre(-2));
  });
}

TEST_F(MatmulTest, AnEmptySumIsZero) {
  on_all([](Context c) {
    for (DType d : {f32, f64, f16, i32}) {
      const Tensor y = dot(zeros({3, 0}, {c, d}), zeros({0, 2}, {c, d}));
      EXPECT_THAT(values(y), testing::ElementsAre(0, 0, 0, 0, 0, 0)) << name(d);
    }
    EXPECT_EQ(dot(zeros({0, 3}, c), zeros({3, 2}, c)).shape(), (Shape{0, 2}));
  });
}

TEST_F(MatmulTest, ViewsOfAnyStridesAreRead) {
  on_all([](Context c) {
    for (DType d : {f32, f64, f16, i32}) {
      SCOPED_TRACE(name(d));
      const Tensor b = sample_values(c, d, {11, 5}, -2, 2, 1);
      const Tensor wide = sample_values(c, d, {12, 22}, -2, 2, 2);
      const Tensor views[] = {
          sample_values(c, d, {11, 6}).T(),                           // transposed
          wide(Slice(1, 7), Slice(3, 14)),                            // rows with gaps, unaligned
          wide(Slice(0, 11), Slice(2, 8)).T(),                        // columns with gaps
          wide(Slice(0, 6), Slice(0, 22, 2)),                         // gaps both ways
          wide(Slice(std::nullopt, std::nullopt, -2), Slice(0, 11)),  // flipped
          broadcast_to(wide(Slice(0, 1), Slice(0, 11)), {6, 11}),     // one row, six times
      };
      for (const Tensor& a : views) {
        ASSERT_EQ(a.shape(), (Shape{6, 11}));
        expect_product(values(dot(a, b)), values(a), values(b), 6, 5, 11, d);
        expect_product(values(dot(b.T(), a.T())), values(b.T()), values(a.T()), 5, 6, 11, d);
        // The op itself, without the copies of the front functions.
        const Tensor direct = invoke(get_op("matmul"), {b, a}, MatmulAttrs{true, true});
        expect_product(values(direct), values(b.T()), values(a.T()), 5, 6, 11, d);
      }
    }
  });
}

TEST_F(MatmulTest, TransposeFlagsSwapTheLastTwoAxes) {
  on_all([](Context c) {
    const Tensor a = sample_values(c, f32, {65, 34}), b = sample_values(c, f32, {34, 70}, -2, 2, 1);
    const std::vector<double> expected = values(dot(a, b));
    const Tensor at = copy(a.T()), bt = copy(b.T());
    for (bool ta : {false, true})
      for (bool tb : {false, true}) {
        const Tensor y = matmul(ta ? at : a, tb ? bt : b, MatmulAttrs{ta, tb});
        test::expect_near(values(y), expected, 1e-4, "product");
      }
  });
}

TEST_F(MatmulTest, DotContractsLastWithFirst) {
  on_all([](Context c) {
    const Tensor x = arange(24, {c, f64}).reshape({2, 3, 4}),
                 y = arange(8, {c, f64}).reshape({4, 2});
    const Tensor z = dot(x, y);
    EXPECT_EQ(z.shape(), (Shape{2, 3, 2}));
    EXPECT_THAT(values(z(1, 2)), testing::ElementsAre(268, 354));  // 20..23 times both columns
    const Tensor cube = arange(12, {c, f64}).reshape({2, 3, 2});
    EXPECT_EQ(dot(arange(2, {c, f64}), cube).shape(), (Shape{3, 2}));
    EXPECT_THAT(values(dot(arange(2, {c, f64}), cube)), testing::ElementsAre(6, 7, 8, 9, 10, 11));

    const Tensor v = arange(4, {c, f32});
    EXPECT_EQ(dot(v, v).ndim(), 0);
    EXPECT_EQ(dot(v, v).item<float>(), 14);
    EXPECT_THAT(values(dot(x, v)), testing::ElementsAre(14, 38, 62, 86, 110, 134));
    EXPECT_EQ(dot(v, v).dtype(), f32);
    EXPECT_EQ(dot(x, v).dtype(), f64) << "operands of two dtypes are promoted";
  });
}

TEST_F(MatmulTest, LongVectors) {
  on_all([](Context c) {
    const int64_t n = 200003;
    EXPECT_EQ(dot(ones({n}, c), ones({n}, c)).item<double>(), n);
    const Tensor rows = ones({3, n}, c);
    EXPECT_THAT(values(dot(rows, ones({n}, c))), testing::ElementsAre(n, n, n));
    EXPECT_THAT(values(dot(ones({n}, c), rows.T())), testing::ElementsAre(n, n, n));
  });
}

// f32 numbers whose rounded sums drift to one side. 3e-5 is the error of 300 additions.
TEST_F(MatmulTest, LongSumsAreAsExactAsShortOnes) {
  on_all([](Context c) {
    const double term = static_cast<double>(.1f) * static_cast<double>(.1f);
    const auto worst = [&](const Tensor& y, int64_t k) {
      double error = 0;
      for (double v : values(y))
        error = std::max(error, std::fabs(v / (term * static_cast<double>(k)) - 1));
      return error;
    };
    const int64_t k = 1000000;
    const Tensor v = full({k}, .1, {c, f32}), pairs = full({k, 2}, .1, {c, f32});
    const Tensor row = v.reshape({1, k}), three = full({k, 3}, .1, {c, f32});
    EXPECT_LT(worst(dot(v, v), k), 3e-5);
    EXPECT_LT(worst(dot(row, v.reshape({k, 1})), k), 3e-5);
    EXPECT_LT(worst(dot(pairs(Slice(), 1), pairs(Slice(), 0)), k), 3e-5) << "a column";
    EXPECT_LT(worst(dot(pairs(Slice(), 1), v), k), 3e-5);
    EXPECT_LT(worst(dot(row, three), k), 3e-5);
    EXPECT_LT(worst(dot(three.T(), pairs), k), 3e-5);
    EXPECT_LT(worst(dot(pairs.T(), three), k), 3e-5);
    EXPECT_LT(worst(matmul(v.reshape({4, 1, k / 4}), v.reshape({4, k / 4, 1})), k / 4), 3e-5);
    const Tensor wide = full({20003, 70}, .1, {c, f32});
    EXPECT_LT(worst(dot(wide.T(), wide), 20003), 3e-5);
  });
}

TEST_F(MatmulTest, LongSumsDoNotDependOnTheThreads) {
  const int threads = num_threads();
  const Tensor a = sample_values(cpu(), f32, {3, 100003}),
               b = sample_values(cpu(), f32, {100003, 5}, -2, 2, 1);
  std::vector<std::vector<float>> results;
  for (int n : {1, 2, 5}) {
    set_num_threads(n);
    results.push_back(dot(a, b).to_vector<float>());
    results.push_back(dot(b.T(), a.T()).T().to_vector<float>());
    results.push_back({dot(a[0], a[1]).item<float>()});
  }
  set_num_threads(threads);
  for (size_t i = 3; i < results.size(); ++i) EXPECT_EQ(results[i], results[i % 3]);
}

TEST_F(MatmulTest, PrecisionIsASettingThatTheCpuIgnores) {
  EXPECT_EQ(matmul_precision(), Precision::f32);
  const Tensor a = full({4, 4}, 1.0001, {f32});
  const std::vector<double> exact = values(dot(a, a));
  set_matmul_precision(Precision::tf32);
  EXPECT_EQ(matmul_precision(), Precision::tf32);
  EXPECT_EQ(values(dot(a, a)), exact);
  set_matmul_precision(Precision::f32);
}

TEST_F(MatmulTest, StacksBroadcastTheirBatchAxes) {
  on_all([](Context c) {
    for (DType d : {f32, f64, f16, i32}) {
      SCOPED_TRACE(name(d));
      const Tensor a = sample_values(c, d, {2, 1, 3, 4}),
                   b = sample_values(c, d, {5, 4, 6}, -2, 2, 1);
      const Tensor y = matmul(a, b);
      ASSERT_EQ(y.shape(), (Shape{2, 5, 3, 6}));
      for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 5; ++j)
          expect_product(values(y(i, j)), values(a(i, 0)), values(b[j]), 3, 6, 4, d);
      const Tensor z = matmul(swapaxes(b, 0, 2), sample_values(c, d, {1, 5, 2}, -2, 2, 3));
      EXPECT_EQ(z.shape(), (Shape{6, 4, 2}));
      expect_product(values(z[3]), values(b(Slice(), Slice(), 3).T()),
                     values(sample_values(c, d, {1, 5, 2}, -2, 2, 3)), 4, 2, 5, d);
    }
  });
}

TEST_F(MatmulTest, VectorsCountAsARowOrAColumn) {
  on_all([](Context c) {
    const Tensor stack = arange(12, {c, f64}).reshape({2, 2, 3});
    EXPECT_THAT(values(matmul(stack, arange(3, {c, f64}))), testing::ElementsAre(5, 14, 23, 32));
    const Tensor y = matmul(arange(2, {c, f64}), stack);
    EXPECT_EQ(y.shape(), (Shape{2, 3}));
    EXPECT_THAT(values(y), testing::ElementsAre(3, 4, 5, 9, 10, 11));
    EXPECT_EQ(matmul(arange(3, c), arange(3, c)).item<float>(), 5);
  });
}

TEST_F(MatmulTest, NanAndInfinityPropagate) {
  on_all([](Context c) {
    const double nan = std::nan(""), inf = INFINITY;
    const Tensor a = array({{nan, 1.0}, {inf, 1.0}, {1.0, 1.0}}, {c, f32});
    const Tensor y = dot(a, array({{0.0}, {1.0}}, {c, f32}));
    EXPECT_TRUE(std::isnan(values(y)[0]));
    EXPECT_TRUE(std::isnan(values(y)[1])) << "inf * 0";
    EXPECT_EQ(values(y)[2], 1);
  });
}

TEST_F(MatmulTest, GradientsOfBothOrders) {
  on_all([](Context c) {
    const auto x = [&](const Shape& s, int variant) {
      return sample_values(c, f64, s, -2, 2, variant);
    };
    using Binary = Tensor (*)(const Tensor&, const Tensor&);
    const auto check = [&](Binary f, const Shape& a, const Shape& b) {
      SCOPED_TRACE(to_string(a) + to_string(b));
      test::check_gradients([f](const Tensors& in) { return Tensors{f(in[0], in[1])}; },
                            {x(a, 0), x(b, 1)});
    };
    const Binary product = [](const Tensor& p, const Tensor& q) { return dot(p, q); };
    const Binary stacks = [](const Tensor& p, const Tensor& q) { return matmul(p, q); };
    check(product, {3, 4}, {4, 2});
    check(product, {4}, {4});
    check(product, {2, 3, 2}, {2, 2});
    check(stacks, {2, 1, 2, 3}, {2, 3, 2});
    check(stacks, {3}, {2, 3, 2});
    check([](const Tensor& a, const Tensor& b) { return dot(a.T(), b.T()); }, {4, 3}, {2, 4});
    for (bool ta : {false, true})
      for (bool tb : {false, true})
        test::check_gradients(
            [=](const Tensors& in) {
              return Tensors{matmul(in[0], in[1], MatmulAttrs{ta, tb})};
            },
            {x(ta ? Shape{4, 3} : Shape{3, 4}, 0), x(tb ? Shape{2, 4} : Shape{4, 2}, 1)});
  });
}

TEST_F(MatmulTest, ResultsRepeatBitForBit) {
  on_all([](Context c) {
    const Tensor a = sample_values(c, f32, {64, 784}),
                 b = sample_values(c, f32, {256, 784}, -2, 2, 1);
    const std::vector<float> first = dot(a, b.T()).to_vector<float>();
    for (int i = 0; i < 5; ++i) EXPECT_EQ(dot(a, b.T()).to_vector<float>(), first);
  });
}

TEST_F(MatmulTest, ErrorsNameTheShapes) {
  const Tensor a = zeros({2, 3}), b = zeros({4, 5});
  const std::string text = test::message_of<ShapeError>([&] { dot(a, b); });
  EXPECT_THAT(text, testing::HasSubstr("columns of the left operand (3)"));
  EXPECT_THAT(text, testing::HasSubstr("(4,5)"));
  EXPECT_THAT(text, testing::StartsWith("dot: "));
  EXPECT_THAT(test::message_of<ShapeError>([&] { matmul(a, b); }), testing::StartsWith("matmul: "));
  EXPECT_THAT(test::message_of<ShapeError>([&] {
                matmul(zeros({2, 3, 4}), zeros({3}));
              }),
              testing::StartsWith("matmul: "));
  EXPECT_THAT(test::message_of<ContextMismatch>([&] {
                dot(a, zeros({3, 2}, cpu(1)));
              }),
              testing::StartsWith("dot: operands live on different contexts"));
  EXPECT_THROW(dot(zeros({2, 3, 4}), zeros({3})), ShapeError);
  EXPECT_THROW(dot(zeros({}), a), ShapeError);
  EXPECT_THROW(matmul(zeros({2, 3, 4}), zeros({3, 4, 2})), ShapeError);
  EXPECT_THROW(dot(zeros({2, 2}, bool_), zeros({2, 2}, bool_)), DTypeError);
  EXPECT_THROW(invoke(get_op("matmul"), {a, zeros({3, 2}, f64)}, MatmulAttrs{}), DTypeError);
  EXPECT_THROW(dot(zeros({2, 2}, cpu(0)), zeros({2, 2}, cpu(1))), ContextMismatch);
}

#ifdef LOCUS_ALL_ISAS
// If the linker merged the copies of Eigen, some kernels would crash or be slow. The addresses show
// that they differ; calls show that they work.
TEST_F(MatmulTest, EachInstructionSetHasKernelsOfItsOwn) {
  const KernelList* lists[] = {&base::matmul, &v3::matmul, &v4::matmul};
  const Tensor a = sample_values(cpu(), f32, {37, 41}),
               b = sample_values(cpu(), f32, {41, 29}, -2, 2, 1);
  const Tensor y = zeros({37, 29});
  for (int isa = 0; isa < 3; ++isa) {
    const KernelEntry& entry = lists[isa]->entries[0];
    ASSERT_STREQ(entry.op, "matmul");
    for (int other = 0; other < isa; ++other)
      EXPECT_NE(entry.kernels[0], lists[other]->entries[0].kernels[0]);
    if (isa > static_cast<int>(cpu_isa())) continue;
    SCOPED_TRACE(name(static_cast<Isa>(isa)));
    const View in[] = {a.impl().view, b.impl().view};
    const MatmulAttrs attrs;
    entry.kernels[0](Call{in, &y.impl().view, 2, 1, &attrs, sizeof attrs, {}});
    expect_product(values(y), values(a), values(b), 37, 29, 41, f32);
  }
  EXPECT_EQ(get_op("matmul").kernel(DeviceType::cpu, f32),
            best_isa({{Isa::base, base::matmul}, {Isa::v3, v3::matmul}, {Isa::v4, v4::matmul}})
                .entries[0]
                .kernels[0]);
}
#endif

TEST(MatmulTilingTest, CutsCoverTheProduct) {
  for (int64_t m : {1, 10, 64, 256, 1000})
    for (int64_t n : {1, 10, 128, 784})
      for (int64_t k : {0, 1, 63, 784, 5000}) {
        const cuda::Tiling p = cuda::choose_tiling(m, n, k, 1, 132);
        SCOPED_TRACE(to_string(Shape{m, n, k}));
        EXPECT_GE(int64_t{p.tiles_m} * p.tile, m);
        EXPECT_GE(int64_t{p.tiles_n} * p.tile, n);
        EXPECT_GE(int64_t{p.splits} * p.k_split, k);
        EXPECT_LT(int64_t{p.splits - 1} * p.k_split, k > 0 ? k : 1) << "no empty part";
        EXPECT_EQ(p.k_split % (2048 / p.tile), 0);
      }
}

TEST(MatmulTilingTest, SmallProductsFillTheMachine) {
  EXPECT_GE(cuda::choose_tiling(64, 256, 784, 1, 132).blocks(), 100);
  EXPECT_GE(cuda::choose_tiling(256, 784, 64, 1, 132).blocks(), 100);
  EXPECT_EQ(cuda::choose_tiling(64, 256, 784, 8, 132).splits, 1) << "a batch shares no counters";
  EXPECT_TRUE(cuda::own_product(64, 256, 784, 1));
  EXPECT_FALSE(cuda::own_product(4096, 4096, 4096, 1));
  EXPECT_FALSE(cuda::own_product(1, 4096, 1024, 1)) << "one row";
  EXPECT_TRUE(cuda::own_product(16, 4096, 1024, 1)) << "a few rows";
}

}  // namespace
}  // namespace locus
