// A device and an op defined outside Locus with public calls only. A guide to adding either.
#include <atomic>
#include <cstdlib>
#include <cstring>

#include <locus/core/autograd.h>
#include <locus/core/device.h>
#include <locus/core/op.h>
#include <locus/devices/cpu.h>
#include <locus/devices/pool.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include "tests/registry/walk.h"
#include "tests/support/contexts.h"
#include "tests/support/expect_line.h"

namespace locus::test {
namespace {

// --- A device: "lab(i)", two of them, with separate memory. Calls return after the work is done.

std::atomic<int> launches{0}, copies{0};

// The memory behind the pool, which keeps freed blocks, counts, and throws.
class LabMemory final : public MemorySource {
 public:
  void* allocate(size_t bytes) override { return std::aligned_alloc(512, bytes); }
  void release(void* p, size_t) noexcept override { std::free(p); }
};

class Lab final : public Device {
 public:
  explicit Lab(Context c) : context_(c), memory_(std::make_unique<LabMemory>(), {.context = c}) {}
  MemoryPool& allocator() override { return memory_; }
  MemoryInfo memory() override { return {1 << 20, 1 << 20}; }
  ContextInfo info() override { return {"laboratory device", false}; }
  DeviceType kernels() const override { return context_.type; }  // separate kernels
  StreamView stream(Lane) override { return {context_, 0, nullptr}; }
  StreamView open_stream() override { return stream(Lane::compute); }
  void close_stream(StreamView) noexcept override {}
  void launch(Kernel kernel, const Call& call, const char*) override {
    ++launches;
    kernel(call);
  }
  void copy(void* dst, Context, const void* src, Context, size_t bytes, StreamView) override {
    ++copies;
    std::memcpy(dst, src, bytes);
  }
  // Its own events have always fired. For other devices' events the host waits.
  EventView record(StreamView) override { return {context_}; }
  void release(EventView) noexcept override {}
  bool done(EventView) override { return true; }
  void wait(StreamView, EventView e) override { wait_host(e); }
  void wait_host(EventView e) override {
    if (e.context.type != context_.type) device(e.context).wait_host(e);
  }
  double elapsed_ms(EventView, EventView) override {
    throw Error(to_string(context_) + " records no times; use a clock around the calls");
  }
  void synchronize(StreamView) override {}

 private:
  Context context_;
  CachingPool memory_;
};

const DeviceType kLab = register_device(
    DeviceFactory{"lab", [] { return 2; },
                  [](Context c) -> std::unique_ptr<Device> { return std::make_unique<Lab>(c); }});

Context lab(int i) { return {kLab, i}; }

// --- An op: a * x + b * y.

struct AxpbyAttrs {
  double a = 1, b = 1;
};

DType axpby_infer(std::span<const Meta> in, const AxpbyAttrs&, std::span<Meta> out) {
  if (Shape(in[0]) != Shape(in[1])) throw ShapeError("expected x and y of one shape");
  out[0] = in[0];
  return in[0].dtype;
}

const Op& axpby_op();

Tensors axpby_gradient(const Saved& saved, std::span<const Tensor> dout) {
  const AxpbyAttrs& k = saved.attrs<AxpbyAttrs>();
  return {invoke(axpby_op(), {dout[0], dout[0]}, AxpbyAttrs{k.a, 0}),
          invoke(axpby_op(), {dout[0], dout[0]}, AxpbyAttrs{0, k.b})};
}

Samples axpby_samples(Context c, DType d) {
  return {Sample({sample_values(c, d, {3, 2}), sample_values(c, d, {3, 2}, -1, 1, 1)},
                 AxpbyAttrs{2, -0.5})};
}

template <class T>
void axpby_kernel(const Call& call) {
  const auto& [a, b] = call.attributes<AxpbyAttrs>();
  const T *x = call.in[0].as<T>(), *y = call.in[1].as<T>();
  T* out = call.out[0].as<T>();
  for (int64_t i = 0; i < call.out[0].meta.size(); ++i) out[i] = T(a) * x[i] + T(b) * y[i];
}

const Op& axpby_op() {
  static const Op& op = OpDef<AxpbyAttrs>("axpby", {"x", "y"})
                            .infer<&axpby_infer>()
                            .gradient<&axpby_gradient>(Keep::none)
                            .samples<&axpby_samples>()
                            .kernel(DeviceType::cpu, f32, &axpby_kernel<float>)
                            .kernel(DeviceType::cpu, f64, &axpby_kernel<double>)
                            .kernel(kLab, f32, &axpby_kernel<float>)
                            .kernel(kLab, f64, &axpby_kernel<double>);
  return op;
}

Tensor axpby(double a, const Tensor& x, double b, const Tensor& y,
             Caller from = Caller::here()) try {
  return invoke(axpby_op(), {x, y}, AxpbyAttrs{a, b});
} catch (const Error&) {
  rethrow_at(from);
}

const References kReferences{{
    reference<AxpbyAttrs>("axpby",
                          [](const Arrays& in, const AxpbyAttrs& k) -> Arrays {
                            return {combined(in[0], in[1],
                                             [&](Real x, Real y) { return k.a * x + k.b * y; })};
                          }),
}};

TEST(Plugin, AnOpFromOutsideAgreesWithItsReference) {
  const Op& op = axpby_op();
  for (Context c : {cpu(0), lab(0)})
    for (DType d : {f32, f64})
      for (const Sample& s : op.samples(c, d)) {
        const Arrays in = arrays_of(s.inputs);
        expect_results(run(op, s.inputs, s.attrs, c), find_reference("axpby")->apply(in, s.attrs),
                       moderately(d), "axpby");
        if (c != cpu(0)) continue;  // there are no other ops on lab(0)
        const Tensors got = gradients_of(op, s.inputs, s.attrs);
        for (size_t k = 0; k < in.size(); ++k) {
          const Array dx = array_of(got[k]);
          Real sum = 0;
          for (Real v : dx.values) sum += v;
          const std::vector<Real> ones(dx.values.size(), 1);
          EXPECT_NEAR(double(sum), double(slope_along(op, in, s.attrs, k, ones, 1).value), 1e-5);
        }
      }
}

TEST(Plugin, AnOpFromOutsideRunsAndDifferentiates) {
  const Tensor x = array({1.f, 2.f}), y = array({10.f, 20.f});
  x.attach_grad();
  Tensor z;
  {
    const autograd::Record record;
    z = invoke(axpby_op(), {x, y}, AxpbyAttrs{3, 1});
  }
  EXPECT_EQ(z.to_vector<float>(), (std::vector<float>{13, 26}));
  z.backward();
  EXPECT_EQ(x.grad().to_vector<float>(), (std::vector<float>{3, 3}));
}

TEST(Plugin, ErrorsOfAnOpFromOutsideNameTheLineOfItsCaller) {
  const Tensor x = ones({2}), none;
  EXPECT_NAMES_ITS_LINE(axpby(1, x, 1, ones({3})));
  EXPECT_NAMES_ITS_LINE(axpby(1, x, 1, ones({2}, cpu(1))));
  EXPECT_NAMES_ITS_LINE(axpby(1, ones({2}, i32), 1, ones({2}, i32)));
  EXPECT_NAMES_ITS_LINE(axpby(1, x, 1, none));
}

TEST(Plugin, ADeviceFromOutsideIsAContext) {
  EXPECT_EQ(to_string(lab(1)), "lab(1)");
  EXPECT_EQ(Context::parse("lab(1)"), lab(1));
  EXPECT_EQ(context_info(lab(0)).name, "laboratory device");
  const std::string text = message_of<DeviceError>([] { device(lab(2)); });
  EXPECT_NE(text.find("2 labs"), std::string::npos) << text;
}

TEST(Plugin, TensorsMoveToTheDeviceAndOpsRunThere) {
  const int before = launches, moved = copies;
  const Tensor x = array({1.f, 2.f}).copyto(lab(0)), y = array({5.f, 6.f}).copyto(lab(0));
  const Tensor z = invoke(axpby_op(), {x, y}, AxpbyAttrs{1, 1});
  EXPECT_EQ(z.context(), lab(0));
  EXPECT_EQ(launches, before + 1);
  EXPECT_EQ(copies, moved + 2);
  EXPECT_EQ(z.to_vector<float>(), (std::vector<float>{6, 8}));
}

TEST(Plugin, TheDeviceRefusesOthersTensors) {
  const Tensor x = array({1.f, 2.f}).copyto(lab(0));
  for (Context c : {cpu(0), lab(1)}) {
    const Tensor y = array({1.f, 2.f}).copyto(c);
    EXPECT_THROW(invoke(axpby_op(), {x, y}, AxpbyAttrs{}), ContextMismatch);
  }
}

TEST(Plugin, AnOpWithoutAKernelThereSaysSo) {
  const Tensor x = array({1.f, 2.f}).copyto(lab(0));
  const std::string text = message_of<DTypeError>([&] { x + x; });
  EXPECT_NE(text.find("add"), std::string::npos) << text;
  EXPECT_NE(text.find("lab(0)"), std::string::npos) << text;
}

TEST(Plugin, AKernelForAnOldOpMakesItRun) {
  set_kernel("subtract", kLab, f32, [](const Call& call) {
    const float *a = call.in[0].as<float>(), *b = call.in[1].as<float>();
    for (int64_t i = 0; i < call.out[0].meta.size(); ++i) call.out[0].as<float>()[i] = a[i] - b[i];
  });
  const Tensor x = array({1.f, 2.f}).copyto(lab(0)), y = array({5.f, 6.f}).copyto(lab(0));
  EXPECT_EQ((y - x).to_vector<float>(), (std::vector<float>{4, 4}));
}

TEST(Plugin, ADeviceThatFailedToOpenIsOpenedAtItsNextUse) {
  static int opens = 0;
  static const DeviceType type =
      register_device(DeviceFactory{"late", [] { return 1; },
                                    [](Context c) -> std::unique_ptr<Device> {
                                      if (++opens == 1) throw DeviceError(c, ": not ready");
                                      return std::make_unique<Lab>(c);
                                    }});
  const Context late{type, 0};
  EXPECT_THROW(device(late), DeviceError);
  EXPECT_EQ(device(late).info().name, "laboratory device");
  device(late);
  EXPECT_EQ(opens, 2);
}

TEST(Plugin, ATakenNameIsRefused) {
  const auto open = [](Context c) -> std::unique_ptr<Device> { return std::make_unique<Lab>(c); };
  EXPECT_THROW(register_device(DeviceFactory{"cpu", [] { return 1; }, open}), Error);
}

TEST(Plugin, ADeviceWithoutAFunctionIsRefused) {
  EXPECT_THROW(register_device(DeviceFactory{"lab without open", [] { return 1; }, nullptr}),
               ValueError);
}

}  // namespace
}  // namespace locus::test
