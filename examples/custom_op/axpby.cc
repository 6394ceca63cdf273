#include "axpby.h"

#include <algorithm>

#include <locus/locus.h>

using namespace locus;

namespace {

// Fills out[0] and returns the dtype that selects the kernel.
DType axpby_infer(std::span<const Meta> in, const AxpbyAttrs&, std::span<Meta> out) {
  if (!std::ranges::equal(std::span(in[0].shape, static_cast<size_t>(in[0].rank)),
                          std::span(in[1].shape, static_cast<size_t>(in[1].rank)))) {
    throw ShapeError("expected y to have the shape of x");
  }
  if (in[0].dtype != in[1].dtype) throw DTypeError("expected x and y of one dtype");
  out[0] = in[0];
  return in[0].dtype;
}

// Operands are row-major memory (Layout::contiguous, the default).
void axpby_cpu(const Call& call) {
  const auto [a, b] = call.attributes<AxpbyAttrs>();
  const float *x = call.in[0].as<float>(), *y = call.in[1].as<float>();
  float* z = call.out[0].as<float>();
  for (int64_t i = 0, n = call.out[0].meta.size(); i < n; ++i) {
    z[i] = static_cast<float>(a) * x[i] + static_cast<float>(b) * y[i];
  }
}

// Made of ops, so second derivatives work.
Tensors axpby_gradient(const Saved& saved, std::span<const Tensor> dout) {
  const auto [a, b] = saved.attrs<AxpbyAttrs>();
  return {dout[0] * static_cast<float>(a), dout[0] * static_cast<float>(b)};
}

// Inputs for tests that walk the registry.
Samples axpby_samples(Context c, DType d) {
  return {Sample({sample_values(c, d, {3, 5}), sample_values(c, d, {3, 5}, -2, 2, 1)},
                 AxpbyAttrs{2, -0.5})};
}

const Op& axpby_op() {
  static const Op& op = OpDef<AxpbyAttrs>("axpby", {"x", "y"})
                            .infer<&axpby_infer>()
                            .gradient<&axpby_gradient>(Keep::none)
                            .samples<&axpby_samples>()
                            .kernel(DeviceType::cpu, f32, &axpby_cpu)
#ifdef AXPBY_CUDA
                            .kernel(DeviceType::gpu, f32, &axpby_gpu)
#endif
      ;
  return op;
}

}  // namespace

Tensor axpby(double a, const Tensor& x, double b, const Tensor& y, Caller from) try {
  return invoke(axpby_op(), {x, y}, AxpbyAttrs{a, b});
} catch (const Error&) {
  rethrow_at(from);
}
