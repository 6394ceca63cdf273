#include <locus/core/accumulate.h>
#include <locus/core/autograd.h>

#include <locus/core/tape/tape.h>
#include <locus/ops/activation.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/matmul.h>
#include <locus/ops/trigonometry.h>
#include <locus/ops/unary.h>
#include "tests/support/contexts.h"

namespace locus::test {
namespace {

std::vector<float> floats(const Tensor& x) { return x.to_vector<float>(); }

Tensor leaf(std::initializer_list<float> v, Context c = cpu(), GradReq req = GradReq::write) {
  Tensor x = array(v, c);
  x.attach_grad(req);
  return x;
}

template <class F>
Tensor recorded(F f) {
  const autograd::Record record;
  return f();
}

TEST(Autograd, RecordsOnlyInsideTheScope) {
  const Tensor x = leaf({1, 2});
  EXPECT_FALSE(autograd::is_recording());
  const Tensor outside = x * 2;
  EXPECT_THROW(outside.backward(), Error);
  {
    const autograd::Record record;
    EXPECT_TRUE(autograd::is_recording());
    EXPECT_TRUE(autograd::is_training());
    {
      const autograd::Pause pause;
      EXPECT_FALSE(autograd::is_recording());
      EXPECT_FALSE(autograd::is_training());
      EXPECT_FALSE(needs_grad((x * 2).impl()));
    }
    const autograd::PredictMode predict;
    EXPECT_TRUE(autograd::is_recording());
    EXPECT_FALSE(autograd::is_training());
  }
  EXPECT_FALSE(autograd::is_training());
}

TEST(Autograd, WriteOverwritesAndAddAccumulates) {
  for (Context c : contexts()) {
    const Tensor w = leaf({1, 2}, c), a = leaf({1, 2}, c, GradReq::add);
    for (int i = 0; i < 2; ++i) recorded([&] { return w * 3 + a * 3; }).backward();
    EXPECT_EQ(floats(w.grad()), (std::vector<float>{3, 3}));
    EXPECT_EQ(floats(a.grad()), (std::vector<float>{6, 6}));
    a.zero_grad();
    EXPECT_EQ(floats(a.grad()), (std::vector<float>{0, 0}));
  }
}

TEST(Autograd, NullKeepsNoGradient) {
  const Tensor x = leaf({1, 2}, cpu(), GradReq::null);
  EXPECT_THROW(x.grad(), Error);
  EXPECT_THROW(recorded([&] { return x * 2; }).backward(), Error);
}

TEST(Autograd, TheGradientsHandleStaysTheSame) {
  const Tensor x = leaf({1, 2});
  const Tensor g = x.grad();
  recorded([&] { return x * x; }).backward();
  EXPECT_TRUE(x.grad().is(g));
  EXPECT_EQ(floats(g), (std::vector<float>{2, 4}));
}

TEST(Autograd, GradientsOfTwoLeavesDoNotShareMemory) {
  const Tensor x = leaf({1, 2}), y = leaf({3, 4});
  recorded([&] { return x + y; }).backward();
  EXPECT_FALSE(x.grad().shares_memory_with(y.grad()));
  Tensor g = x.grad();
  g *= 5;
  EXPECT_EQ(floats(y.grad()), (std::vector<float>{1, 1}));
}

TEST(Autograd, AHeadGradientIsNeverTakenOver) {
  const Tensor x = leaf({1, 2}), head = array({5.f, 6.f});
  recorded([&] { return x + 0; }).backward({.head_gradient = head});
  EXPECT_FALSE(x.grad().shares_memory_with(head));
  EXPECT_EQ(floats(x.grad()), (std::vector<float>{5, 6}));
}

TEST(Autograd, TheGraphIsFreedUnlessRetained) {
  const Tensor x = leaf({1, 2}, cpu(), GradReq::add);
  const Tensor y = recorded([&] { return x * x; });
  y.backward({.retain_graph = true});
  y.backward();
  EXPECT_EQ(floats(x.grad()), (std::vector<float>{4, 8}));
  const std::string text = message_of<Error>([&] { y.backward(); });
  EXPECT_NE(text.find("retain_graph"), std::string::npos) << text;
}

TEST(Autograd, SumsTheGradientsOfEveryUse) {
  const Tensor x = leaf({1, 2, 3});
  recorded([&] {
    const Tensor a = x * 2, b = a * x;
    return a + b + x;
  }).backward();
  EXPECT_EQ(floats(x.grad()), (std::vector<float>{7, 11, 15}));
}

TEST(Autograd, ReducesBroadcastGradientsToTheInputsShape) {
  const Tensor x = array({{1.f, 2.f, 3.f}, {4.f, 5.f, 6.f}}), b = leaf({1, 2, 3});
  Tensor column = array({{1.f}, {2.f}});
  column.attach_grad();
  recorded([&] { return x * b + column; }).backward();
  EXPECT_EQ(floats(b.grad()), (std::vector<float>{5, 7, 9}));
  EXPECT_EQ(floats(column.grad()), (std::vector<float>{3, 3}));
  EXPECT_EQ(column.grad().shape(), (Shape{2, 1}));
}

TEST(Autograd, GivesHigherOrders) {
  const Tensor x = leaf({0.5f, 1});
  const Tensor third = recorded([&] {
    const Tensor y = exp(x * 2);
    const Tensor first = autograd::grad(y, {x}, {.create_graph = true})[0];
    const Tensor second = autograd::grad(first, {x}, {.create_graph = true})[0];
    return autograd::grad(second, {x}, {.create_graph = true})[0];
  });
  EXPECT_NEAR(third[0].item<float>(), 8 * std::exp(1.0), 1e-3);
}

TEST(Autograd, GradDoesNotTouchTheAttachedGradient) {
  const Tensor x = leaf({1, 2});
  const Tensor y = recorded([&] { return x * x; });
  EXPECT_EQ(floats(autograd::grad(y, {x})[0]), (std::vector<float>{2, 4}));
  EXPECT_EQ(floats(x.grad()), (std::vector<float>{0, 0}));
  EXPECT_FALSE(autograd::fresh_grad(x));
}

TEST(Autograd, GradTakesVariablesInsideTheGraph) {
  const Tensor x = leaf({1, 2});
  Tensor middle;
  const Tensor y = recorded([&] {
    middle = x * 3;
    return middle * middle;
  });
  EXPECT_EQ(floats(autograd::grad(y, {middle})[0]), (std::vector<float>{6, 12}));
}

TEST(Autograd, SaysWhichVariableIsNotUsed) {
  const Tensor x = leaf({1, 2}), other = leaf({1, 2});
  const Tensor y = recorded([&] { return x * x; });
  EXPECT_THROW(autograd::grad(y, {other}, {.retain_graph = true}), Error);
  EXPECT_FALSE(autograd::grad(y, {other}, {.allow_unused = true})[0].defined());
}

TEST(Autograd, EachHeadTakesAGradient) {
  const Tensor x = leaf({1, 2, 3});
  Tensor a, b;
  {
    const autograd::Record record;
    a = x * 2;
    b = x * x;
  }
  autograd::backward({a, b}, {.head_gradients = {array({1.f, 0.f, 1.f}), Tensor()}});
  EXPECT_EQ(floats(x.grad()), (std::vector<float>{4, 4, 8}));
}

TEST(Autograd, RefusesInPlaceOnWhatIsRecorded) {
  Tensor x = leaf({1, 2}), plain = array({1.f, 2.f});
  const autograd::Record record;
  EXPECT_THROW(x += 1, Error);
  EXPECT_THROW(x(0) = 3, Error);
  EXPECT_THROW(plain += x, Error);
  EXPECT_EQ(floats(x), (std::vector<float>{1, 2}));
  plain += 1;
  EXPECT_EQ(floats(plain), (std::vector<float>{2, 3}));
}

TEST(Autograd, RefusesASavedTensorThatChangedSince) {
  const Tensor x = leaf({1, 2});
  Tensor factor = array({3.f, 4.f});
  const Tensor y = recorded([&] { return x * factor; });
  factor += 1;
  const std::string text = message_of<Error>([&] { y.backward(); });
  EXPECT_NE(text.find("in place"), std::string::npos) << text;
}

TEST(Autograd, CrossesContexts) {
  const std::vector<Context> all = distinct_contexts();
  for (Context a : all) {
    for (Context b : all) {
      const Tensor x = leaf({0.5f, -1}, a);
      recorded([&] { return tanh(tanh(tanh(x).copyto(b)).copyto(a)).copyto(b); }).backward();
      const Tensor host = leaf({0.5f, -1});
      recorded([&] { return tanh(tanh(tanh(host))); }).backward();
      EXPECT_EQ(x.grad().context(), a);
      for (int i = 0; i < 2; ++i)
        EXPECT_NEAR(floats(x.grad())[size_t(i)], floats(host.grad())[size_t(i)], 1e-6);
    }
  }
}

TEST(Autograd, DetachLeavesTheGraph) {
  const Tensor x = leaf({1, 2});
  recorded([&] { return x * x.detach(); }).backward();
  EXPECT_EQ(floats(x.grad()), (std::vector<float>{1, 2}));
  EXPECT_TRUE(x.detach().shares_memory_with(x));
}

TEST(Autograd, TakesDownALongChainWithoutRecursion) {
  Tensor y = leaf({1});
  {
    const autograd::Record record;
    for (int i = 0; i < 200000; ++i) y = y + 1;
  }
  y = Tensor();
  SUCCEED();
}

TEST(Autograd, FreshnessIsClearedOnRequest) {
  const Tensor x = leaf({1, 2});
  recorded([&] { return x * 2; }).backward();
  EXPECT_TRUE(autograd::fresh_grad(x));
  autograd::mark_used(x);
  EXPECT_FALSE(autograd::fresh_grad(x));
}

TEST(Autograd, RefusesAHeadGradientOfAnotherShapeOrContext) {
  const Tensor x = leaf({1, 2});
  const Tensor y = recorded([&] { return x * 2; });
  EXPECT_THROW(y.backward({.head_gradient = ones({3})}), ShapeError);
  EXPECT_THROW(y.backward({.head_gradient = ones({2}, cpu(1))}), ContextMismatch);
}

TEST(Autograd, TakesAPinnedHeadGradientForAHostHead) {
  for (const Context c : {cpu(), cpu_pinned()}) {
    const Tensor x = leaf({1, 2}, c), head = array({5.f, 6.f}, c == cpu() ? cpu_pinned() : cpu());
    recorded([&] { return x * 2; }).backward({.head_gradient = head});
    EXPECT_EQ(floats(x.grad()), (std::vector<float>{10, 12}));
    EXPECT_EQ(x.grad().context(), c);
  }
}

TEST(Autograd, AGradientThatDoesNotDependOnItsVariableHasGradientZero) {
  for (Context c : contexts()) {
    const Tensor x = leaf({-1, 2}, c);
    for (const auto& f :
         {+[](const Tensor& v) { return v * 3; }, +[](const Tensor& v) { return relu(v); },
          +[](const Tensor& v) { return abs(v); }, +[](const Tensor& v) { return v + 0; }}) {
      const Tensor y = recorded([&] { return f(x); });
      const Tensor g = autograd::grad(y, {x}, {.create_graph = true})[0];
      EXPECT_EQ(floats(autograd::grad(g, {x}, {.retain_graph = true})[0]),
                (std::vector<float>{0, 0}));
      Tensor stale = x.grad();
      stale += 7;
      g.backward();
      EXPECT_EQ(floats(x.grad()), (std::vector<float>{0, 0}));
    }
  }
}

TEST(Autograd, MaterializesTheGradientOfAnUnusedVariable) {
  const Tensor x = leaf({1, 2}), other = leaf({1, 2, 3});
  const Tensor y = recorded([&] { return x * x; });
  const Tensors g = autograd::grad(y, {other, x}, {.materialize_grads = true});
  EXPECT_EQ(floats(g[0]), (std::vector<float>{0, 0, 0}));
  EXPECT_EQ(floats(g[1]), (std::vector<float>{2, 4}));
}

TEST(Autograd, AHookIsCalledOnceAGradientIsWritten) {
  const Tensor x = leaf({1, 2}), y = leaf({3, 4});
  std::vector<float> seen;
  autograd::set_grad_hook(x, [&] {
    EXPECT_TRUE(autograd::fresh_grad(x));
    autograd::mark_used(x);
    for (const float v : floats(x.grad())) seen.push_back(v);
  });
  const auto product = [&] { return recorded([&] { return x * y; }); };
  product().backward();
  EXPECT_EQ(std::exchange(seen, {}), (std::vector<float>{3, 4}));
  autograd::backward({product(), x});  // x is also a head
  EXPECT_EQ(std::exchange(seen, {}), (std::vector<float>{4, 5}));
  autograd::backward({x});  // x is only a head
  EXPECT_EQ(std::exchange(seen, {}), (std::vector<float>{1, 1}));
  autograd::grad(product(), {x});
  EXPECT_EQ(seen, std::vector<float>());
}

TEST(Autograd, WhatAHookThrowsBeforeAGradientIsWrittenLeavesItAsItIs) {
  for (const bool placed : {false, true}) {
    const Tensor x = full({1, 1}, 3), y = full({1, 1}, 2);
    if (placed)
      x.attach_grad(zeros({1, 1}));
    else
      x.attach_grad();
    const auto product = [&] { return recorded([&] { return dot(x, y); }); };
    product().backward();
    autograd::mark_used(x);
    int written = 0;
    autograd::set_grad_hook(
        x, [&] { ++written; }, [] { throw Error("not now"); });
    EXPECT_THROW(product().backward({.head_gradient = full({1, 1}, 7)}), Error);
    EXPECT_EQ(floats(x.grad()), std::vector<float>{2}) << placed;
    EXPECT_FALSE(autograd::fresh_grad(x));
    EXPECT_EQ(written, 0);
  }
}

TEST(Autograd, AHookMayTakeItselfAndOthersAway) {
  const Tensor x = leaf({1}), y = leaf({2});
  int called = 0;
  const std::vector<Tensor> both{x, y};
  for (const Tensor& t : both)
    autograd::set_grad_hook(t, [&called, both] {
      for (const Tensor& each : both) autograd::set_grad_hook(each, nullptr);
      called += static_cast<int>(both.size());
    });
  recorded([&] { return x * y; }).backward();
  EXPECT_EQ(called, 2);
  EXPECT_EQ(floats(x.grad()), std::vector<float>{2});
  EXPECT_EQ(floats(y.grad()), std::vector<float>{1});
}

}  // namespace
}  // namespace locus::test
