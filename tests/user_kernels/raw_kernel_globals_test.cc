// Variables of raw modules, on a fake GPU.
#include <locus/core/capture.h>
#include <locus/ops/create.h>
#include <locus/ops/raw_kernels.h>
#include <locus/ops/view.h>

#include "tests/support/contexts.h"
#include "tests/user_kernels/fake_gpu.h"

namespace locus {
namespace {

using test::fake_gpu;
using test::fake_gpu_state;
using test::message_of;
using test::values;
using testing::ElementsAre;
using testing::HasSubstr;

class RawKernelGlobals : public testing::Test {
 protected:
  void SetUp() override { test::reset_fake_gpu(); }

  static Tensor on(Context c, std::initializer_list<float> list) { return array(list).copyto(c); }
  // A module of this text. The name makes the text its own.
  static RawModule module_named(const std::string& name) { return RawModule("add scale " + name); }

  const Context gpu_ = fake_gpu();
};

TEST_F(RawKernelGlobals, AreSetAndGot) {
  const RawModule m = module_named("globals");
  fake_gpu_state.globals["weights"].resize(8);
  m.set_global(gpu_, "weights", array({1.5f, 2.5f}));
  EXPECT_GE(fake_gpu_state.waits, 2);
  const Tensor got = m.get_global(gpu_, "weights", f32, {2});
  EXPECT_EQ(got.context(), gpu_);
  EXPECT_THAT(values(got), ElementsAre(1.5, 2.5));
  m.set_global(gpu_, "weights", on(fake_gpu(1), {3, 4}));
  EXPECT_THAT(values(m.get_global(gpu_, "weights", f32, {2, 1})), ElementsAre(3, 4));
  const Tensor columns = array({{1.0f, 9.0f}, {2.0f, 9.0f}});
  m.set_global(gpu_, "weights", columns(Slice(), 0));
  EXPECT_THAT(values(m.get_global(gpu_, "weights", f32, {2})), ElementsAre(1, 2));
}

TEST_F(RawKernelGlobals, AreRefusedWithAnotherSizeOrName) {
  const RawModule m = module_named("global sizes");
  fake_gpu_state.globals["weights"].resize(8);
  EXPECT_THAT(
      message_of<ValueError>([&] { m.set_global(gpu_, "weights", ones({3})); }),
      HasSubstr("set_global: weights has 8 bytes on fake_gpu(0), and the values cpu(0) (3,) "
                "f32 have 12; expected equal sizes"));
  EXPECT_THAT(message_of<ValueError>([&] { m.get_global(gpu_, "weights", f32); }),
              HasSubstr("get_global: weights has 8 bytes on fake_gpu(0), and f32 () has 4"));
  EXPECT_THAT(message_of<ValueError>([&] { m.get_global(gpu_, "bias", f32); }),
              HasSubstr("get_global: RawModule has no variable \"bias\" on fake_gpu(0); expected"));
  const RawModule named("add global names", {.name_expressions = {"add<int>", "&ns::calls"}});
  EXPECT_THAT(message_of<ValueError>([&] { named.get_global(gpu_, "calls", i32); }),
              HasSubstr("that is not static, or of ns::calls; list one of a namespace in"));
  EXPECT_THROW(m.set_global(gpu_, "weights", Tensor()), EmptyTensor);
  EXPECT_THROW(m.get_global(cpu(0), "weights", f32), UnsupportedOnContext);
}

TEST_F(RawKernelGlobals, AreNotSetInCaptures) {
  const RawModule m = module_named("global capture");
  fake_gpu_state.globals["weights"].resize(4);
  const Tensor one = on(gpu_, {1});
  Capture capture(gpu_);
  EXPECT_THAT(message_of<CaptureError>([&] { m.set_global(gpu_, "weights", one); }),
              HasSubstr("set_global"));
  EXPECT_THAT(message_of<CaptureError>([&] { m.get_global(gpu_, "weights", f32); }),
              HasSubstr("get_global"));
}

}  // namespace
}  // namespace locus
