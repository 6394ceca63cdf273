// invoke() by name: values of attributes, and errors before anything runs.
#include <locus/ops/named.h>

#include <locus/core/generator.h>
#include <locus/core/group.h>
#include <locus/ops/compare.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/gather.h>
#include <locus/ops/join.h>
#include <locus/ops/optim.h>
#include <locus/ops/order.h>
#include <locus/ops/random.h>
#include <locus/ops/rearrange.h>
#include <locus/ops/reduce.h>
#include <locus/ops/search.h>
#include <locus/ops/softmax.h>
#include <locus/ops/view.h>
#include "tests/fuse/same.h"
#include "tests/support/contexts.h"
#include "tests/support/expect_line.h"

namespace locus::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

Tensor x23() { return sample_values(cpu(), f32, {2, 3}); }

template <class E>
std::string error_of(const char* name, const ops::Inputs& in, const ops::Attributes& attributes) {
  return message_of<E>([&] { invoke(name, in, attributes); });
}

TEST(NamedCall, ConvertsToATensorOrTensors) {
  const Tensor x = x23();
  const Tensor y = invoke("softmax", {x}, {{"axis", 1}, {"temperature", 0.5}});
  expect_same(y, softmax(x, {.axis = 1, .temperature = .5}));
  const Tensors parts = invoke("split", {x}, {{"num_outputs", 3}});
  EXPECT_EQ(parts.size(), 3u);
  EXPECT_THAT(message_of<Error>([&] {
                static_cast<void>(Tensor(invoke("split", {x}, {{"num_outputs", 3}})));
              }),
              HasSubstr("3 results"));
}

TEST(NamedCall, TakesNumbersAsOperandsWithTheirKind) {
  const Tensor x = array({1, 2}).astype(i32);
  EXPECT_EQ(Tensor(invoke("add", {x, 2})).dtype(), i32);
  EXPECT_EQ(Tensor(invoke("add", {x, 2.})).dtype(), f64);
  EXPECT_THAT(values(invoke("subtract", {5, x})), ElementsAre(4, 3));
  EXPECT_THAT(values(invoke("where", {x == 1, x, -1})), ElementsAre(1, -1));
  EXPECT_THAT(error_of<Error>("add", {1, 2}, {}), HasSubstr("add: both operands are numbers"));
}

TEST(NamedCall, TakesTensorsAsAttributes) {
  const Tensor x = x23(), out = zeros({3});
  EXPECT_TRUE(Tensor(invoke("sum", {x}, {{"axis", 0}, {"out", out}})).is(out));
  expect_same(out, sum(x, 0));
  const Tensor clipped = x23(), wanted = x23(), length = full({1}, 5, f64);
  invoke("multi_clip_norm", {clipped}, {{"norm", length}, {"max_norm", 2}});
  multi_clip_norm({wanted}, length, 2);
  expect_same(clipped, wanted);
}

TEST(NamedCall, MovesBetweenContexts) {
  for (const Context c : distinct_contexts()) {
    const Tensor x = x23();
    EXPECT_EQ(Tensor(invoke("copyto", {x}, {{"ctx", to_string(c)}})).context(), c);
    EXPECT_EQ(Tensor(invoke("as_in_context", {x}, {{"ctx", c}})).is(x), c == cpu());
    EXPECT_EQ(Tensor(invoke("zeros", {}, {{"shape", 2}, {"ctx", c}})).context(), c);
  }
}

TEST(NamedCall, SaysWhichOpsAreNear) {
  EXPECT_EQ(error_of<Error>("sofmax", {x23()}, {}).substr(0, 52),
            "invoke: there is no op \"sofmax\"; near it: softmax (a");
  EXPECT_THAT(error_of<Error>("lss", {x23()}, {}), HasSubstr("less"));
  EXPECT_THAT(error_of<Error>("softmax_grad", {x23()}, {}), HasSubstr("internal"));
}

TEST(NamedCall, ChecksInputs) {
  const Tensor x = x23();
  EXPECT_THAT(error_of<Error>("softmax", {x, x}, {}),
              StartsWith("softmax: 2 inputs; expected 1: data"));
  EXPECT_THAT(error_of<Error>("dense", {x}, {}),
              StartsWith("dense: 1 input; expected 2 to 3: data, weight, bias"));
  EXPECT_THAT(error_of<ValueError>("softmax", {2}, {}),
              StartsWith("softmax: data is the number 2; expected a tensor"));
  EXPECT_THAT(error_of<EmptyTensor>("dense", {x, Tensor(), x}, {}),
              StartsWith("dense: weight is an empty Tensor"));
  EXPECT_THAT(error_of<EmptyTensor>("concat", {x, Tensor()}, {}), StartsWith("concat: data 1 is"));
}

TEST(NamedCall, LeavesOutOptionalInputs) {
  const Tensor x = x23(), weight = sample_values(cpu(), f32, {4, 3}, -2, 2, 1);
  expect_same(invoke("dense", {x, weight, Tensor()}), invoke("dense", {x, weight}));
}

TEST(NamedCall, TakesNoneAsAnAxisWithADefault) {
  const Tensor x = x23();
  expect_same(invoke("sort", {x}), sort(x));
  expect_same(invoke("sort", {x}, {{"axis", {}}}), sort(x, {.axis = std::nullopt}));
  EXPECT_THAT(error_of<ValueError>("sort", {x}, {{"axis", 1.5}}),
              StartsWith("sort: axis is 1.5; expected int|none"));
}

TEST(NamedCall, TakesANumberOrAList) {
  const Tensor x = x23();
  EXPECT_EQ(Tensor(invoke("quantile", {x}, {{"q", .5}})).shape(), Shape{});
  EXPECT_EQ(Tensor(invoke("quantile", {x}, {{"q", {.5}}})).shape(), Shape{1});
  EXPECT_EQ(invoke("split_v2", {x}, {{"indices_or_sections", 2}}).size(), 2u);
  EXPECT_EQ(invoke("split_v2", {x}, {{"indices_or_sections", {1}}}).size(), 2u);
  expect_same(invoke("pad", {x}, {{"pad_width", 1}}), pad(x, 1));
  expect_same(invoke("pad", {x}, {{"pad_width", {1, 0}}}), pad(x, {{1, 0}}));
  EXPECT_THAT(error_of<ValueError>("pad", {x}, {{"pad_width", {1, 0, 2}}}),
              StartsWith("pad: pad_width has 3 numbers"));
  expect_same(invoke("roll", {x}, {{"shift", 1}}), roll(x, 1));
  EXPECT_THAT(error_of<ValueError>("roll", {x}, {{"shift", {1, 2}}}),
              StartsWith("roll: shift has 2 numbers and axis is none"));
  expect_same(invoke("repeat", {x}, {{"repeats", {2, 0}}, {"axis", 0}}),
              repeat(x, array({2, 0}), 0));
  expect_same(invoke("rot90", {x}), rot90(x));
  EXPECT_THAT(error_of<ValueError>("rot90", {x}, {{"axes", 1}}),
              StartsWith("rot90: axes has 1 numbers"));
}

TEST(NamedCall, TakesABinCountOrEdges) {
  const Tensor x = x23();
  const Tensors got = invoke("histogram", {x}, {{"bins", 3}, {"range", {-1, 1}}});
  const auto [counts, edges] = histogram(x, 3, {.range = std::pair{-1, 1}});
  expect_same(got[0], counts);
  expect_same(got[1], edges);
  expect_same(Tensors(invoke("histogram", {x, edges}))[0], counts);
  EXPECT_THAT(error_of<ValueError>("histogram", {x}, {{"range", 1}}),
              StartsWith("histogram: range has 1 numbers; expected two"));
}

TEST(NamedCall, WritesAtIndicesOfSomeAxes) {
  const Tensor x = x23(), ids = array({2, 0});
  expect_same(invoke("index_put", {x, 7, Tensor(), ids}), index_put(x, {Tensor(), ids}, 7));
  expect_same(invoke("index_put", {x, 7, x > 0, Tensor()}), index_put(x, {x > 0}, 7));
}

TEST(NamedCall, DrawsPositionsOrEntries) {
  random::seed(5);
  const Tensor places = invoke("choice", {}, {{"a", 9}, {"size", 4}});
  random::seed(5);
  expect_same(places, random::choice(9, {4}));
  EXPECT_THAT(error_of<ValueError>("choice", {x23()}, {{"a", 2}}),
              StartsWith("choice: a, dtype and ctx are for positions"));
}

TEST(NamedCall, ChecksAttributes) {
  const Tensor x = x23();
  EXPECT_THAT(error_of<ValueError>("softmax", {x}, {{"axes", 1}}),
              StartsWith("softmax: there is no attribute \"axes\"; near it: axis; expected some of "
                         "axis: int = -1, temperature: float = 1"));
  EXPECT_THAT(error_of<ValueError>("exp", {x}, {{"axis", 1}}), HasSubstr("expected no attributes"));
  EXPECT_THAT(error_of<ValueError>("exp", {x}, {{"data", x}}),
              HasSubstr("near it: the input data"));
  EXPECT_THAT(error_of<ValueError>("softmax", {x}, {{"axis", 1.}}),
              StartsWith("softmax: axis is 1.; expected int"));
  EXPECT_THAT(error_of<ValueError>("softmax", {x}, {{"axis", true}}),
              StartsWith("softmax: axis is true; expected int"));
  EXPECT_THAT(error_of<ValueError>("softmax", {x}, {{"temperature", true}}),
              StartsWith("softmax: temperature is true; expected float"));
  EXPECT_THAT(error_of<ValueError>("softmax", {x}, {{"axis", int64_t{1} << 32}}),
              HasSubstr("expected an integer of 32 bits"));
  EXPECT_THAT(error_of<ValueError>("sum", {x}, {{"keepdims", 1}}),
              StartsWith("sum: keepdims is 1; expected bool"));
  EXPECT_THAT(error_of<ValueError>("sum", {x}, {{"axis", {0, 1.5}}}),
              StartsWith("sum: axis is [0, 1.5]; expected ints or none"));
  EXPECT_THAT(error_of<ValueError>("take", {x, x}, {{"mode", "fold"}}),
              StartsWith("take: mode is \"fold\"; expected raise|clip|wrap"));
  EXPECT_THAT(error_of<ValueError>("cast", {x}, {{"dtype", "f31"}}),
              StartsWith("cast: dtype is \"f31\"; expected dtype: f32, f64"));
  EXPECT_THAT(error_of<ValueError>("zeros", {}, {{"shape", 1}, {"ctx", "tpu(0)"}}),
              StartsWith("zeros: ctx is \"tpu(0)\"; expected a context such as cpu(0) or none"));
  EXPECT_THAT(error_of<ValueError>("split", {x}, {}),
              StartsWith("split: the attribute num_outputs is missing; expected num_outputs: int"));
  EXPECT_THAT(error_of<ValueError>("softmax", {x}, {{"axis", 0}, {"axis", 1}}),
              StartsWith("softmax: the attribute axis is given twice: 0 and 1"));
}

TEST(NamedCall, EmptyListsOfAxesReduceNothing) {
  const Tensor x = x23();
  expect_same(invoke("sum", {x}, {{"axis", std::vector<int>()}}), x);
  expect_same(invoke("sum", {x}, {{"axis", {}}}), sum(x));
}

TEST(NamedCall, ErrorsNameTheLineOfTheCall) {
  const Tensor x = x23();
  EXPECT_NAMES_ITS_LINE(invoke("softmax", {x}, {{"axes", 1}}));
  EXPECT_NAMES_ITS_LINE(invoke("softmax", {x}, {{"axis", 7}}));
}

TEST(NamedCall, ProgramsDefineFunctions) {
  ops::define("named_test_add(x, y = none, by: number = 2, kind: sum|max = sum) -> 1",
              [](const ops::Arguments& a) {
                const Tensor x = a.tensor(0), y = a.tensor(1);
                const ReduceOp kind = a["kind"];
                const Tensor z = y.defined() ? x + y : x;
                return kind == ReduceOp::sum ? add(z, Scalar(a["by"]).floating()) : z;
              })
      .made_of({"add"});
  const Tensor x = x23();
  expect_same(invoke("named_test_add", {x}), x + 2.);
  expect_same(invoke("named_test_add", {x, x}, {{"kind", "max"}}), x + x);
  EXPECT_EQ(ops::get("named_test_add").attributes[1].type, "sum|max");
  EXPECT_THAT(message_of<Error>([] { ops::define("exp(data)", nullptr); }), HasSubstr("already"));
  EXPECT_THAT(message_of<Error>([] { ops::alias("exp", "log"); }), HasSubstr("already"));
}

TEST(NamedCall, AnOperandThatWasLeftOutIsAnEmptyTensor) {
  ops::define("named_test_scale(x, by: operand = none)", [](const ops::Arguments& a) {
    return a.tensor(0) * a.operand(1);
  }).made_of({"multiply"});
  ops::define("named_test_beyond(x)", [](const ops::Arguments& a) {
    return a.tensor(0) * a.operand(1);
  }).made_of({"multiply"});
  const Tensor x = x23();
  expect_same(invoke("named_test_scale", {x, 3}), x * 3);
  EXPECT_THAT(error_of<EmptyTensor>("named_test_scale", {x}, {}),
              StartsWith("named_test_scale: multiply: rhs is"));
  EXPECT_THAT(error_of<Error>("named_test_beyond", {x}, {}),
              StartsWith("named_test_beyond: the function reads input 1, which its signature"));
}

TEST(NamedCall, AnOperandMayHaveADefault) {
  ops::define("named_test_shift(x, by: operand = 2)", [](const ops::Arguments& a) {
    return a.tensor(0) + a.operand(1);
  }).made_of({"add"});
  const Tensor x = x23();
  expect_same(invoke("named_test_shift", {x}), x + 2);
  expect_same(invoke("named_test_shift", {x, 5}), x + 5);
  EXPECT_EQ(Tensor(invoke("exponential", {}, {{"size", 3}})).shape(), Shape{3});
}

TEST(NamedCall, MasksSequencesIfAskedTo) {
  const Tensor x = ones({2, 2}), lengths = array({1, 0});
  expect_same(invoke("sequence_mask", {x, lengths}), x);
  expect_same(invoke("sequence_mask", {x, lengths}, {{"use_sequence_length", true}}),
              sequence_mask(x, lengths));
  EXPECT_THAT(error_of<EmptyTensor>("sequence_mask", {x}, {{"use_sequence_length", true}}),
              StartsWith("sequence_mask: sequence_length is"));
}

TEST(NamedCall, RefusesMalformedSignatures) {
  for (const char* signature :
       {"f", "f(", "(x)", "f(x y)", "f(x, x)", "f(a: int, x)", "f(a: whole)", "f(a: int = 1.5)",
        "f(a: raise|clip = fold)", "f(a: int = none, b: int|none = x)", "f(x = 1)",
        "f(x = none, y)", "f(x, *y)", "f(x) 2", "f(x) -> 0"})
    EXPECT_THAT(message_of<ValueError>([&] { ops::define(signature, nullptr); }),
                StartsWith(std::string("ops::define: signature \"") + signature + "\": expected"));
}

}  // namespace
}  // namespace locus::test
