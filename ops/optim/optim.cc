#include <locus/ops/optim.h>

#include <string>
#include <vector>

#include <locus/core/op.h>
#include <locus/devices/cpu.h>

namespace locus {

namespace {

// Inputs are w, g, m, w, g, m, ... with outputs w, m, ...; or w, g, ... with outputs w, ...
DType infer_sgd(std::span<const Meta> in, const SGDUpdate&, std::span<Meta> out) {
  const bool momenta = in.size() * 2 == out.size() * 3;
  const size_t each = momenta ? 3 : 2, n = in.size() / each;
  if (in.empty() || in.size() != n * each || out.size() != n * (each - 1))
    throw ShapeError("expected weight, grad and momentum, or weight and grad, of each tensor");
  for (size_t i = 0; i < n; ++i) {
    const Meta& w = in[i * each];
    for (size_t k = 1; k < each; ++k) {
      const Meta& other = in[i * each + k];
      const char* what = k == 1 ? "gradient" : "momentum";
      if (Shape(other) != Shape(w))
        throw ShapeError("tensor " + std::to_string(i) + ": expected a " + what +
                         " of the weight's shape " + to_string(Shape(w)) + ", got " +
                         to_string(Shape(other)));
      if (other.dtype != w.dtype)
        throw DTypeError("tensor " + std::to_string(i) + ": expected a " + what +
                         " of the weight's dtype " + name(w.dtype) + ", got " + name(other.dtype));
    }
    if (w.dtype != in[0].dtype)
      throw DTypeError("tensor " + std::to_string(i) + " is " + name(w.dtype) + ", tensor 0 " +
                       name(in[0].dtype) + "; expected one dtype in a call");
    out[i * (each - 1)] = w;
    if (momenta) out[i * 2 + 1] = w;
  }
  return in[0].dtype;
}

void need_contiguous(const Tensor& t, const char* what, size_t i) {
  if (!t.contiguous())
    throw Error(std::string("sgd_update: ") + what + " " + std::to_string(i) + " " + describe(t) +
                " has gaps or another order; expected a contiguous tensor, since it is updated in "
                "place");
}

}  // namespace

void sgd_update(const Tensors& weights, const Tensors& grads, const Tensors& momenta,
                const SGDUpdate& update) {
  static const Op& op = get_op("sgd_update");
  const size_t n = weights.size();
  if (grads.size() != n || (!momenta.empty() && momenta.size() != n))
    throw Error("sgd_update: " + std::to_string(n) + " weights, " + std::to_string(grads.size()) +
                " grads, " + std::to_string(momenta.size()) +
                " momenta; expected as many of each (or no momenta)");
  if (n == 0) return;
  std::vector<Ref> in, out;
  in.reserve(3 * n);
  out.reserve(2 * n);
  for (size_t i = 0; i < n; ++i) {
    need_contiguous(weights[i], "weight", i);
    in.emplace_back(weights[i]);
    in.emplace_back(grads[i]);
    out.emplace_back(weights[i]);
    if (momenta.empty()) continue;
    need_contiguous(momenta[i], "momentum", i);
    in.emplace_back(momenta[i]);
    out.emplace_back(momenta[i]);
  }
  invoke_into(op, std::span<const Ref>(in), std::span<const Ref>(out), update);
}

void register_optim() {
  OpDef<SGDUpdate>("sgd_update", {"weight", "grad"})
      .inputs(2, Op::kAny)
      .outputs(Op::kAny)
      .infer<&infer_sgd>()
      .in_place()
      .no_gradient("updates in place, outside the graph")
      .no_samples("updates in place: tests/optim_test.cc");
}

}  // namespace locus
