// Each gradient has its own memory.
#include <functional>

#include <locus/core/autograd.h>
#include <locus/core/base/text.h>
#include <locus/core/compile.h>
#include <locus/core/kernel.h>
#include <locus/core/memory/storage.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/join.h>
#include <locus/ops/reduce.h>
#include <locus/ops/view.h>
#include "tests/support/contexts.h"

namespace locus::test {
namespace {

struct Case {
  const char* name;
  std::function<Tensor(const Tensor&, const Tensor&)> f;  // of two (2, 2) tensors
};
std::vector<Case> cases(Context c) {
  const auto twice =
      std::make_shared<Compiled>([](const Tensors& in) { return Tensors{in[0] + in[1]}; });
  return {
      {"add", [](auto& a, auto& b) { return a + b; }},
      {"concat",
       [](auto& a, auto& b) {
         return concat({a, b}, {.axis = 0});
       }},
      {"stack",
       [](auto& a, auto& b) {
         return stack({a, b}, {.axis = 0});
       }},
      {"reshape", [](auto& a, auto& b) { return a.reshape({4}) + b.reshape({4}); }},
      {"transpose", [](auto& a, auto& b) { return a.T() + b.T(); }},
      {"expand_dims", [](auto& a, auto& b) { return expand_dims(a, {0}) + expand_dims(b, {0}); }},
      {"as_in_context", [c](auto& a, auto& b) { return a.as_in_context(c) + b.as_in_context(c); }},
      {"sum", [](auto& a, auto& b) { return sum(a) + sum(b); }},
      {"itself", [](auto& a, auto&) { return a; }},
      {"a compiled function",
       [twice](auto& a, auto& b) {
         return (*twice)({a, b})[0];
       }},
  };
}

TEST(GradientMemory, GradGivesDenseTensorsThatShareWithNothing) {
  for (Context c : contexts())
    for (const bool create_graph : {false, true})
      for (const Case& one : cases(c)) {
        if (create_graph && std::string_view(one.name) == "a compiled function") continue;
        SCOPED_TRACE(text_of(one.name, " on ", c, create_graph ? ", create_graph" : ""));
        const Tensor a = ones({2, 2}, c), b = ones({2, 2}, c);
        a.attach_grad();
        b.attach_grad();
        Tensor z;
        {
          const autograd::Record record;
          z = one.f(a, b);
        }
        const Tensor head = ones(z.shape(), c);
        const Tensors g = autograd::grad(
            {z}, {a, b, a},
            {.head_gradients = {head}, .create_graph = create_graph, .materialize_grads = true});
        for (size_t i = 0; i < g.size(); ++i) {
          EXPECT_TRUE(g[i].contiguous());
          for (const Tensor& other : {a, b, z, head}) EXPECT_FALSE(g[i].shares_memory_with(other));
          for (size_t k = 0; k < i; ++k) EXPECT_FALSE(g[i].shares_memory_with(g[k]));
          g[i].detach() *= .5;
        }
        EXPECT_EQ(values(g[0]), std::vector<double>(4, .5));
        EXPECT_EQ(values(head), std::vector<double>(static_cast<size_t>(head.size()), 1));
      }
}

TEST(GradientMemory, BackwardGivesEachLeafItsOwn) {
  for (Context c : contexts())
    for (const GradReq req : {GradReq::write, GradReq::add})
      for (const Case& one : cases(c)) {
        SCOPED_TRACE(text_of(one.name, " on ", c, req == GradReq::add ? ", add" : ""));
        const Tensor a = ones({2, 2}, c), b = ones({2, 2}, c);
        a.attach_grad(req);
        b.attach_grad(req);
        Tensor z;
        {
          const autograd::Record record;
          z = one.f(a, b);
        }
        const Tensor head = ones(z.shape(), c);
        z.backward({.head_gradient = head});
        EXPECT_TRUE(a.grad().contiguous());
        for (const Tensor& other : {a, b, z, head, b.grad()})
          EXPECT_FALSE(a.grad().shares_memory_with(other));
        for (const Tensor& other : {a, b, z, head})
          EXPECT_FALSE(b.grad().shares_memory_with(other));
        EXPECT_EQ(values(a.grad()), std::vector<double>(4, 1));
      }
}

// A gradient in a graph does not keep its variable alive.
TEST(GradientMemory, ARecordedGradientIsFreedWithItsVariable) {
  for (Context c : contexts()) {
    std::weak_ptr<Storage> variable, gradient;
    {
      const Tensor x = ones({2}, c);
      x.attach_grad();
      Tensor y;
      {
        const autograd::Record record;
        y = x * x * x;
      }
      const Tensor g = autograd::grad(y, {x}, {.create_graph = true})[0];
      g.backward();
      EXPECT_EQ(values(x.grad()), std::vector<double>(2, 6));
      variable = x.impl().storage;
      gradient = g.impl().storage;
    }
    EXPECT_TRUE(variable.expired()) << c;
    EXPECT_TRUE(gradient.expired()) << c;
  }
}

}  // namespace
}  // namespace locus::test
