// Values of ElementwiseKernel: types, numbers, raw operands, indices, layouts, sizes.
#include <cmath>
#include <limits>

#include <locus/core/memory/storage.h>
#include <locus/ops/compare.h>
#include <locus/ops/copy.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/kernels.h>
#include <locus/ops/view.h>

#include "tests/support/contexts.h"

namespace locus {
namespace {

using test::contexts;
using test::kernel_contexts;
using test::message_of;
using test::values;
using testing::ElementsAre;
using testing::HasSubstr;

Tensor numbers(Shape shape, TensorOptions o, double first = 0) {
  return arange(first, first + static_cast<double>(shape.size()), 1, o).reshape(shape);
}

TEST(ElementwiseKernel, ComputesOnEveryContext) {
  const ElementwiseKernel sqdiff("T x, T y", "T z", "z = (x - y) * (x - y);", "sqdiff");
  for (Context c : contexts()) {
    const Tensor x = array({1.0f, 2.0f, 5.0f}, c), y = array({0.0f, 4.0f, 2.0f}, c);
    const Tensor z = sqdiff(x, y);
    EXPECT_EQ(z.context(), c);
    EXPECT_EQ(z.dtype(), f32);
    EXPECT_THAT(values(z), ElementsAre(1, 4, 9));
  }
  EXPECT_EQ(sqdiff.name(), "sqdiff");
}

TEST(ElementwiseKernel, AnIntegerHasNoNegativeZero) {
  const ElementwiseKernel whole("T x", "T y", "y = T(int(x));", "whole");
  for (Context c : contexts())
    for (const double y : values(whole(full({100}, -0.5, c)))) EXPECT_FALSE(std::signbit(y));
}

TEST(ElementwiseKernel, TheLastSemicolonMayBeMissing) {
  for (Context c : contexts()) {
    const Tensor x = array({1, 2}, {c, i32}), y = zeros({2}, {c, i32});
    const ElementwiseKernel next("T x", "T y", "y = x + 1  // no semicolon", "next");
    EXPECT_THAT(values(next(x)), ElementsAre(2, 3));
    ElementwiseKernel("const int *x, int *y", "y[i] = x[i] + 1", "plus_one")(x, y);
    EXPECT_THAT(values(y), ElementsAre(2, 3));
  }
}

// CuPy: test_userkernel, test_manual_indexing.
TEST(ElementwiseKernel, RawOperandsAreIndexedByTheBody) {
  const ElementwiseKernel plain("T x, T y", "T z", "z = x + y;", "plain");
  const ElementwiseKernel raw("raw T x, raw T y", "raw T z", "z[i] = x[i] + y[i];", "manual");
  for (Context c : kernel_contexts())
    for (DType d : {f32, f64, f16, bf16, i32, i64, u8, i8}) {
      const Tensor x = numbers({4, 5}, {c, d}), y = numbers({4, 5}, {c, d}, 3);
      const Tensor z = zeros({4, 5}, {c, d});
      raw.into({x, y}, {z}, {.size = 20});
      EXPECT_EQ(values(z), values(plain(x, y))) << c << ' ' << name(d);
      EXPECT_EQ(values(z), values(x + y));
    }
}

TEST(ElementwiseKernel, RawOperandsOfAnyLayout) {
  const ElementwiseKernel turned(
      "raw T x", "T z", "z = x[i] + T(x.shape()[0] * 1000 + x.strides()[0] * 100);", "turned");
  for (Context c : kernel_contexts()) {
    const Tensor x = numbers({3, 4}, c);
    EXPECT_THAT(values(turned.run({x.T()}, {.size = 5})[0]),
                ElementsAre(4100, 4104, 4108, 4101, 4105));
    const Tensor z = zeros({4, 3}, c);
    ElementwiseKernel("raw T x", "raw T z", "z[i] = x[z.size() - 1 - i];", "reversed")
        .into({x.T()}, {z.T()}, {.size = 12});
    EXPECT_THAT(values(z.T().reshape({12})), ElementsAre(11, 7, 3, 10, 6, 2, 9, 5, 1, 8, 4, 0));
  }
}

TEST(ElementwiseKernel, SixteenBitElementsAreFloats) {
  const ElementwiseKernel k("T x, raw T w", "T y, raw T z",
                            "T t = x * w[i] + max(w[0], x); y = t; z[i] = w[i]; z[i] += 1;",
                            "halves");
  for (Context c : kernel_contexts())
    for (DType d : {f16, bf16}) {
      const Tensor x = array({1.0f, 2.0f, 3.0f}, {c, d}), w = array({2.0f, 0.5f, 4.0f}, {c, d});
      const Tensor y = zeros({3}, {c, d}), z = zeros({3}, {c, d});
      k.into({x, w}, {y, z});
      EXPECT_THAT(values(y), ElementsAre(4, 3, 15));
      EXPECT_THAT(values(z), ElementsAre(3, 1.5, 5));
    }
}

TEST(ElementwiseKernel, EveryDTypeByNameAndByLetter) {
  const std::pair<DType, const char*> names[] = {
      {f32, "float32"}, {f32, "float"}, {f64, "double"}, {f64, "f64"},    {f16, "float16"},
      {bf16, "bf16"},   {i32, "int"},   {i32, "int32"},  {i64, "int64"},  {i64, "long long"},
      {u8, "uint8"},    {u8, "u8"},     {i8, "int8_t"},  {bool_, "bool"}, {bool_, "bool_"}};
  for (const auto& [d, type] : names) {
    const std::string n = type;
    const ElementwiseKernel k(n + " x, T y", n + " z, T w", "z = x; w = y + y;", "both");
    for (Context c : kernel_contexts()) {
      const Tensor x = array({0.0, 1.0, 1.0}).as_in_context(c).astype(d);
      const Tensors out = k.run({x, x});
      ASSERT_EQ(out.size(), 2u);
      EXPECT_EQ(out[0].dtype(), d);
      EXPECT_EQ(out[1].dtype(), d);
      EXPECT_THAT(values(out[0]), ElementsAre(0, 1, 1)) << type;
      EXPECT_THAT(values(out[1]), ElementsAre(0, d == bool_ ? 1 : 2, d == bool_ ? 1 : 2)) << type;
    }
  }
}

TEST(ElementwiseKernel, MixedDTypes) {
  const ElementwiseKernel k("T x, bool mask, int64 k, U y", "U z, bool large",
                            "z = mask ? U(x) + k : y; large = x > 2;", "mixed");
  for (Context c : kernel_contexts()) {
    const Tensor x = array({1.0f, 2.0f, 3.0f, 4.0f}, c), y = full({4}, -1, {c, f64});
    const Tensor mask = (x > 1.5);
    const Tensors out = k.run({x, mask, 10, y});
    EXPECT_EQ(out[0].dtype(), f64);
    EXPECT_THAT(values(out[0]), ElementsAre(-1, 12, 13, 14));
    EXPECT_THAT(values(out[1]), ElementsAre(0, 0, 1, 1));
  }
}

// CuPy: TestUserkernelScalar.
TEST(ElementwiseKernel, NumbersHaveTheDTypeOfTheLetter) {
  const ElementwiseKernel add("T x, T y", "T z", "z = x + y;", "add_number");
  const int64_t kLeast = std::numeric_limits<int64_t>::min();
  for (Context c : kernel_contexts())
    for (DType d : {f32, f64, i32, i64, u8, i8})
      for (int64_t v :
           {int64_t{-1}, int64_t{1} << 32, std::numeric_limits<int64_t>::max(), kLeast}) {
        const Tensor x = numbers({2, 3, 4}, {c, d});
        const Tensor number = full({}, v, {c, i64}).astype(d);
        const Tensor z = add(x, v);
        EXPECT_EQ(z.dtype(), d);
        EXPECT_EQ(values(z), values(x + number)) << name(d) << ' ' << v;
        EXPECT_EQ(values(add(v, x)), values(z));
      }
}

TEST(ElementwiseKernel, NumbersAloneDecideTheDType) {
  const ElementwiseKernel k("T x, T y", "T z", "z = x + y + i;", "of_numbers");
  EXPECT_EQ(k.run({1.5, 1}, {.size = 3})[0].dtype(), f32);
  EXPECT_EQ(k.run({1, 2}, {.size = 3})[0].dtype(), i64);
  EXPECT_EQ(k.run({true, false}, {.size = 3})[0].dtype(), bool_);
  EXPECT_THAT(values(k.run({1, 2}, {.size = 3})[0]), ElementsAre(3, 4, 5));
  const ElementwiseKernel cast("uint8 x, bool b, f32 f", "uint8 y, bool c, f32 g",
                               "y = x; c = b; g = f;", "casts");
  const Tensors out = cast.run({257, 7, 1e300}, {.size = 1});
  EXPECT_THAT(values(out[0]), ElementsAre(1));
  EXPECT_THAT(values(out[1]), ElementsAre(1));
  EXPECT_THAT(values(out[2]), ElementsAre(std::numeric_limits<double>::infinity()));
  const Tensors saturated = cast.run({300.7, 0.0, 2}, {.size = 1});
  EXPECT_THAT(values(saturated[0]), ElementsAre(255));
}

TEST(ElementwiseKernel, TheBodySeesIndicesAndSizes) {
  const ElementwiseKernel k("T x", "int64 a, int64 b, int64 c, int64 d",
                            "a = i; b = n + _ind.size(); c = _ind.get()[0]; d = _ind.get()[1];",
                            "indices");
  for (Context c : kernel_contexts()) {
    const Tensor x = numbers({3, 2}, c);
    for (const Tensor& t : {x, x.T().copyto(c).T(), x(Slice(0, 3), Slice(0, 1)).T().T()}) {
      const int64_t columns = t.shape()[1];
      const Tensors out = k.run({t});
      for (int64_t i = 0; i < t.size(); ++i) {
        EXPECT_EQ(out[0].to_vector<int64_t>()[i], i);
        EXPECT_EQ(out[1].to_vector<int64_t>()[i], 2 * t.size());
        EXPECT_EQ(out[2].to_vector<int64_t>()[i], i / columns);
        EXPECT_EQ(out[3].to_vector<int64_t>()[i], i % columns);
      }
    }
    const Tensors one =
        ElementwiseKernel("T x", "T y", "y = x + _ind.get()[0];", "of_one").run({full({}, 3, c)});
    EXPECT_EQ(one[0].item<float>(), 3);
  }
}

TEST(ElementwiseKernel, Broadcasts) {
  const ElementwiseKernel k("T x, T y, T z", "T w", "w = x + 10 * y + 100 * z;", "broadcast");
  for (Context c : kernel_contexts()) {
    const Tensor x = numbers({3, 1}, c), y = numbers({4}, c), z = full({}, 1, c);
    const Tensor w = k(x, y, z);
    EXPECT_EQ(w.shape(), Shape({3, 4}));
    EXPECT_EQ(values(w), values(x + 10 * y + 100 * z));
    // An output takes part.
    const Tensor out = zeros({2, 3, 4}, c);
    EXPECT_TRUE(k(x, y, z, out).is(out));
    EXPECT_EQ(values(out(1)), values(w));
  }
}

TEST(ElementwiseKernel, NewOutputsKeepTheLayoutUnlessTheBodyCounts) {
  const ElementwiseKernel free_order("T x, T y", "T z", "z = x + y;", "free_order");
  const ElementwiseKernel ordered("T x, T y", "T z", "z = x + y + 0 * i;", "in_rows");
  for (Context c : kernel_contexts()) {
    const Tensor x = numbers({3, 4}, c).T();
    EXPECT_EQ(free_order(x, x).strides(), x.strides());
    EXPECT_EQ(ordered(x, x).strides(), (std::vector<int64_t>{3, 1}));
    EXPECT_EQ(values(free_order(x, x)), values(ordered(x, x)));
    EXPECT_EQ(values(free_order(x, x)), values(2 * x));
  }
}

TEST(ElementwiseKernel, WritesGivenOutputsOfAnyLayout) {
  const ElementwiseKernel k("T x", "T y, T z", "y = x + 1; z = x * 2;", "two");
  for (Context c : kernel_contexts())
    for (DType d : {f32, f16, i8}) {
      const Tensor x = numbers({4, 6}, {c, d}), all = zeros({8, 12}, {c, d}),
                   t = zeros({6, 4}, {c, d});
      const Tensor gaps = all(Slice(0, 8, 2), Slice(1, 12, 2));
      k.into({x}, {gaps, t.T()});
      EXPECT_EQ(values(gaps), values(x + 1));
      EXPECT_EQ(values(t.T()), values(x * 2));
      EXPECT_EQ(values(all(Slice(1, 8, 2))), std::vector<double>(48));
    }
}

TEST(ElementwiseKernel, OutputsMayBeInputsAndOverlapThem) {
  const ElementwiseKernel k("T x, T y", "T z", "z = x + 2 * y;", "over");
  for (Context c : kernel_contexts())
    for (DType d : {f32, bf16, i64}) {
      const Tensor x = numbers({5, 5}, {c, d});
      Tensor a = x.clone();
      k(a, a, a);
      EXPECT_EQ(values(a), values(x * 3));
      a = x.clone();
      k(a, a.T(), a);
      EXPECT_EQ(values(a), values(x + 2 * x.T()));
      a = x.clone();
      k(a(Slice(0, 4)), a(Slice(0, 4)), a(Slice(1, 5)));
      EXPECT_EQ(values(a(Slice(1, 5))), values(3 * x(Slice(0, 4))));
      a = x.clone();
      k(a(0), a(1), a(2));
      EXPECT_EQ(values(a(2)), values(x(0) + 2 * x(1)));
      a = x.clone();
      k(a(0), a, a);  // the first row, broadcast
      EXPECT_EQ(values(a), values(x(0) + 2 * x));
    }
  const ElementwiseKernel raw("raw T x", "raw T y", "y[i] = x[n - 1 - i];", "mirror");
  const Tensor x = numbers({1000}, f32);
  raw.into({x}, {x}, {.size = 1000});
  EXPECT_EQ(x.to_vector<float>().front(), 999);
  EXPECT_EQ(x.to_vector<float>().back(), 0);
}

TEST(ElementwiseKernel, OutputsThatTheBodyDoesNotSetKeepTheirValues) {
  const ElementwiseKernel k("T x", "T y, T z", "if (x > 2) y = x; z = 0; z += y;", "sometimes");
  for (Context c : kernel_contexts())
    for (DType d : {f32, f16, i32}) {
      const Tensor x = numbers({5}, {c, d}), y = full({10}, 7, {c, d})(Slice(0, 10, 2));
      const Tensor z = full({5}, 9, {c, d});
      k.into({x}, {y, z});
      EXPECT_THAT(values(y), ElementsAre(7, 7, 7, 3, 4));
      EXPECT_THAT(values(z), ElementsAre(7, 7, 7, 3, 4));
    }
}

// The memory of the new output may hold any bytes.
TEST(ElementwiseKernel, NewBoolsAreTrueOrFalse) {
  const ElementwiseKernel k("T x", "bool y", "if (x > 2) y = true;", "sometimes_true");
  const Tensor x = numbers({1000}, f32);
  full({1000}, 204, u8);
  const Tensor y = k(x);
  const auto* const bytes = static_cast<const uint8_t*>(y.impl().view.data);
  for (int i = 0; i < 1000; ++i) EXPECT_LE(bytes[i], 1);
}

// One axis on a GPU: packs, or elements at any alignment and stride.
TEST(ElementwiseKernel, OperandsOfOneAxis) {
  const ElementwiseKernel k("T x, T y, U z", "T v, U w", "v = x + y; w = z; w -= v;", "one_axis");
  for (Context c : kernel_contexts())
    for (DType d : {f32, f16, i8})
      for (int64_t n : {1, 7, 1000}) {
        const Tensor all = mod(numbers({2 * n + 1}, c), 50).astype(d), one = full({1}, 3, {c, d});
        const Tensor z = numbers({n}, {c, f64}), v = zeros({n + 1}, {c, d});
        const Tensor w = zeros({2 * n}, {c, f64});
        for (const Tensor& x : {all(Slice(0, n)), all(Slice(1, n + 1)), all(Slice(1, 2 * n + 1, 2)),
                                all(Slice(n - 1, {}, -1))}) {
          k.into({x, one, z}, {v(Slice(1, n + 1)), w(Slice(0, 2 * n, 2))});
          EXPECT_EQ(values(v(Slice(1, n + 1))), values(x + 3));
          EXPECT_EQ(values(w(Slice(0, 2 * n, 2))), values(z - (x + 3)));
        }
        EXPECT_EQ(values(v(Slice(0, 1))), values(zeros({1}, {c, d})));
        EXPECT_EQ(values(w(Slice(1, 2 * n, 2))), values(zeros({n}, {c, d})));
      }
}

TEST(ElementwiseKernel, EmptyTensorsAndTensorsOfOneElement) {
  const ElementwiseKernel k("T x, T y", "T z", "z = x + y;", "few");
  const ElementwiseKernel raw("raw T x", "raw T y", "y[i] = x[i];", "few_raw");
  for (Context c : contexts()) {
    EXPECT_EQ(k(zeros({0, 3}, c), ones({3}, c)).shape(), Shape({0, 3}));
    EXPECT_EQ(k(full({}, 2, c), full({}, 3, c)).item<float>(), 5);
    EXPECT_EQ(k(full({}, 2, c), 3).shape(), Shape());
    EXPECT_EQ(values(k(ones({1, 1, 1}, c), ones({1}, c))), std::vector<double>{2});
    const Tensor y = zeros({2}, c);
    raw.into({ones({2}, c)}, {y}, {.size = 0});
    EXPECT_THAT(values(y), ElementsAre(0, 0));
  }
}

TEST(ElementwiseKernel, ManyOperands) {
  std::string in = "T x0", sum = "z = x0";
  for (int k = 1; k < 23; ++k) {
    in += ", T x" + std::to_string(k);
    sum += " + x" + std::to_string(k);
  }
  const ElementwiseKernel k(in, "T z", sum + ";", "many");
  for (Context c : kernel_contexts()) {
    const Tensor x = numbers({700}, c), y = numbers({1400}, c)(Slice(0, 1400, 2));
    const Tensors out =
        k.run({x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, y});
    EXPECT_EQ(values(out[0]), values(24 * x));
    const Tensors of_numbers =
        k.run({x, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, x, x, x, x, x, x});
    EXPECT_EQ(values(of_numbers[0]), values(7 * x + 16));
  }
}

// CuPy: TestElementwiseKernelSize.
TEST(ElementwiseKernel, SizeIsGivenExactlyIfNoOperandDecidesIt) {
  const Tensor x = array({1.0f, 2.0f}), y = array({3.0f, 4.0f});
  const auto kernel = [](bool in, bool out) {
    return ElementwiseKernel(in ? "raw float32 x" : "float32 x",
                             out ? "raw float32 y" : "float32 y", "(void)y", "nothing");
  };
  struct Case {
    bool in_raw, out_raw, number, needs_size;
  };
  for (const Case& t : {Case{true, true, false, true}, Case{false, false, false, false},
                        Case{true, false, false, false}, Case{false, true, false, false},
                        Case{false, false, true, false}, Case{false, true, true, true}}) {
    const ElementwiseKernel k = kernel(t.in_raw, t.out_raw);
    const auto call = [&](const KernelCall& c) {
      if (t.number)
        k.into({7}, {y}, c);
      else
        k.into({x}, {y}, c);
    };
    call({.size = t.needs_size ? 2 : -1});
    const std::string text = message_of<ValueError>([&] { call({.size = t.needs_size ? -1 : 2}); });
    EXPECT_THAT(text, HasSubstr(t.needs_size ? "the loop's size is undecided" : "a size is given"));
  }
  EXPECT_EQ(kernel(true, false).run({x}, {.size = 5})[0].shape(), Shape({5}));
  EXPECT_EQ(kernel(false, false).run({1.0}, {.size = 3})[0].shape(), Shape({3}));
  EXPECT_EQ(kernel(false, false).run({x})[0].shape(), Shape({2}));
}

TEST(ElementwiseKernel, WithoutInputs) {
  const ElementwiseKernel k("", "float x, int64 y", "x = i * 0.5f; y = i;", "counted");
  for (Context c : contexts()) {
    const ContextScope scope(c);
    const Tensors out = k.run({}, {.size = 4});
    EXPECT_EQ(out[0].context(), c);
    EXPECT_THAT(values(out[0]), ElementsAre(0, .5, 1, 1.5));
    EXPECT_THAT(values(out[1]), ElementsAre(0, 1, 2, 3));
    const Tensor x = zeros({2, 2}, c), y = zeros({2, 2}, {c, i64});
    k.into({}, {x, y});
    EXPECT_THAT(values(y), ElementsAre(0, 1, 2, 3));
  }
}

TEST(ElementwiseKernel, ParametersMayHaveNamesThatLocusUses) {
  const ElementwiseKernel k("f32 jit, f32 locus, raw f32 kernel, f32 m, f32 a", "f32 names, f32 e",
                            "names = jit + locus + kernel[0] + m; e = a;", "body");
  for (Context c : kernel_contexts()) {
    const Tensor x = ones({3}, c);
    const Tensors out = k.run({x, x, x, x, 2});
    EXPECT_EQ(values(out[0]), std::vector<double>(3, 4));
    EXPECT_EQ(values(out[1]), std::vector<double>(3, 2));
  }
}

TEST(ElementwiseKernel, BlockSizes) {
  const ElementwiseKernel k("T x", "T y", "y = x + i;", "blocks");
  for (Context c : contexts())
    for (int block : {0, 1, 32, 100, 1024}) {
      const Tensor x = numbers({1000}, c);
      EXPECT_EQ(values(k.run({x}, {.block_size = block})[0]), values(2 * x)) << block;
    }
}

}  // namespace
}  // namespace locus
