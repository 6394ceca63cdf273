// What ReductionKernel refuses: each error has its type, comes before anything is written, and says
// what was expected.
#include <locus/core/autograd.h>
#include <locus/ops/create.h>
#include <locus/ops/reduction_kernels.h>
#include <locus/ops/view.h>

#include "tests/support/contexts.h"
#include "tests/support/expect_line.h"

namespace locus {
namespace {

using test::contexts;
using test::message_of;
using test::values;
using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

std::string refused(const char* in, const char* out, const char* map = "x",
                    const char* reduce = "a + b", const char* name = "k") {
  return message_of<ValueError>([&] { ReductionKernel(in, out, map, reduce, "y = a", "0", name); });
}

TEST(ReductionKernelErrors, ListsNamesAndTexts) {
  EXPECT_THAT(refused("T x", "T y", "x", "a + b", "1"),
              AllOf(StartsWith("ReductionKernel 1: the name is no identifier"),
                    HasSubstr("map, reduce, post_map, identity, name")));
  EXPECT_THAT(refused("T x", ""), StartsWith("ReductionKernel k: has no output"));
  EXPECT_THAT(refused("raw T x", "T y"), HasSubstr("have none that is not raw"));
  EXPECT_THAT(refused("", "T y"), HasSubstr("have none that is not raw"));
  EXPECT_THAT(refused("T x", "raw T y"), HasSubstr("\"raw T y\" is raw; expected \"TYPE NAME\""));
  for (const char* taken : {"a", "b", "i", "n"})
    EXPECT_THAT(refused((std::string("T ") + taken).c_str(), "T y"),
                HasSubstr("is taken: the kernel has a, b, i, n itself"));
  EXPECT_THAT(refused("T x", "T y", " // x"), HasSubstr("the map text is empty; expected an"));
  EXPECT_THAT(refused("T x", "T y", "x", ""), HasSubstr("the reduce text is empty"));
  EXPECT_NAMES_ITS_LINE(ReductionKernel("T x", "", "x", "a", "", "", "k"));
  EXPECT_THAT(message_of<ValueError>(
                  [] { ReductionKernel("T x", "T y", "x * x", "a + b", "sqrt(a)", "0", "norm"); }),
              HasSubstr("norm: the post-map never sets the output y; write y = ..."));
  EXPECT_THAT(message_of<ValueError>([] {
                ElementwiseKernel("T x", "T y", "y = x;", "e", {.reduce_type = "double"});
              }),
              HasSubstr("has the reduce type double; expected none, or a ReductionKernel"));
}

const ReductionKernel& my_sum() {
  static const ReductionKernel k("T x", "T y", "x", "a + b", "y = a", "", "my_sum");
  return k;
}

// CuPy: TestReductionKernelInvalidAxis.
TEST(ReductionKernelErrors, Axes) {
  for (Context c : contexts()) {
    const Tensor x = ones({2, 3}, c), y = zeros({2}, c);
    EXPECT_THAT(message_of<ShapeError>([&] { my_sum()(x, {.axis = 2}); }),
                AllOf(StartsWith("my_sum: axis 2 is out of bounds for a tensor of 2 axes"),
                      HasSubstr("expected -2 to 1")));
    EXPECT_THAT(message_of<ShapeError>([&] { my_sum()(x, y, {.axis = -3}); }),
                HasSubstr("axis -3 is out of bounds"));
    EXPECT_THAT(message_of<ShapeError>([&] {
                  my_sum().run({x}, {.axis = {1, -1}});
                }),
                HasSubstr("axis -1 is given twice; expected distinct axes"));
    EXPECT_THAT(message_of<ShapeError>([&] { my_sum()(full({}, 1, c), {.axis = 0}); }),
                HasSubstr("expected a tensor with axes"));
    EXPECT_EQ(values(y), std::vector<double>(2));
    EXPECT_NAMES_ITS_LINE(my_sum()(x, {.axis = 2}));
    EXPECT_NAMES_ITS_LINE(my_sum().run({x}, {.axis = 2}));
    EXPECT_NAMES_ITS_LINE(my_sum().into({x}, {y}, {.axis = 2}));
  }
}

TEST(ReductionKernelErrors, AnAxisNeedsItsName) {
  const Tensor x = ones({2, 3});
  for (const std::string& text :
       {message_of<ValueError>([&] { my_sum()(x, 1); }), message_of<ValueError>([&] {
          my_sum().run({x, 1});
        })})
    EXPECT_THAT(text, AllOf(StartsWith("my_sum: operand 1 is the number 1; expected T x, and then "
                                       "tensors for T y or nothing"),
                            HasSubstr("for an axis write {.axis = 1}")));
}

TEST(ReductionKernelErrors, NoElementsWithoutAnIdentity) {
  for (Context c : contexts()) {
    const Tensor x = zeros({3, 0}, c), y = full({3}, 7, c);
    EXPECT_THAT(message_of<ShapeError>([&] { my_sum()(x, y, {.axis = 1}); }),
                AllOf(StartsWith("my_sum:"), HasSubstr("axis 1 has length 0; expected at least")));
    EXPECT_EQ(values(y), std::vector<double>(3, 7));
    EXPECT_EQ(my_sum()(x, {.axis = 0}).shape(), Shape({0}));
  }
}

TEST(ReductionKernelErrors, Operands) {
  const ReductionKernel two("T x, T y", "T z, T w", "x * y", "a + b", "z = a; w = n", "0", "two");
  const ReductionKernel with_raw("T x, raw T y", "T z", "x * y[0]", "a + b", "z = a", "0", "r");
  for (Context c : contexts()) {
    const Tensor x = ones({2, 3}, c), z = full({2}, 7, c), w = full({2}, 7, c);
    EXPECT_THAT(message_of<ValueError>([&] { two(x); }), HasSubstr("two: 1 operand; expected 2"));
    EXPECT_THAT(message_of<ValueError>([&] { two.run({x, x, x}); }), HasSubstr("3 inputs"));
    EXPECT_THAT(message_of<ValueError>([&] { two.into({x, x}, {z}); }), HasSubstr("1 output"));
    EXPECT_THAT(message_of<ValueError>([&] { two.into({x, x}, {}); }), HasSubstr("no outputs"));
    EXPECT_THAT(message_of<ValueError>([&] { two(x, x, {.out = z}); }), HasSubstr("1 output"));
    EXPECT_THAT(message_of<ValueError>([&] { two(1, 2); }),
                HasSubstr("no input that is not raw is a tensor"));
    EXPECT_THAT(message_of<ValueError>([&] { with_raw(2, x); }),
                HasSubstr("no input that is not raw is a tensor"));
    EXPECT_THAT(message_of<ValueError>([&] { with_raw(x, 2); }), HasSubstr("y is a number"));
    EXPECT_THAT(message_of<DTypeError>([&] { two(x, x.astype(i32)); }),
                HasSubstr("T is f32 (x) and i32 (y)"));
    EXPECT_THAT(message_of<ShapeError>([&] { two(x, ones({4}, c)); }),
                HasSubstr("could not be broadcast"));
    EXPECT_THAT(message_of<ShapeError>([&] {
                  two.into({x, x}, {z, zeros({3}, c)}, {.axis = 1});
                }),
                HasSubstr("the output w has shape (3,); expected (2,), the shape of the result"));
    EXPECT_THAT(message_of<ValueError>([&] {
                  two.into({x, x}, {z, w}, {.out = z});
                }),
                HasSubstr("expected one of them"));
    EXPECT_THROW(two(x, Tensor()), EmptyTensor);
    EXPECT_EQ(values(z), std::vector<double>(2, 7));
    EXPECT_EQ(values(w), std::vector<double>(2, 7));
  }
  EXPECT_THROW(two(ones({2}), ones({2}, cpu(1))), ContextMismatch);
}

// The compiler's messages have the lines of each text.
TEST(ReductionKernelErrors, TextsThatDoNotCompile) {
  const auto message = [](Context c, const char* map, const char* reduce, const char* post,
                          const char* identity) {
    const ReductionKernel k("T x", "T y", map, reduce, post, identity, "wrong");
    return message_of<SourceError>([&] { k(ones({2}, c)); });
  };
  for (Context c : contexts()) {
    EXPECT_THAT(message(c, "x *\n  xx", "a + b", "y = a", "0"),
                AllOf(StartsWith("wrong: does not compile for"), ContainsRegex("wrong: map[:(]2"),
                      HasSubstr("xx"), Not(HasSubstr("wrong: reduce"))));
    EXPECT_THAT(message(c, "x", "a + c", "y = a", "0"), ContainsRegex("wrong: reduce[:(]1"));
    EXPECT_THAT(message(c, "x", "a + b", "y = a;\ny = x;", "0"),
                ContainsRegex("wrong: post_map[:(]2"));
    EXPECT_THAT(message(c, "x", "a + b", "y = a", "zero"), ContainsRegex("wrong: identity[:(]1"));
    EXPECT_THAT(message(c, "x + i1", "a + b", "y = a", ""), HasSubstr("i1"));
  }
  EXPECT_THAT(message_of<SourceError>([] {
                ReductionKernel("T x", "T y", "x", "a + b", "y = a", "", "wrong",
                                {.reduce_type = "Pair"})(ones({2}));
              }),
              ContainsRegex("wrong: reduce_type[:(]1"));
  EXPECT_THAT(message_of<SourceError>([] {
                ReductionKernel("T x", "T y", "x", "a", "y = a.v[0]", "", "wrong",
                                {.preamble = "struct Wide { T v[33]; Wide(T x = 0) {} };",
                                 .reduce_type = "Wide"})(ones({2}));
              }),
              HasSubstr("the reduce type has at most 128 bytes"));
}

TEST(ReductionKernelErrors, HasNoGradient) {
  const Tensor x = ones({2});
  x.attach_grad();
  const autograd::Record record;
  const Tensor y = my_sum()(x);
  EXPECT_THAT(message_of<Error>([&] { y.backward(); }), HasSubstr("has no gradient"));
}

}  // namespace
}  // namespace locus
