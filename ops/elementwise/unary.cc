#include <locus/ops/unary.h>

#include <locus/devices/cpu.h>
#include <locus/ops/create.h>

namespace locus {

namespace {

using formula::List;

DType infer(std::span<const Meta> in, const NoAttrs&, std::span<Meta> out) {
  return detail::infer_unary(in, false, out);
}
DType infer_pair(std::span<const Meta> in, const NoAttrs&, std::span<Meta> out) {
  return detail::infer_binary(in, false, out);
}

template <class F>
Tensors gradient(const Saved& s, std::span<const Tensor> dout) {
  if constexpr (requires { typename F::Fused; })
    return {invoke(op_of<typename F::Fused>(), {dout[0], s.out()})};
  else
    return {F::template grad<Tensor>(s.in(0), s.out(), dout[0])};
}
template <class F>
Samples samples(Context c, DType d) {
  return detail::samples_unary(c, d, F::kLow, F::kHigh);
}
template <class... F>
void define(List<F...>) {
  (OpDef<>(F::name, {"data"})
       .template infer<&infer>()
       .layout(Layout::strided)
       .template gradient<&gradient<F>>(F::kKeep)
       .template samples<&samples<F>>(),
   ...);
}

// The gradients of the fused gradients, with respect to dy and y.
template <class F>
Tensor again(const Tensor& g, const Tensor& y) {
  return invoke(op_of<F>(), {g, y});
}
Tensors relu_grad_gradient(const Saved& s, std::span<const Tensor> g) {
  return {again<formula::ReluGrad>(g[0], s.in(1)), Tensor()};
}
Tensors sigmoid_grad_gradient(const Saved& s, std::span<const Tensor> g) {
  return {again<formula::SigmoidGrad>(g[0], s.in(1)), g[0] * s.in(0) * (1 - 2 * s.in(1))};
}
Tensors tanh_grad_gradient(const Saved& s, std::span<const Tensor> g) {
  return {again<formula::TanhGrad>(g[0], s.in(1)), g[0] * s.in(0) * s.in(1) * -2};
}
Samples samples_pair(Context c, DType d) {
  Samples s;
  for (const Shape& shape : {Shape{2, 3}, Shape{37}})
    s.emplace_back(
        Tensors{sample_values(c, d, shape, -2, 2), sample_values(c, d, shape, -1, 1, 1)});
  return s;
}
template <class F, Tensors (*Gradient)(const Saved&, std::span<const Tensor>)>
void define_grad() {
  OpDef<>(F::name, {"dy", "y"})
      .template infer<&infer_pair>()
      .broadcasts()
      .layout(Layout::strided)
      .template gradient<Gradient>(Keep::inputs)
      .template samples<&samples_pair>();
}

}  // namespace

void register_unary() {
  define(formula::UnaryOps());
  define(formula::TrigonometricOps());
  define_grad<formula::ReluGrad, &relu_grad_gradient>();
  define_grad<formula::SigmoidGrad, &sigmoid_grad_gradient>();
  define_grad<formula::TanhGrad, &tanh_grad_gradient>();
}

}  // namespace locus
