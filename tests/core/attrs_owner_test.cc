// Attributes with pointers: their owner lives as long as any copy of the attributes.
#include <locus/core/op.h>

#include <locus/core/autograd.h>
#include <locus/core/compile.h>
#include <locus/core/device.h>
#include <locus/core/kernel.h>
#include <locus/core/saved.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include "tests/support/contexts.h"

namespace locus::test {
namespace {

using Numbers = std::vector<float>;
struct ScaleAttrs {
  const float* factor = nullptr;
};

DType scale_infer(std::span<const Meta> in, const ScaleAttrs&, std::span<Meta> out) {
  out[0] = in[0];
  return in[0].dtype;
}
void scale_kernel(const Call& call) {
  const float factor = *call.attributes<ScaleAttrs>().factor;
  for (int64_t i = 0; i < call.in[0].meta.size(); ++i)
    call.out[0].as<float>()[i] = call.in[0].as<float>()[i] * factor;
}
Tensors scale_gradient(const Saved& saved, std::span<const Tensor> dout) {
  return {dout[0] * *saved.attrs<ScaleAttrs>().factor};
}
const Op& scale_op() {
  static const Op& op = OpDef<ScaleAttrs>("test_owned_scale", {"x"})
                            .infer<&scale_infer>()
                            .gradient<&scale_gradient>(Keep::none)
                            .no_samples("a test's")
                            .kernel(DeviceType::cpu, f32, &scale_kernel);
  return op;
}
// `made` watches the number that the attributes point to.
Tensor scaled(const Tensor& x, float factor, std::weak_ptr<Numbers>& made) {
  const auto number = std::make_shared<Numbers>(1, factor);
  made = number;
  Tensor out;
  const Ref in[] = {x};
  detail::invoke(scale_op(), in, AttrsView::of(ScaleAttrs{number->data()}, {number}), nullptr,
                 {&out, 1});
  return out;
}
// Contexts with host kernels.
std::vector<Context> hosts_kernels() {
  std::vector<Context> all{cpu()};
  if (emulated_gpus() && num_gpus() > 0) all.push_back(gpu(0));
  return all;
}

TEST(AttrsOwner, IsKeptByTheTapeUntilBackwardFreesIt) {
  for (Context c : hosts_kernels()) {
    Tensor x = array({1.f, 2.f}, c);
    x.attach_grad();
    std::weak_ptr<Numbers> made;
    Tensor y;
    {
      const autograd::Record record;
      y = scaled(x, 3, made);
    }
    wait_all();
    EXPECT_FALSE(made.expired()) << c;
    y.backward();
    EXPECT_EQ(values(x.grad()), (std::vector<double>{3, 3})) << c;
    EXPECT_TRUE(made.expired()) << c;
  }
}

TEST(AttrsOwner, IsGoneBehindACallThatNobodyKeeps) {
  for (Context c : hosts_kernels()) {
    std::weak_ptr<Numbers> made;
    const Tensor y = scaled(array({1.f, 2.f}, c), 3, made);
    EXPECT_EQ(values(y), (std::vector<double>{3, 6})) << c;
    wait_all();
    EXPECT_TRUE(made.expired()) << c;
  }
}

TEST(AttrsOwner, IsKeptByWhatIsCompiled) {
  for (Context c : hosts_kernels()) {
    std::weak_ptr<Numbers> made;
    {
      Compiled f([&](const Tensors& in) { return Tensors{scaled(in[0], 3, made)}; });
      for (float first : {1.f, 5.f}) {
        const Tensor y = f({array({first, 2.f}, c)})[0];
        EXPECT_EQ(values(y), (std::vector<double>{3 * first, 6})) << c;
      }
      EXPECT_FALSE(made.expired()) << c;
    }
    wait_all();
    EXPECT_TRUE(made.expired()) << c;
  }
}

}  // namespace
}  // namespace locus::test
