#include "tests/support/contexts.h"

#include <sstream>

#include <locus/core/autograd.h>
#include <locus/core/generator.h>
#include <locus/core/kernel.h>
#include <locus/nn/data.h>
#include <locus/nn/init.h>
#include <locus/nn/parameter.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>

namespace locus {
namespace {

using nn::Parameter;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using Values = std::vector<double>;

TEST(Parameter, OneReplicaAndGradientAContext) {  // MXNet: test_gluon.py::test_parameter
  Parameter p("weight", {10, 10});
  p.initialize(init::Xavier(), {cpu(0), cpu(1)});
  EXPECT_EQ(p.list_data().size(), 2u);
  EXPECT_EQ(p.list_grad().size(), 2u);
  EXPECT_EQ(p.data(cpu(1)).context(), cpu(1));
  EXPECT_EQ(p.data(cpu(0)).shape(), (Shape{10, 10}));
  EXPECT_EQ(p.grad(cpu(1)).context(), cpu(1));
  p.reset_ctx({cpu(1), cpu(2)});
  EXPECT_THAT(p.list_ctx(), ElementsAre(cpu(1), cpu(2)));
  EXPECT_EQ(p.list_data()[1].context(), cpu(2));
}

TEST(Parameter, ReplicasHaveTheSameBitsOnEveryContext) {
  random::seed(3);
  Parameter one("weight", {7, 5});
  one.initialize(init::Uniform(), cpu());
  random::seed(3);
  Parameter all("weight", {7, 5});
  all.initialize(init::Uniform(), Contexts(test::distinct_contexts()));
  for (const Tensor& t : all.list_data()) EXPECT_EQ(test::values(t), test::values(one.data()));
}

TEST(Parameter, MovingKeepsTheBits) {
  Parameter p("weight", {3, 7});
  p.initialize(init::Uniform(), {cpu(0), cpu(1), cpu(2)});
  const Values before = test::values(p.data(cpu(0)));
  for (Context c : test::contexts()) {
    p.reset_ctx(c);
    EXPECT_EQ(p.data().context(), c);
    EXPECT_EQ(test::values(p.data()), before);
    EXPECT_EQ(test::values(p.grad()), Values(21, 0));
    p.reset_ctx({cpu(0), cpu(1), cpu(2)});
  }
}

TEST(Parameter, TheMeanOfEqualReplicasIsTheirValue) {
  Parameter p("weight", {200}, {.dtype = f64});
  p.initialize(init::Uniform(), {cpu(0), cpu(1), cpu(2)});
  Values v = test::values(p.data(cpu(0)));
  v[0] = INFINITY;
  v[1] = 1e308;
  p.set_data(array(v));
  EXPECT_EQ(test::values(p.mean_on_cpu()), v);
}

TEST(Parameter, ReadsBeforeInitializeSayWhatToDo) {
  Parameter p("0.weight", {2, 0});
  EXPECT_THAT(test::message_of<Error>([&] { p.data(); }),
              HasSubstr("Parameter '0.weight' has not been initialized. Note that you should"));
  p.initialize();
  EXPECT_TRUE(p.deferred());
  EXPECT_THAT(test::message_of<Error>([&] { p.data(); }),
              HasSubstr("has not been initialized yet because initialization was deferred"));
  EXPECT_THAT(test::message_of<Error>([&] { p.list_grad(); }), HasSubstr("deferred"));
  p.infer_shape({2, 3});
  EXPECT_EQ(p.data().shape(), (Shape{2, 3}));
  EXPECT_THROW(Parameter().data(), Error);
}

TEST(Parameter, AKnownLengthIsKept) {
  Parameter p("weight", {2, 0});
  EXPECT_THAT(test::message_of<ShapeError>([&] {
                p.infer_shape({3, 4});
              }),
              HasSubstr("expected all lengths of (2,None)"));
  EXPECT_THROW(p.infer_shape({2, 0}), ShapeError);
  EXPECT_THROW(p.infer_shape({2}), ShapeError);
  EXPECT_EQ(p.shape(), (Shape{2, 0}));
}

TEST(Parameter, AnotherContextIsRefusedByName) {
  Parameter p("0.weight", {2});
  p.initialize(init::Uniform(), cpu(0));
  EXPECT_THAT(test::message_of<ContextMismatch>([&] { p.data(cpu(1)); }),
              HasSubstr("Parameter '0.weight' was not initialized on context cpu(1). It was only "
                        "initialized on [cpu(0)]."));
  EXPECT_NO_THROW(gpu(99));
  EXPECT_THROW(p.grad(gpu(99)), ContextMismatch);
}

TEST(Parameter, PageLockedMemoryIsTheHosts) {
  Parameter p("weight", {2}), q("weight", {2});
  p.initialize(init::Uniform(), cpu_pinned());
  EXPECT_EQ(p.data(cpu(0)).context(), cpu_pinned());
  EXPECT_EQ(p.grad(cpu(0)).context(), cpu_pinned());
  q.initialize(init::Uniform(), {cpu(0), cpu_pinned()});
  EXPECT_EQ(q.data(cpu(0)).context(), cpu(0));
  EXPECT_EQ(q.data(cpu_pinned()).context(), cpu_pinned());
}

TEST(Parameter, WithSeveralReplicasTheCurrentContextDecides) {
  Parameter p("weight", {2});
  p.initialize(init::Uniform(), {cpu(1), cpu(2)});
  EXPECT_THROW(p.data(), ContextMismatch);
  const ContextScope scope(cpu(2));
  EXPECT_EQ(p.data().context(), cpu(2));
}

TEST(Parameter, AMissingDeviceIsReportedAtOnce) {
  Parameter p("weight", {2, 0});
  EXPECT_THROW(p.initialize(init::Uniform(), gpu(99)), DeviceError);
  EXPECT_FALSE(p.deferred());
}

TEST(Parameter, TheGlobalInitializerIsForWeights) {
  const auto values = [](const char* name) {
    Parameter p(name, {2});
    p.initialize(init::Constant(5), cpu());
    return test::values(p.data());
  };
  EXPECT_EQ(values("0.weight"), (Values{5, 5}));
  EXPECT_EQ(values("0.bias"), (Values{0, 0}));
  EXPECT_EQ(values("beta"), (Values{0, 0}));
  EXPECT_EQ(values("gamma"), (Values{1, 1}));
  EXPECT_THAT(test::message_of<Error>([&] { values("alpha"); }),
              HasSubstr("Unknown initialization pattern for alpha"));
  Parameter own("alpha", {2}, {.init = init::One()});
  own.initialize(init::Constant(5), cpu());
  EXPECT_EQ(test::values(own.data()), (Values{1, 1}));
}

TEST(Parameter, InitializingAgainNeedsForce) {
  Parameter p("weight", {2});
  p.initialize(init::Constant(1), cpu());
  testing::internal::CaptureStderr();
  p.initialize(init::Constant(2), cpu());
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("already initialized, ignoring"));
  EXPECT_EQ(test::values(p.data()), (Values{1, 1}));
  p.initialize(init::Constant(2), cpu(), {.force_reinit = true});
  EXPECT_EQ(test::values(p.data()), (Values{2, 2}));

  testing::internal::CaptureStderr();
  p.initialize(init::Constant(3), cpu(1));
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("It stays on [cpu(0)]; for [cpu(1)] call reset_ctx."));
  EXPECT_THAT(test::message_of<ContextMismatch>([&] { p.data(cpu(1)); }),
              AllOf(HasSubstr("was not initialized on context cpu(1)"),
                    HasSubstr("To compute on cpu(1), move the network there with reset_ctx"),
                    HasSubstr("Move the input to cpu(0) with as_in_context otherwise.")));

  Parameter deferred("weight", {2, 0});
  deferred.initialize(init::Constant(1), cpu());
  testing::internal::CaptureStderr();
  deferred.initialize(init::Constant(2), cpu(1));
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("already initialized, ignoring"));
  deferred.infer_shape({2, 1});
  EXPECT_EQ(test::values(deferred.data(cpu())), (Values{1, 1}));
  Parameter forced("weight", {2, 0});
  forced.initialize(init::Constant(1), cpu());
  forced.initialize(init::Constant(2), cpu(1), {.force_reinit = true});
  forced.infer_shape({2, 1});
  EXPECT_EQ(test::values(forced.data(cpu(1))), (Values{2, 2}));

  // If it throws or gives another shape, nothing changes.
  const init::Initializer fails("fails", [](const Shape&, DType) -> Tensor { throw Error("no"); });
  EXPECT_THROW(p.initialize(fails, cpu(1), {.force_reinit = true}), Error);
  const init::Initializer wrong("wrong", [](const Shape&, DType) { return ones({3}); });
  EXPECT_THAT(
      test::message_of<ShapeError>([&] { p.initialize(wrong, cpu(1), {.force_reinit = true}); }),
      HasSubstr("init::wrong"));
  EXPECT_EQ(p.list_ctx(), std::vector<Context>{cpu()});
  EXPECT_EQ(test::values(p.data()), (Values{2, 2}));
}

TEST(Parameter, AContextIsNamedOnce) {
  Parameter p("weight", {2});
  EXPECT_THAT(test::message_of<ValueError>([&] {
                p.initialize(init::One(), {cpu(), cpu(1), cpu()});
              }),
              HasSubstr("cpu(0) is given twice"));
  EXPECT_THROW(split_and_load(ones({4, 2}), {cpu(1), cpu(1)}), ValueError);
}

TEST(Parameter, SetDataWritesEveryReplicaInPlace) {
  for (Context c : test::contexts()) {
    SCOPED_TRACE(to_string(c));
    Parameter p("weight", {2});
    p.initialize(init::Zero(), {cpu(1), cpu(2)});
    const Tensor replica = p.data(cpu(2));
    p.set_data(array({3.f, 4.f}, c));
    EXPECT_EQ(test::values(replica), (Values{3, 4}));
    EXPECT_EQ(test::values(p.data(cpu(1))), (Values{3, 4}));
    EXPECT_THROW(p.set_data(zeros({3}, c)), ShapeError);
    Parameter late("weight", {0});
    late.initialize(init::Zero(), c);
    late.set_data(array({1.f, 2.f}));
    EXPECT_EQ(late.data().context(), c);
    EXPECT_EQ(test::values(late.data()), (Values{1, 2}));
  }
}

// Recordings stay valid unless the number changes.
TEST(Parameter, SettingAMultiplierToWhatItIsChangesNothing) {
  const nn::Parameter p("weight", {2}, {.lr_mult = 2, .wd_mult = .5});
  const uint64_t before = p.generation();
  p.set_lr_mult(2);
  p.set_wd_mult(.5);
  EXPECT_EQ(p.generation(), before);
  p.set_lr_mult(1);
  p.set_wd_mult(1);
  EXPECT_EQ(p.generation(), before + 2);
}

TEST(Parameter, GradReq) {
  Parameter p("weight", {2}, {.grad_req = GradReq::null});
  p.initialize(init::One(), cpu());
  EXPECT_THAT(test::message_of<Error>([&] { p.grad(); }),
              HasSubstr("Cannot get gradient array for Parameter 'weight' because "
                        "grad_req='null'"));
  p.set_grad_req(GradReq::add);
  for (int i = 0; i < 2; ++i) {
    Tensor y;
    {
      autograd::Record record;
      y = (p.data() * 3).sum();
    }
    y.backward();
  }
  EXPECT_EQ(test::values(p.grad()), (Values{6, 6}));
  p.zero_grad();
  EXPECT_EQ(test::values(p.grad()), (Values{0, 0}));
}

TEST(Parameter, PrintsAsInGluon) {
  std::ostringstream text;
  text << Parameter("dense0_weight", {1, 3});
  EXPECT_EQ(text.str(), "Parameter dense0_weight (shape=(1,3), dtype=f32)");
}

TEST(Parameter, PartsRefusesAnAxisThatItCannotCut) {
  const Contexts two{cpu(0), cpu(1)};
  for (const int axis : {-1, 2, 5})
    EXPECT_THROW(nn::Parameter::parts("weight", {2, 2}, axis, two), ShapeError) << axis;
  EXPECT_THROW(nn::Parameter::parts("weight", {}, 0, two), ShapeError);
  EXPECT_THROW(nn::Parameter::parts("weight", {1, 2}, 0, two), ShapeError);
  EXPECT_EQ(nn::Parameter::parts("weight", {0, 2}, 0, two).size(), 2u);
}

}  // namespace
}  // namespace locus
