// Errors about tensors that are in no graph.
#include <locus/core/autograd.h>
#include <locus/core/kernel.h>
#include <locus/core/op.h>
#include <locus/core/saved.h>
#include <locus/nn/block.h>
#include <locus/nn/layers.h>
#include <locus/ops/activation.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/matmul.h>
#include <locus/ops/reduce.h>
#include "tests/support/contexts.h"

namespace locus::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

Tensor leaf() {
  Tensor x = array({1.f, 2.f});
  x.attach_grad();
  return x;
}
template <class F>
Tensor recorded(F f) {
  const autograd::Record record;
  return f();
}
std::string refusal(const Tensor& head) {
  return message_of<Error>([&] { head.backward(); });
}

TEST(GraphWords, SayThatRecordWasForgotten) {
  const Tensor x = leaf();
  EXPECT_THAT(refusal((x * x).sum()), AllOf(HasSubstr("the head, cpu(0) () f32"),
                                            HasSubstr("outside of an autograd::Rec")));
  EXPECT_THAT(refusal(x.reshape({2, 1})), HasSubstr("outside of an autograd::Record"));
}

TEST(GraphWords, SayThatAttachGradWasForgotten) {
  const Tensor x = ones({2});
  EXPECT_THAT(refusal(recorded([&] { return (x * x).sum(); })),
              AllOf(HasSubstr("was recorded, but no tensor"), HasSubstr("attach_grad()")));
  const Tensor y = leaf();
  EXPECT_THAT(refusal(recorded([&] { return y.detach() * 2; })), HasSubstr("detach()"));
  EXPECT_THAT(refusal(ones({2})), HasSubstr("was not computed in an autograd::Record scope"));
}

TEST(GraphWords, SayThatAnUpdateMadeAnotherTensor) {
  Tensor w = leaf();
  recorded([&] { return (w * w).sum(); }).backward();
  w = w - .1 * w.grad();
  EXPECT_THAT(refusal(recorded([&] { return (w * w).sum(); })),
              AllOf(HasSubstr("w = w - step"), HasSubstr("w -= step")));
  EXPECT_THAT(message_of<Error>([&] { w.grad(); }), HasSubstr("w -= step"));
}

TEST(GraphWords, SayThatBackwardFreedTheGraph) {
  const Tensor x = leaf();
  const Tensor y = recorded([&] { return sigmoid(x * 2); });
  y.backward();
  EXPECT_THAT(refusal(y), AllOf(HasSubstr("sigmoid was freed"), HasSubstr("retain_graph = true")));
}

TEST(GraphWords, SayThatAnOpHasNoGradient) {
  const Tensor x = leaf();
  EXPECT_THAT(refusal(recorded([&] { return argmax(x * 2) * 1.f; })),
              HasSubstr("an op that has no gradient"));
}

TEST(GraphWords, NameTheVariable) {
  const Tensor x = leaf(), other = ones({3});
  const Tensor y = recorded([&] { return x * 2; });
  EXPECT_THAT(
      message_of<Error>([&] {
        autograd::grad(y, {x, other});
      }),
      AllOf(HasSubstr("autograd::grad: variable 1, cpu(0) (3,) f32"), HasSubstr("attach_grad()")));
  const Tensor frozen = ones({3});
  frozen.attach_grad(GradReq::null);
  EXPECT_THAT(refusal(frozen), HasSubstr("GradReq::null"));
}

TEST(GraphWords, TheGradientOfAResultIsAskedForByGrad) {
  const Tensor x = leaf();
  const Tensor y = recorded([&] { return sigmoid(x); });
  EXPECT_THAT(message_of<Error>([&] { y.grad(); }),
              AllOf(HasSubstr("a result of sigmoid"), HasSubstr("autograd::grad(head, {x})")));
}

Tensors reads_too_much(const Saved& saved, std::span<const Tensor> dout) {
  return {dout[0] * saved.in(0)};
}
DType same_infer(std::span<const Meta> in, const NoAttrs&, std::span<Meta> out) {
  out[0] = in[0];
  return in[0].dtype;
}
void copy_kernel(const Call& call) {
  for (int64_t i = 0; i < call.in[0].meta.size(); ++i)
    call.out[0].as<float>()[i] = call.in[0].as<float>()[i];
}

TEST(GraphWords, NameTheOpWhoseKeepIsTooShort) {
  static const Op& op = OpDef("test_short_keep", {"x"})
                            .infer<&same_infer>()
                            .gradient<&reads_too_much>(Keep::none)
                            .no_samples("a test's")
                            .kernel(DeviceType::cpu, f32, &copy_kernel);
  const Tensor x = leaf();
  EXPECT_THAT(refusal(recorded([&] { return invoke(op, {x}); })),
              AllOf(HasSubstr("the gradient of test_short_keep"), HasSubstr("Keep has nothing"),
                    HasSubstr("keep_input(i)")));
}

TEST(GraphWords, OutOfMemoryNamesTheOpAndItsOperands) {
  EXPECT_THAT(message_of<OutOfMemory>([] { zeros({int64_t{1} << 55}); }),
              testing::StartsWith("zeros: fill: "));
  const Tensor x = zeros({1 << 20, 1}), y = zeros({1, 1 << 20});  // 4 TB together
  EXPECT_THAT(message_of<OutOfMemory>([&] { x + y; }),
              testing::StartsWith("add: lhs cpu(0) (1048576,1) f32, rhs cpu(0) (1,1048576) f32"));
}

TEST(GraphWords, DotAndMatmulSayWhichTheyAre) {
  const Tensor a = ones({2, 3});
  EXPECT_THAT(message_of<ShapeError>([&] { dot(a, a); }), testing::StartsWith("dot: "));
  EXPECT_THAT(message_of<ShapeError>([&] { matmul(a, a); }), testing::StartsWith("matmul: "));
  EXPECT_THAT(message_of<ShapeError>([&] { matmul(a, ones({4})); }),
              testing::StartsWith("matmul: "));
  EXPECT_THAT(message_of<ContextMismatch>([&] {
                dot(a, ones({3, 2}, cpu(1)));
              }),
              testing::StartsWith("dot: "));
}

TEST(GraphWords, NameAChildThatWasNotAdded) {
  struct Net : nn::Block {
    nn::Dense hidden{3, {}, {.in_units = 2}}, output{1, {}, {.in_units = 3}};
    Net() { add_child("hidden", hidden); }
    Tensor forward(const Tensor& x) override { return output(hidden(x)); }
  };
  Net net;
  net.initialize();
  EXPECT_THAT(
      message_of<Error>([&] {
        net(ones({1, 2}));
      }),
      AllOf(HasSubstr("Dense(3 -> 1"), HasSubstr("Net calls this Dense, which is no child of it")));
}

}  // namespace
}  // namespace locus::test
