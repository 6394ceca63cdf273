#include <locus/ops/compare.h>

#include <locus/devices/cpu.h>
#include <locus/ops/create.h>

namespace locus {

namespace detail {
namespace {

DType number_dtype(const Scalar& a, const Scalar& b) {
  const auto kind = std::max(a.kind(), b.kind());
  return kind == Scalar::Kind::floating ? f32 : kind == Scalar::Kind::integer ? i64 : bool_;
}
Tensor as(const Tensor& x, DType d) { return x.dtype() == d ? x : x.astype(d); }

}  // namespace

Tensor run_where(const Tensor& condition, const Operand& x, const Operand& y) {
  static const Op& op = op_of<formula::Where>();
  const Tensor mask = condition.dtype() == bool_ ? condition : condition != 0;
  WhereAttrs a;
  a.x = x.scalar();
  a.y = y.scalar();
  a.x_scalar = x.is_scalar();
  a.y_scalar = y.is_scalar();
  if (a.x_scalar && a.y_scalar) {
    a.dtype = number_dtype(a.x, a.y);
    return invoke(op, {mask}, a);
  }
  if (a.x_scalar) {
    a.dtype = promote(y.tensor().dtype(), a.x);
    return invoke(op, {mask, as(y.tensor(), a.dtype)}, a);
  }
  if (a.y_scalar) {
    a.dtype = promote(x.tensor().dtype(), a.y);
    return invoke(op, {mask, as(x.tensor(), a.dtype)}, a);
  }
  a.dtype = promote(x.tensor().dtype(), y.tensor().dtype());
  return invoke(op, {mask, as(x.tensor(), a.dtype), as(y.tensor(), a.dtype)}, a);
}

}  // namespace detail

namespace {

using formula::List;

DType infer_pair(std::span<const Meta> in, const BinaryAttrs&, std::span<Meta> out) {
  return detail::infer_binary(in, true, out);
}
DType infer_one(std::span<const Meta> in, const NoAttrs&, std::span<Meta> out) {
  return detail::infer_unary(in, true, out);
}
DType infer_where(std::span<const Meta> in, const WhereAttrs& a, std::span<Meta> out) {
  if (in[0].dtype != bool_)
    throw DTypeError(std::string("expected a bool condition, got ") + name(in[0].dtype) +
                     "; compare it: condition != 0");
  Shape shape(in[0]);
  for (const Meta& m : in.subspan(1)) {
    if (m.dtype != a.dtype)
      throw DTypeError(std::string("expected x and y of dtype ") + name(a.dtype) + ", got " +
                       name(m.dtype) + "; convert it first: x.astype(" + name(a.dtype) + ")");
    shape = broadcast_shapes(shape, Shape(m));
  }
  out[0] = make_meta(a.dtype, shape);
  return a.dtype;
}

// Results are truth values, so finite differences say nothing.
Samples constant(Samples s) {
  for (Sample& one : s) one.differentiable = false;
  return s;
}
Samples samples_pair(Context c, DType d) {
  Samples s = constant(detail::samples_binary(c, d, -2, 2, -2, 2));
  const Tensor x = sample_values(c, d, {2, 3}, -2, 2);
  Sample equal(Tensors{x, x}, BinaryAttrs());
  equal.differentiable = false;
  s.push_back(equal);
  return s;
}
Samples samples_one(Context c, DType d) { return constant(detail::samples_unary(c, d, -2, 2)); }

Tensor mask(Context c, const Shape& shape) { return sample_values(c, f32, shape, -2, 2, 3) > 0; }
Samples samples_where(Context c, DType d) {
  Samples s;
  const auto x = [&](const Shape& shape) { return sample_values(c, d, shape, -2, 2); };
  WhereAttrs a;
  a.dtype = d;
  s.emplace_back(Tensors{mask(c, {2, 3}), x({2, 3}), sample_values(c, d, {2, 3}, -2, 2, 1)}, a);
  s.emplace_back(Tensors{mask(c, {3, 1}), x({4}), sample_values(c, d, {2, 1, 4}, -2, 2, 1)}, a);
  a.y = 1;
  a.y_scalar = true;
  s.emplace_back(Tensors{mask(c, {37}), x({37})}, a);
  a.x_scalar = true;
  a.y_scalar = false;
  s.emplace_back(Tensors{mask(c, {2, 5}), x({5})}, a);
  a.y_scalar = true;
  s.emplace_back(Tensors{mask(c, {3, 5})}, a);
  s.back().differentiable = false;
  return s;
}

Tensors where_gradient(const Saved& s, std::span<const Tensor> dout) {
  const WhereAttrs& a = s.attrs<WhereAttrs>();
  Tensors g(static_cast<size_t>(s.n_in()));
  int next = 1;
  if (!a.x_scalar) {
    if (s.needs(next)) g[static_cast<size_t>(next)] = where(s.in(0), dout[0], 0);
    ++next;
  }
  if (!a.y_scalar && s.needs(next)) g[static_cast<size_t>(next)] = where(s.in(0), 0, dout[0]);
  return g;
}

constexpr const char* kNoGradient = "the result is a truth value";

template <class... F>
void define_pairs(List<F...>) {
  (OpDef<BinaryAttrs>(F::name, {"lhs", "rhs"})
       .inputs(1, 2)
       .template infer<&infer_pair>()
       .broadcasts()
       .layout(Layout::strided)
       .no_gradient(kNoGradient)
       .template samples<&samples_pair>(),
   ...);
}
template <class... F>
void define_ones(List<F...>) {
  (OpDef<>(F::name, {"data"})
       .template infer<&infer_one>()
       .layout(Layout::strided)
       .no_gradient(kNoGradient)
       .template samples<&samples_one>(),
   ...);
}

}  // namespace

void register_compare() {
  define_pairs(formula::PairPredicates());
  define_ones(formula::Predicates());
  OpDef<WhereAttrs>("where", {"condition", "x", "y"})
      .inputs(1, 3)
      .infer<&infer_where>()
      .broadcasts()
      .layout(Layout::strided)
      .gradient<&where_gradient>(keep_input(0))
      .samples<&samples_where>();
}

}  // namespace locus
