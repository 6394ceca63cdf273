// The error of an empty Tensor, which names the call and its operand, and its print.
#include <locus/core/base/empty_tensor.h>

#include <functional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <locus/core/autograd.h>
#include <locus/core/group.h>
#include <locus/core/io.h>
#include <locus/core/op.h>
#include <locus/nn/parameter.h>
#include <locus/ops/activation.h>
#include <locus/ops/collective.h>
#include <locus/ops/compare.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/index.h>
#include <locus/ops/matmul.h>
#include <locus/ops/reduce.h>
#include <locus/ops/softmax.h>
#include "tests/support/contexts.h"

namespace locus {
namespace {

using ::testing::StartsWith;

constexpr const char* kText =
    " is an empty Tensor (default-constructed or moved from); assign a tensor to it first";

struct Call {
  std::string begin;
  std::function<void()> run;
};

void expect_texts(const std::vector<Call>& calls) {
  for (const auto& [begin, call] : calls)
    EXPECT_THAT(test::message_of<EmptyTensor>(call), StartsWith(begin + kText));
}

TEST(EmptyTensorTest, OpsNameTheirOperand) {
  const Tensor e, x = ones({2, 3}), labels = array({0, 1});
  expect_texts({{"add: lhs", [&] { e + x; }},
                {"add: rhs", [&] { x + e; }},
                {"multiply: lhs", [&] { e * 2; }},
                {"relu: data", [&] { relu(e); }},
                {"where: condition", [&] { where(e, x, x); }},
                {"where: x", [&] { where(x > 0, e, x); }},
                {"where: y", [&] { where(x > 0, x, e); }},
                {"sum: data", [&] { sum(e); }},
                {"mean: data", [&] { mean(e); }},
                {"softmax: data", [&] { softmax(e); }},
                {"softmax_cross_entropy: data", [&] { softmax_cross_entropy(e, labels); }},
                {"softmax_cross_entropy: labels", [&] { softmax_cross_entropy(x, e); }},
                {"take: ids", [&] { take(x, e); }},
                {"dot: the right operand", [&] { dot(x, e); }},
                {"slice: data", [&] { e(0); }}});
}

TEST(EmptyTensorTest, InvokeNamesTheOperandThatIsEmpty) {
  const Tensor e, x = ones({2, 3});
  static const Op& op = *find_op("softmax_cross_entropy");
  const Ref in[] = {x, e};
  EXPECT_THAT(test::message_of<EmptyTensor>([&] { invoke_all(op, in); }),
              StartsWith("softmax_cross_entropy: " + op.arguments[1] + kText));
}

TEST(EmptyTensorTest, TensorsContainersAndFilesNameIt) {
  const Tensor e, x = ones({2, 3});
  Tensor y = ones({2, 3}), leaf = ones({2}), loss;
  leaf.attach_grad();
  {
    const autograd::Record record;
    loss = leaf * 2;
  }
  const Group g(std::vector<Context>{cpu(0), cpu(1)});
  nn::Parameter p("weight", {2, 3});
  p.initialize();
  const std::string file = testing::TempDir() + "empty_tensor_test";
  expect_texts({{"Tensor: this", [&] { e.shape(); }},
                {"copyto: source", [&] { e.copyto(cpu(1)); }},
                {"copyto: source", [&] { e.copyto(y); }},
                {"copyto: target",
                 [&] {
                   Tensor target;
                   x.copyto(target);
                 }},
                {"as_in_context: source", [&] { e.as_in_context(cpu(1)); }},
                {"assignment: values", [&] { y(0) = e; }},
                {"backward: head 0", [&] { e.backward(); }},
                {"autograd::grad: head 1",
                 [&] {
                   autograd::grad({loss, e}, {leaf});
                 }},
                {"attach_grad: data", [&] { e.attach_grad(); }},
                {"all_reduce: part 1 of [cpu(0), cpu(1)]",
                 [&] {
                   all_reduce(g, {ones({2}, cpu(0)), e});
                 }},
                {"broadcast: data", [&] { broadcast(g, e); }},
                {"Parameter 'weight': the argument of set_data", [&] { p.set_data(e); }},
                {"save: " + file + ": 'w'", [&] {
                   save(file, {{"w", e}});
                 }}});
}

TEST(EmptyTensorTest, PrintsLikeTheCallThatMakesOne) {
  std::ostringstream text;
  text << Tensor();
  EXPECT_EQ(text.str(), "Tensor()");
  Tensor x = ones({2});
  const Tensor taken = std::move(x);
  text << ' ' << x;  // NOLINT(bugprone-use-after-move)
  EXPECT_EQ(text.str(), "Tensor() Tensor()");
}

}  // namespace
}  // namespace locus
