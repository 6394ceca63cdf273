// What compiled functions say about what they recorded.
#include <locus/core/compile.h>

#include <locus/core/autograd.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/unary.h>
#include "tests/contexts.h"

namespace locus::test {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

TEST(Compiled, CallsSayWhatTheyAreAndTake) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    Compiled f([](const Tensors& in) { return Tensors{exp(in[0]) + 1}; });
    f({ones({3}, c)});
    const std::vector<CompiledCall> calls = f.calls();
    ASSERT_EQ(calls.size(), 2);
    EXPECT_EQ(calls[0].op, "exp");
    EXPECT_EQ(calls[0].operands, "f32(3,) > f32(3,)");
    EXPECT_EQ(calls[0].bytes, 24);
    EXPECT_EQ(calls[0].graph, !is_host(c) && !emulated_gpus());
    EXPECT_THAT(calls[1].after, ElementsAre(0));
    for (const CompiledCall& call : calls) {
      EXPECT_EQ(call.context, c);
      EXPECT_EQ(call.from, call.to);
      EXPECT_EQ(call.part, 0);
      EXPECT_GT(call.us, 0);
    }
  }
}

TEST(Compiled, CallsOfTheGradientFollow) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor x = ones({3}, c);
    x.attach_grad();
    Compiled f([](const Tensors& in) { return Tensors{exp(tanh(in[0]))}; });
    Tensor y;
    {
      const autograd::Record record;
      y = f({x})[0];
    }
    y.backward();
    wait_all();
    const std::vector<CompiledCall> calls = f.calls();
    ASSERT_GT(calls.size(), 3);
    EXPECT_EQ(calls[1].part, 0);
    EXPECT_THAT(calls[1].after, ElementsAre(0));
    EXPECT_EQ(calls[2].part, 1);
    EXPECT_TRUE(calls[2].after.empty());
    EXPECT_EQ(calls.back().part, 1);
    EXPECT_THAT(calls.back().after, Contains(static_cast<int>(calls.size()) - 2));
  }
}

TEST(Compiled, CallsWaitForThoseOfOtherContexts) {
  LOCUS_NEEDS_ANY_GPUS(2);
  Compiled f([](const Tensors& in) {
    const Tensor x = in[0] + 1, y = in[1] + 1;
    return Tensors{x.copyto(gpu(1)) * y};
  });
  f({ones({3}, gpu(0)), ones({3}, gpu(1))});
  const std::vector<CompiledCall> calls = f.calls();
  ASSERT_EQ(calls.size(), 4);
  EXPECT_EQ(calls[0].context, gpu(0));
  EXPECT_EQ(calls[1].context, gpu(1));
  EXPECT_TRUE(calls[1].after.empty());
  EXPECT_EQ(calls[2].op, "copyto");
  EXPECT_EQ(calls[2].from, gpu(0));
  EXPECT_EQ(calls[2].to, gpu(1));
  EXPECT_THAT(calls[2].after, ElementsAre(0));
  EXPECT_THAT(calls[3].after, ElementsAre(1, 2));
  EXPECT_NE(calls[1].part, calls[3].part);
  const std::string dot = f.dot();
  EXPECT_THAT(dot, HasSubstr("n2 -> n3"));
  EXPECT_THAT(dot, Not(HasSubstr("n0 -> n1")));
}

}  // namespace
}  // namespace locus::test
