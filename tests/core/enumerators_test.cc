// Numbers that are no enumerators are refused by the call that takes them.
#include <locus/nn/pipeline.h>
#include <locus/nn/plan.h>
#include <locus/ops/convolution.h>
#include <locus/ops/create.h>
#include <locus/ops/dense.h>
#include <locus/ops/matmul.h>
#include "tests/support/contexts.h"

namespace locus::test {
namespace {

using testing::HasSubstr;

template <class E>
E none() {
  return static_cast<E>(99);
}
void expect_refused(const char* named, const auto& f) {
  EXPECT_THAT(message_of<ValueError>(f), HasSubstr(named));
}

TEST(Enumerators, OfGradients) {
  const auto req = none<GradReq>();
  const Tensor x = ones({2});
  expect_refused("attach_grad: grad_req 99", [&] { x.attach_grad(req); });
  expect_refused("attach_grad: grad_req 99", [&] { x.attach_grad(ones({2}), req); });
  EXPECT_FALSE(x.has_grad());
  expect_refused("'p': grad_req 99", [&] { nn::Parameter("p", {2}, {.grad_req = req}); });
  const nn::Parameter p("p", {2});
  expect_refused("'p': grad_req 99", [&] { p.set_grad_req(req); });
  EXPECT_EQ(p.grad_req(), GradReq::write);
}

TEST(Enumerators, OfProducts) {
  const auto activation = none<FusedActivation>();
  const Tensor x = ones({2, 3}), image = ones({1, 1, 4, 4});
  expect_refused("activation 99", [&] { dense(x, x, {}, activation); });
  expect_refused("activation 99", [&] {
    convolution(image, ones({1, 1, 2, 2}), {}, {.activation = activation});
  });
  expect_refused("precision 99", [] { set_matmul_precision(none<Precision>()); });
  EXPECT_EQ(matmul_precision(), Precision::f32);
}

TEST(Enumerators, OfSchedules) {
  const auto schedule = none<nn::Schedule>();
  expect_refused("schedule 99", [&] { nn::Pipeline::order(schedule, 2, 2); });
  nn::Plan plan = nn::Plan::parse("plan-1\nlayers 0 on cpu(0)");
  plan.schedule = schedule;
  expect_refused("schedule 99", [&] { plan.check(1); });
  expect_refused("schedule 99", [&] { plan.text(); });
}

}  // namespace
}  // namespace locus::test
