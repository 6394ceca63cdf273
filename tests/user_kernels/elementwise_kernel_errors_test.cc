// What ElementwiseKernel refuses: each error has its type, comes before anything is written, and
// says what was expected.
#include <cstdlib>

#include <locus/core/autograd.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/kernels.h>
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
using testing::StartsWith;

std::string refused(const char* in, const char* out, const char* name = "k") {
  return message_of<ValueError>([&] { ElementwiseKernel(in, out, "z = x;", name); });
}

TEST(ElementwiseKernelErrors, NamesOfKernels) {
  for (const char* name : {"1", "", "a-b", "a b", "while", "1a", "a::b"})
    EXPECT_THAT(refused("T x", "T z", name), StartsWith(std::string("ElementwiseKernel ") + name +
                                                        ": the name is no identifier"));
  EXPECT_NAMES_ITS_LINE(ElementwiseKernel("T x", "T z", "", "1"));
}

TEST(ElementwiseKernelErrors, AForgottenNameIsToldWhichTextsThereAre) {
  const char* const four = "four texts: inputs, outputs, body, name";
  const auto refused_three = [](const char* first, const char* second, const char* third) {
    return message_of<ValueError>([&] { ElementwiseKernel(first, second, third); });
  };
  EXPECT_THAT(refused_three("T x, T y", "T z", "z = x - y;"),
              AllOf(HasSubstr("the name is no identifier"), HasSubstr(four)));
  EXPECT_THAT(refused_three("T x", "z = x;", "k"), AllOf(HasSubstr("type T"), HasSubstr(four)));
  EXPECT_THAT(refused_three("f32 x", "z = x;", "k"),
              AllOf(HasSubstr("has no output"), HasSubstr(four)));
}

TEST(ElementwiseKernelErrors, ListsOfParameters) {
  EXPECT_THAT(refused("T", "T z"), HasSubstr("the parameter \"T\" is not of the form"));
  EXPECT_THAT(refused("raw x", "T z"), HasSubstr("the parameter \"raw x\" is not of the form"));
  EXPECT_THAT(refused("T x,", "T z"), HasSubstr("has an empty parameter"));
  EXPECT_THAT(refused("T x,,T y", "T z"), HasSubstr("has an empty parameter"));
  EXPECT_THAT(refused("T *x", "T z"), HasSubstr("pointers are for kernels with one list"));
  EXPECT_THAT(refused("T x;", "T z"), HasSubstr("is not of the form"));
  EXPECT_THAT(refused("complex64 x", "T z"),
              AllOf(HasSubstr("the type complex64"), HasSubstr("expected f32, f64")));
  EXPECT_THAT(refused("uint32 x", "T z"), HasSubstr("the type uint32"));
  EXPECT_THAT(refused("TT x", "T z"), HasSubstr("or one letter"));
  EXPECT_THAT(refused("T x", ""), HasSubstr("has no output"));
  std::string many = "T x";
  for (int k = 0; k < 24; ++k) many += ", T y" + std::to_string(k);
  EXPECT_THAT(refused(many.c_str(), "T z"), HasSubstr("26 parameters; expected at most 24"));
}

TEST(ElementwiseKernelErrors, NamesOfParameters) {
  EXPECT_THAT(refused("T i", "T z"), HasSubstr("the name i of the parameter \"T i\" is taken"));
  EXPECT_THAT(refused("T n", "T z"), HasSubstr("is taken"));
  EXPECT_THAT(refused("T _x", "T z"), HasSubstr("begins with _"));
  EXPECT_THAT(refused("T while", "T z"), HasSubstr("is no identifier"));
  EXPECT_THAT(refused("T 1x", "T z"), HasSubstr("is no identifier"));
  EXPECT_THAT(refused("T x, f32 x", "T z"), HasSubstr("is there twice"));
  EXPECT_THAT(refused("T z", "T z"), HasSubstr("is there twice"));
  EXPECT_THAT(refused("T x, f32 T", "T z"), HasSubstr("is also the type of \"T x\""));
  EXPECT_THAT(refused("i x", "T z"), HasSubstr("choose another letter"));
}

TEST(ElementwiseKernelErrors, NumbersOfOperands) {
  const ElementwiseKernel k("T x, T y", "T z", "z = x + y;", "pair");
  const Tensor x = ones({2});
  EXPECT_THAT(message_of<ValueError>([&] { k(x); }),
              StartsWith("pair: 1 operand; expected 2 (T x, T y), or 3 with T z"));
  EXPECT_THAT(message_of<ValueError>([&] { k(x, x, x, x); }), StartsWith("pair: 4 operands"));
  EXPECT_THAT(message_of<ValueError>([&] { k.run({x, x, x}); }), StartsWith("pair: 3 inputs"));
  EXPECT_THAT(message_of<ValueError>([&] {
                k.into({x, x}, {x, x});
              }),
              StartsWith("pair: 2 inputs and 2 outputs"));
  EXPECT_THAT(message_of<ValueError>([&] { k.into({x, x}, {}); }), StartsWith("pair: no outputs"));
  EXPECT_THAT(message_of<ValueError>([&] { k(x, x, 1); }), HasSubstr("z is a number"));
  EXPECT_THAT(message_of<EmptyTensor>([&] { k(x, Tensor()); }), HasSubstr("y"));
  EXPECT_NAMES_ITS_LINE(k(x));
  EXPECT_NAMES_ITS_LINE(k.run({x}));
  EXPECT_NAMES_ITS_LINE(k.run({}));
}

TEST(ElementwiseKernelErrors, SizesAndBlocks) {
  const ElementwiseKernel k("T x", "T z", "z = x;", "plain_copy");
  const Tensor x = ones({2});
  EXPECT_THAT(message_of<ValueError>([&] { k.run({x}, {.size = -2}); }), HasSubstr("size is -2"));
  for (int block : {-1, 1025})
    EXPECT_THAT(message_of<ValueError>([&] { k.run({x}, {.block_size = block}); }),
                HasSubstr("expected 1 to 1024"));
}

TEST(ElementwiseKernelErrors, Shapes) {
  const ElementwiseKernel k("T x, T y", "T z", "z = x + y;", "shapes");
  const Tensor x = ones({2, 3}), z = zeros({3});
  EXPECT_THAT(message_of<ShapeError>([&] { k(x, ones({2})); }),
              AllOf(StartsWith("shapes: x cpu(0) (2,3) f32, y cpu(0) (2,) f32"),
                    HasSubstr("could not be broadcast")));
  EXPECT_THAT(message_of<ShapeError>([&] { k(x, x, z); }),
              AllOf(HasSubstr("the output z has shape (3,)"), HasSubstr("expected (2,3)")));
  EXPECT_EQ(values(z), std::vector<double>(3));
}

TEST(ElementwiseKernelErrors, DTypes) {
  const ElementwiseKernel k("T x, T y", "T z", "z = x + y;", "dtypes");
  const Tensor x = ones({2}), y = ones({2}, f64);
  EXPECT_THAT(message_of<DTypeError>([&] { k(x, y); }),
              StartsWith("dtypes: T is f32 (x) and f64 (y); expected one dtype"));
  EXPECT_THAT(message_of<DTypeError>([&] { k(x, 1, y); }), HasSubstr("T is f64 (z) and f32 (x)"));
  const ElementwiseKernel fixed("float32 x", "T z", "z = x;", "fixed");
  EXPECT_THAT(message_of<DTypeError>([&] { fixed(y); }),
              AllOf(HasSubstr("fixed: x cpu(0) (2,) f64: expected f32"), HasSubstr("astype(f32)")));
  EXPECT_THAT(message_of<DTypeError>([&] { fixed(x); }),
              HasSubstr("the dtype T of \"T z\" is not known"));
}

TEST(ElementwiseKernelErrors, NumbersThatDoNotFit) {
  const ElementwiseKernel k("raw T x, T y", "T z", "z = x[i] + y;", "wide");
  const Tensor x = ones({2}, i64);
  EXPECT_THAT(message_of<ValueError>([&] {
                k.run({1, 2}, {.size = 2});
              }),
              HasSubstr("x is a number; expected a tensor for \"raw T x\""));
  EXPECT_THAT(message_of<ValueError>([&] {
                k.run({x, ~uint64_t{0}}, {.size = 2});
              }),
              HasSubstr("no integer dtype holds it"));
  EXPECT_THAT(message_of<ValueError>(
                  [&] { ElementwiseKernel("T x", "raw T z", "z[i] = x;", "not_given")(x); }),
              HasSubstr("is raw and is not made; give it"));
  std::string in = "T x0";
  for (int i = 1; i < 18; ++i) in += ", T x" + std::to_string(i);
  const ElementwiseKernel many(in, "T z", "z = x0;", "many_numbers");
  EXPECT_THAT(message_of<ValueError>([&] {
                many.run({x, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1});
              }),
              HasSubstr("17 numbers; expected at most 16"));
}

TEST(ElementwiseKernelErrors, MixedContexts) {
  const ElementwiseKernel k("T x, T y", "T z", "z is not C++", "mixed_contexts");
  const std::vector<Context> places = test::distinct_contexts();
  const Tensor x = ones({2}, places[0]), y = ones({2}, places[1]);
  EXPECT_THAT(message_of<ContextMismatch>([&] { k(x, y); }),
              AllOf(StartsWith("mixed_contexts: operands live on different contexts: x "),
                    HasSubstr("y.as_in_context(")));
  EXPECT_THAT(message_of<ContextMismatch>([&] { k(x, x, y); }), HasSubstr("z "));
  EXPECT_THAT(message_of<ContextMismatch>([&] { k(1, y, x); }), HasSubstr("y "));
}

TEST(ElementwiseKernelErrors, BodiesThatDoNotCompile) {
  const ElementwiseKernel k("T x", "T z", "T y = x;\nz = yy;", "unknown_name");
  const ElementwiseKernel in_preamble("T x", "T z", "z = twice(x);", "unknown_type",
                                      {.preamble = "\n\nflaot twice(float x) { return 2 * x; }"});
  for (Context c : contexts()) {
    const size_t used = memory_pool(c).stats().in_use;
    const Tensor x = ones({2}, c);
    EXPECT_THAT(message_of<SourceError>([&] { k(x); }),
                AllOf(StartsWith("unknown_name: "), ContainsRegex("unknown_name[:(]2"),
                      HasSubstr("yy"), HasSubstr(to_string(c))));
    EXPECT_THAT(message_of<SourceError>([&] { k(x); }), HasSubstr("yy"));  // again
    EXPECT_THAT(message_of<SourceError>([&] { in_preamble(x); }),
                AllOf(ContainsRegex("unknown_type: preamble[:(]3"), HasSubstr("flaot")));
    EXPECT_LE(memory_pool(c).stats().in_use, used + 1024);
    EXPECT_NAMES_ITS_LINE(k(x));
  }
}

TEST(ElementwiseKernelErrors, NoCompiler) {
  const char* const before = std::getenv("LOCUS_CXX");
  const std::string saved = before ? before : "";
  setenv("LOCUS_CXX", "/nonexistent/c++", 1);
  const ElementwiseKernel k("T x", "T z", "z = x + 12345;", "no_compiler");
  const Tensor x = ones({2}), z = zeros({2});
  EXPECT_THAT(message_of<UnsupportedOnContext>([&] { k(x, z); }),
              AllOf(StartsWith("no_compiler: cpu(0)"), HasSubstr("/nonexistent/c++")));
  EXPECT_NAMES_ITS_LINE(k(x));
  before ? setenv("LOCUS_CXX", saved.c_str(), 1) : unsetenv("LOCUS_CXX");
  EXPECT_EQ(values(z), std::vector<double>(2));
  EXPECT_EQ(values(k(x)), std::vector<double>(2, 12346));
}

TEST(ElementwiseKernelErrors, BracketsWithoutAPartner) {
  const auto refused_body = [](const char* body) {
    return message_of<ValueError>([&] { ElementwiseKernel("T x", "T z", body, "k"); });
  };
  EXPECT_THAT(refused_body("if (x > 0) { z = x"),
              HasSubstr("the body has a { without a } behind it"));
  EXPECT_THAT(refused_body("z = x; }"), HasSubstr("the body has a } without a { before it"));
  EXPECT_THAT(refused_body("z = (x];"), HasSubstr("the body has a ] without a [ before it"));
  ElementwiseKernel("T x", "T z", "z = x; // }", "k");
}

TEST(ElementwiseKernelErrors, OutputsThatTheBodyNeverSets) {
  const auto refused_body = [](const char* out, const char* body, const KernelOptions& options) {
    return message_of<ValueError>([&] { ElementwiseKernel("T x", out, body, "k", options); });
  };
  EXPECT_THAT(refused_body("T z", "x > 0 ? x : 0", {}),
              StartsWith("ElementwiseKernel k: the body never sets the output z; write z = ..."));
  EXPECT_THAT(refused_body("T y, raw T z", "y = x", {}), HasSubstr("write z[...] = ..."));
  EXPECT_THAT(refused_body("T z", "// z = x", {}), HasSubstr("never sets"));
  const ElementwiseKernel by_macro("T x", "T z", "SET(x)", "k",
                                   {.preamble = "#define SET(v) z = v"});
  EXPECT_THAT(values(by_macro(ones({2}))), testing::ElementsAre(1, 1));
}

TEST(ElementwiseKernelErrors, PyCudaForm) {
  const auto refused_list = [](const char* list) {
    return message_of<ValueError>([&] { ElementwiseKernel(list, "y[i] = 1;", "pointers"); });
  };
  EXPECT_THAT(refused_list("const int *x"),
              HasSubstr("has no output; expected one or more pointers"));
  EXPECT_THAT(refused_list("int x"), HasSubstr("has no output"));
  EXPECT_THAT(refused_list("T *x"), HasSubstr("the type T"));
  EXPECT_THAT(refused_list("int **x"), HasSubstr("is not of the form"));
  EXPECT_THAT(refused_list("int *"), HasSubstr("is no identifier"));
  const ElementwiseKernel k("const int *x, int *y, int a", "y[i] = x[i] + a;", "plus");
  const Tensor x = ones({3}, i32), y = zeros({3}, i32);
  EXPECT_THAT(message_of<ValueError>([&] { k(x, y); }), HasSubstr("plus: 2 inputs; expected 3"));
  EXPECT_THAT(message_of<ValueError>([&] { k(x, 1, 1); }), HasSubstr("y is a number"));
  EXPECT_THAT(message_of<ValueError>([&] { k(x, y, y); }), HasSubstr("a is a tensor"));
  EXPECT_THAT(message_of<ValueError>([&] { k(x, zeros({2}, i32), 1); }),
              HasSubstr("x has 3 elements and y has 2; expected equal sizes"));
  EXPECT_THAT(message_of<ShapeError>([&] {
                k(ones({2, 3}, i32).T(), zeros({2, 3}, i32), 1);
              }),
              AllOf(HasSubstr("expected a contiguous tensor for \"const int * x\""),
                    HasSubstr("pass contiguous(x)")));
  EXPECT_THAT(message_of<DTypeError>([&] { k(ones({3}), y, 1); }), HasSubstr("expected i32"));
  EXPECT_THAT(message_of<ValueError>([&] {
                k.run({x, y, 1}, {.size = 4});
              }),
              HasSubstr("expected at most as many"));
  EXPECT_THAT(message_of<ValueError>([&] { k.into({x, y, 1}, {}); }), HasSubstr("call of run()"));
  EXPECT_EQ(values(y), std::vector<double>(3));
}

TEST(ElementwiseKernelErrors, GradientsAreRefusedByBackward) {
  const ElementwiseKernel k("T x", "T z", "z = x * x;", "no_gradient");
  const Tensor x = ones({2});
  x.attach_grad();
  Tensor z;
  {
    autograd::Record record;
    z = k(x);
    EXPECT_THAT(message_of<Error>([&] { k(x, x); }), HasSubstr("no_gradient"));
  }
  EXPECT_THAT(message_of<Error>([&] { z.backward(); }),
              HasSubstr("kernel.with_gradient(gradient)"));
}

TEST(ElementwiseKernelErrors, SourceOfDTypes) {
  const ElementwiseKernel k("T x, U y", "T z", "z = x + T(y);", "text");
  EXPECT_THAT(k.source(cpu(0), {f16, i32}),
              AllOf(HasSubstr("using T = float"), HasSubstr("text_loop"), HasSubstr("<Half>"),
                    HasSubstr("<int32_t>"), HasSubstr("#line 1 \"text\"\nz = x + T(y);")));
  EXPECT_THAT(message_of<ValueError>([&] { k.source(cpu(0), {f32}); }),
              HasSubstr("1 dtypes; expected 2 or 3: T x, U y, T z"));
  EXPECT_THAT(message_of<DTypeError>([&] {
                k.source(cpu(0), {f32, f32, f64});
              }),
              HasSubstr("T is f64 (z) and f32 (x)"));
}

}  // namespace
}  // namespace locus
