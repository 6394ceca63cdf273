// Functions whose parameters are numbers or tensors.
#include <cmath>
#include <optional>

#include <locus/core/autograd.h>
#include <locus/core/base/at_line.h>
#include <locus/core/observe/memory_events.h>
#include <locus/ops/call_check.h>
#include <locus/ops/copy.h>
#include <locus/ops/random/draw.h>
#include <locus/ops/view.h>

namespace locus {

namespace detail {
void throw_bad_parameter(const ParameterText& text, int input, int64_t element, double value) {
  throw ValueError(text.op, ": ", text.parameter[input], " ", value, " at element ", element,
                   "; expected numbers ", text.expected);
}
}  // namespace detail

namespace random {
namespace detail {
void check_tries(const char* op, int64_t n, DType dtype) {
  if (n < 0 || n > int64_t{1} << 53) throw ValueError(op, ": expected n from 0 to 2^53, got ", n);
  if (!holds(dtype, n)) throw DTypeError(op, ": n ", n, " does not fit dtype ", name(dtype));
}
}  // namespace detail

namespace {

using Size = std::optional<Shape>;

// A call with the parameters `p`, of which the distribution D reads `count`.
struct Parametric {
  const Operand* p[2];
  int count;

  bool tensors() const { return !p[0]->is_scalar() || (count > 1 && !p[1]->is_scalar()); }
  double number(int k) const { return p[k]->scalar().floating(); }
  Shape common(const char* op) const {
    Tensors all;
    for (int k = 0; k < count; ++k)
      if (!p[k]->is_scalar()) all.push_back(p[k]->tensor());
    return locus::detail::broadcast_all(op, "parameters", all);
  }
  DType dtype() const {  // of floating tensors
    std::optional<DType> all;
    for (int k = 0; k < count; ++k)
      if (!p[k]->is_scalar() && is_floating(p[k]->tensor().dtype()))
        all = all ? promote(*all, p[k]->tensor().dtype()) : p[k]->tensor().dtype();
    return all.value_or(f32);
  }
  Context context(const char* op, const TensorOptions& o) const {
    std::optional<Context> where = o.context;
    for (int k = 0; k < count; ++k) {
      if (p[k]->is_scalar()) continue;
      const Context c = p[k]->tensor().context();
      if (where && *where != c)
        throw ContextMismatch(op, ": parameter ", describe(p[k]->tensor()),
                              ", but the numbers go to ", *where,
                              "; move it first: parameter.as_in_context(", *where, ")");
      where = c;
    }
    return where.value_or(current_context());
  }
  // Parameter k, one number an element.
  Tensor each(int k, const Shape& size, Context c) const {
    if (p[k]->is_scalar()) return full(size, number(k), {c, f64});
    return broadcast_to(cast(p[k]->tensor(), f64), size);
  }
};

template <class D>
void check_number(const Parametric& call, int k) {
  if (call.p[k]->is_scalar() && !D::valid(call.number(k)))
    throw ValueError(D::kText.op, ": expected ", D::kText.parameter[k], " ", D::kText.expected,
                     ", got ", call.number(k));
}

template <class D>
Tensor draw_by(const OpRef<RandomAttrs>& op, const Parametric& call, const Size& given,
               TensorOptions o, DType fallback, uint64_t words) {
  for (int k = 0; k < call.count; ++k) check_number<D>(call, k);
  const Shape common = call.common(D::kText.op), size = given ? *given : common;
  o.context = call.context(D::kText.op, o);
  RandomAttrs a{};
  if (call.p[0]->is_scalar()) a.a = call.number(0);
  if (call.count > 1 && call.p[1]->is_scalar()) a.b = call.number(1);
  Tensors in;
  if (call.tensors()) {
    const autograd::Pause pause;
    if (!broadcasts_to(common, size))
      throw ShapeError(D::kText.op, ": parameters of shape ", common, " do not broadcast to size ",
                       size);
    in.push_back(call.each(0, size, *o.context));
    if (call.count > 1 && !call.p[1]->is_scalar()) in.push_back(call.each(1, size, *o.context));
    return detail::draw(op, a, size, o, fallback, detail::kWordsOfElement, in);
  }
  return detail::draw(op, a, size, o, fallback, words);
}

Tensor exponential(const Operand& scale, const Size& size, const TensorOptions& o) {
  static const OpRef<RandomAttrs> op("exponential");
  const Parametric call{{&scale, nullptr}, 1};
  const DType d = call.dtype();
  return draw_by<EachExponential>(op, call, size, o, d, o.dtype.value_or(d) == f64 ? 2 : 1);
}
Tensor gamma(const Operand& shape, const Operand& scale, const Size& size, const TensorOptions& o) {
  static const OpRef<RandomAttrs> op("random_gamma");
  const Parametric call{{&shape, &scale}, 2};
  return draw_by<Gamma>(op, call, size, o, call.dtype(), detail::kWordsOfElement);
}
Tensor beta(const Operand& a, const Operand& b, const Size& size, const TensorOptions& o) {
  static const OpRef<RandomAttrs> op("beta");
  const Parametric call{{&a, &b}, 2};
  return draw_by<Beta>(op, call, size, o, call.dtype(), detail::kWordsOfElement);
}
Tensor poisson(const Operand& lam, const Size& size, const TensorOptions& o) {
  static const OpRef<RandomAttrs> op("poisson");
  const Parametric call{{&lam, nullptr}, 1};
  const DType d = o.dtype.value_or(i64);
  if (lam.is_scalar() && is_integer(d) && Poisson::valid(call.number(0)) &&
      !holds(d, call.number(0)))
    throw DTypeError("poisson: lam ", call.number(0), " does not fit dtype ", name(d));
  return draw_by<Poisson>(op, call, size, o, i64, detail::kWordsOfElement);
}

}  // namespace

// The public forms, with and without a size.
Tensor exponential(const Operand& scale, const Shape& size, TensorOptions o, Caller from) try {
  const UserLine user_line(from);
  return exponential(scale, Size(size), o);
} catch (const Error&) {
  locus::detail::rethrow_as("exponential", from);
}
Tensor exponential(const Operand& scale, TensorOptions o, Caller from) try {
  const UserLine user_line(from);
  return exponential(scale, Size(), o);
} catch (const Error&) {
  locus::detail::rethrow_as("exponential", from);
}
Tensor gamma(const Operand& shape, const Operand& scale, const Shape& size, TensorOptions o,
             Caller from) try {
  const UserLine user_line(from);
  return gamma(shape, scale, Size(size), o);
} catch (const Error&) {
  locus::detail::rethrow_as("gamma", from);
}
Tensor gamma(const Operand& shape, const Operand& scale, TensorOptions o, Caller from) try {
  const UserLine user_line(from);
  return gamma(shape, scale, Size(), o);
} catch (const Error&) {
  locus::detail::rethrow_as("gamma", from);
}
Tensor beta(const Operand& a, const Operand& b, const Shape& size, TensorOptions o,
            Caller from) try {
  const UserLine user_line(from);
  return beta(a, b, Size(size), o);
} catch (const Error&) {
  locus::detail::rethrow_as("beta", from);
}
Tensor beta(const Operand& a, const Operand& b, TensorOptions o, Caller from) try {
  const UserLine user_line(from);
  return beta(a, b, Size(), o);
} catch (const Error&) {
  locus::detail::rethrow_as("beta", from);
}
Tensor poisson(const Operand& lam, const Shape& size, TensorOptions o, Caller from) try {
  const UserLine user_line(from);
  return poisson(lam, Size(size), o);
} catch (const Error&) {
  locus::detail::rethrow_as("poisson", from);
}
Tensor poisson(const Operand& lam, TensorOptions o, Caller from) try {
  const UserLine user_line(from);
  return poisson(lam, Size(), o);
} catch (const Error&) {
  locus::detail::rethrow_as("poisson", from);
}
}  // namespace random
}  // namespace locus
