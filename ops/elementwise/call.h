// From formulas to ops, for the .cc files of the elementwise families. define() defines the ops of
// a list. call() invokes the op for a function of the public headers. With LOCUS_FUNCTIONS defined,
// a header of formulas defines its ops' functions.
#pragma once

#include <locus/core/amp.h>
#include <locus/core/base/at_line.h>
#include <locus/core/base/empty_tensor.h>
#include <locus/core/error.h>
#include <locus/core/observe/memory_events.h>
#include <locus/ops/compare.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/elementwise/formula_info.h>
#include <locus/ops/elementwise/kernels.h>
#include <locus/ops/named.h>

namespace locus {

// How an op's operands get one dtype.
enum class Promotion : uint8_t {
  promoted,  // NumPy's table
  counted,   // promoted, and bool is i8
  inexact,   // integers and bool become f64: division, exp
  compared,  // promoted, and a number that does not fit an integer dtype compares by value
};
template <class F>
inline constexpr Promotion kPromotion = F::kPredicate                      ? Promotion::compared
                                        : (F::kKinds& formula::kInts) == 0 ? Promotion::inexact
                                        : F::kCountsBool                   ? Promotion::counted
                                                                           : Promotion::promoted;

// The op of a formula, looked up once.
template <class F>
const Op& op_of() {
  static const OpRef<formula::AttrsOf<F>> op(F::name);
  return op;
}

namespace detail {

Tensor as(const Tensor& x, DType d);
DType operand_dtype(Promotion rule, DType a);
DType operand_dtype(Promotion rule, DType a, DType b);
// May replace s by the number to compare with. Throws DTypeError if s does not fit.
DType operand_dtype(const Op& op, Promotion rule, DType a, Scalar& s);
[[noreturn]] void two_numbers(const Op& op);
Tensor run_where(const Op& op, const Tensor& condition, const Operand& x, const Operand& y);
// For operands of one dtype.
Tensor run_ternary(const Op& op, const Tensor& a, const Operand& x, const Operand& y);

// `widens`: 16 bits become f32 in an amp::Scope.
template <class A>
Tensor run(const Op& op, Promotion rule, bool widens, const Operand& x, const Operand& y, A attrs) {
  if (!x.is_scalar()) expect_tensor(op.name, x.tensor(), "lhs");
  if (!y.is_scalar()) expect_tensor(op.name, y.tensor(), "rhs");
  const auto taken = [&](const Tensor& t) { return widens ? amp::widened(t.dtype()) : t.dtype(); };
  if (x.is_scalar() || y.is_scalar()) {
    if (x.is_scalar() && y.is_scalar()) two_numbers(op);
    attrs.scalar_first = x.is_scalar();
    attrs.scalar = (x.is_scalar() ? x : y).scalar();
    const Tensor& t = (x.is_scalar() ? y : x).tensor();
    const DType d = operand_dtype(op, rule, taken(t), attrs.scalar);
    return d == t.dtype() ? invoke(op, {t}, attrs) : invoke(op, {t.astype(d)}, attrs);
  }
  const Tensor &a = x.tensor(), &b = y.tensor();
  const DType d = operand_dtype(rule, taken(a), taken(b));
  if (a.dtype() == d && b.dtype() == d) return invoke(op, {a, b}, attrs);
  // If contexts do not mix, invoke() throws before anything is cast.
  if (!mix(a.context(), b.context())) return invoke(op, {a, b}, attrs);
  return invoke(op, {as(a, d), as(b, d)}, attrs);
}

struct Expect {
  DType dtype = f64;  // of the data

  // Whether v is a number of the dtype, up to rounding.
  bool holds(double v) const;
  void operator()(bool met, const char* name, double value, const char* expected) const {
    if (!met) [[unlikely]]
      bad(name, value, expected);
  }
  [[noreturn]] static void bad(const char* name, double value, const char* expected);
};
template <class F>
concept Checked = requires(const F& f) {
  f.check(Expect());
};

DType infer_operands(std::span<const Meta> in, bool predicate, std::span<Meta> out);
DType infer_ternary(std::span<const Meta> in, bool masked, const TernaryAttrs& a,
                    std::span<Meta> out);
template <class F>
DType infer(std::span<const Meta> in, const formula::AttrsOf<F>& a, std::span<Meta> out) {
  if constexpr (Checked<F>) formula::formula_of<F>(a).check(Expect{in[0].dtype});
  if constexpr (F::kArity == 3)
    return infer_ternary(in, F::kMasked, a, out);
  else
    return infer_operands(in, F::kPredicate, out);
}

// 16-bit operands as f32, for gradients with steps too large or too many for 16 bits.
inline Tensor widened(const Tensor& t) {
  return t.defined() && size_of(t.dtype()) == 2 ? t.astype(f32) : t;
}
inline Tensor summed_to(const Tensor& t, const Shape& shape) {
  static const OpRef<SumToAttrs> op("sum_to");
  return t.shape() == shape ? t : invoke(op, {t}, SumToAttrs{make_meta(t.dtype(), shape)});
}
template <class F>
Tensors gradient(const Saved& s, std::span<const Tensor> dout) {
  const Tensor& d = dout[0];
  const auto& attrs = s.attrs<formula::AttrsOf<F>>();
  const auto in = [&](int i) -> const Tensor& { return s.in(i); };
  const Tensor& out = s.out();
  const F f = formula::formula_of<F>(attrs);
  const auto wide = [&](const auto& x) {
    if constexpr (std::is_same_v<decltype(x), const double&>)  // kernels round numbers
      return d.dtype() == f16 ? convert<double>(convert<Half>(x))
                              : convert<double>(convert<BFloat16>(x));
    else
      return widened(x);
  };
  Tensors g(static_cast<size_t>(s.n_in()));
  // The gradient of input i: step(from...). Steps that may leave f16's range, and terms of sums
  // over broadcast axes, are f32 and rounded at the end.
  const auto run = [&](int i, bool in_range, const auto& step, const auto&... from) {
    if (!s.needs(i)) return;
    const bool sums = !F::kExact && s.in_meta(i).size() != d.size() && size_of(d.dtype()) == 2;
    g[static_cast<size_t>(i)] = sums || (!in_range && d.dtype() == f16)
                                    ? as(summed_to(step(wide(from)...), s.in_shape(i)), d.dtype())
                                    : step(from...);
  };
  constexpr bool kXInRange = (F::kInRange & formula::kX) != 0,
                 kYInRange = (F::kInRange & formula::kY) != 0;
  if constexpr (F::kArity == 1) {
    const auto grad = [&](const auto&... all) -> Tensor { return f.grad(all...); };
    run(0, kXInRange, grad, in(0), out, d);
  } else if constexpr (F::kArity == 2) {
    const auto dx = [&](int at, auto& x, auto& y) {
      if constexpr (requires { f.dx(x, y, out, d); }) {
        const auto step = [&](const auto&... all) -> Tensor { return f.dx(all...); };
        run(at, kXInRange, step, x, y, out, d);
      }
    };
    const auto dy = [&](int at, auto& x, auto& y) {
      if constexpr (requires { f.dy(x, y, out, d); }) {
        const auto step = [&](const auto&... all) -> Tensor { return f.dy(all...); };
        run(at, kYInRange, step, x, y, out, d);
      }
    };
    const double number = attrs.scalar.floating();
    if (s.n_in() == 2) {
      dx(0, in(0), in(1));
      dy(1, in(0), in(1));
    } else if (attrs.scalar_first) {
      dy(0, number, in(0));
    } else {
      dx(0, in(0), number);
    }
  } else {
    const auto all = [&](const auto& x, const auto& y) {
      const Tensor& a = in(0);
      const auto dx = [&](const auto&... from) -> Tensor { return f.dx(from...); };
      const auto dy = [&](const auto&... from) -> Tensor { return f.dy(from...); };
      int at = 1;
      if constexpr (!F::kMasked) {
        const auto da = [&](const auto&... from) -> Tensor { return f.da(from...); };
        run(0, false, da, a, x, y, out, d);
      }
      if constexpr (std::is_same_v<decltype(x), const Tensor&>)
        run(at++, kXInRange, dx, a, x, y, out, d);
      if constexpr (std::is_same_v<decltype(y), const Tensor&>)
        run(at, kYInRange, dy, a, x, y, out, d);
    };
    const double x = attrs.x.floating(), y = attrs.y.floating();
    if (attrs.x_scalar && attrs.y_scalar)
      all(x, y);
    else if (attrs.x_scalar)
      all(x, in(1));
    else if (attrs.y_scalar)
      all(in(1), y);
    else
      all(in(1), in(2));
  }
  return g;
}

Samples samples_where(Context c, DType d);
template <class F>
Samples samples_ternary(Context c, DType d) {
  const auto a = [&](const Shape& shape) { return sample_values(c, d, shape, F::kLow, F::kHigh); };
  const auto x = [&](const Shape& shape) {
    return sample_values(c, d, shape, F::kLow2, F::kHigh2, 1);
  };
  const auto y = [&](const Shape& shape) {
    return sample_values(c, d, shape, F::kLow3, F::kHigh3, 2);
  };
  TernaryAttrs of_tensors{.dtype = d}, of_x = of_tensors, of_y = of_tensors;
  of_x.x = F::kLow2 + .7 * (F::kHigh2 - F::kLow2);
  of_x.x_scalar = true;
  of_y.y = F::kLow3 + .6 * (F::kHigh3 - F::kLow3);
  of_y.y_scalar = true;
  return {Sample({a({2, 3}), x({2, 3}), y({2, 3})}, of_tensors),
          Sample({a({37}), x({37}), y({37})}, of_tensors),
          Sample({a({3, 1, 4}), x({2, 1}), y({4})}, of_tensors),
          Sample({a({3, 5}), y({3, 5})}, of_x), Sample({a({3, 5}), x({5})}, of_y)};
}
// Inputs whose values lie in (low, high), second operands in (low2, high2).
template <class F>
Samples samples(Context c, DType d) {
  if constexpr (F::kMasked) return samples_where(c, d);
  if constexpr (F::kArity == 3 && !F::kMasked) return samples_ternary<F>(c, d);
  Samples s;
  const auto x = [&](const Shape& shape, int variant) {
    return sample_values(c, d, shape, F::kLow, F::kHigh, variant);
  };
  const auto y = [&](const Shape& shape, int variant) {
    return sample_values(c, d, shape, F::kLow2, F::kHigh2, variant);
  };
  static const formula::AttrsOf<F> defaults{};
  if constexpr (F::kArity == 1) {
    s.emplace_back(Tensors{x({2, 3}, 0)}, defaults);
    s.emplace_back(Tensors{x({37}, 1)}, defaults);
    s.emplace_back(Tensors{x({3, 1, 5}, 2).T()}, defaults);
    if constexpr (!std::is_empty_v<F>) s.emplace_back(Tensors{x({31}, 3)}, F::sample());
  } else if constexpr (F::kArity == 2) {
    const auto pair = [&](const Shape& a, const Shape& b) {
      s.emplace_back(Tensors{x(a, 0), y(b, 1)}, defaults);
    };
    pair({2, 3}, {2, 3});
    pair({37}, {37});
    pair({2, 3}, {3});
    pair({3, 1}, {2, 1, 5});
    pair({}, {4});
    auto attrs = defaults;
    // 2 and, for floating dtypes, another number inside both ranges.
    attrs.scalar = is_floating(d) ? Scalar(F::kLow2 + .7 * (F::kHigh2 - F::kLow2))
                                  : Scalar(d == bool_ ? 1 : 2);
    s.emplace_back(Tensors{x({3, 5}, 0)}, attrs);
    if (is_floating(d)) attrs.scalar = F::kLow + .6 * (F::kHigh - F::kLow);
    attrs.scalar_first = true;
    s.emplace_back(Tensors{y({3, 5}, 0)}, attrs);
    if constexpr (!std::is_empty_v<F>) {
      attrs = defaults;
      attrs.formula = F::sample();
      s.emplace_back(Tensors{x({31}, 3), y({31}, 4)}, attrs);
    }
    if (F::kPredicate) s.emplace_back(Tensors{x({2, 3}, 0), x({2, 3}, 0)}, defaults);
  }
  for (Sample& one : s) one.differentiable = !F::kPredicate;
  return s;
}

template <class F>
formula::Info info_of() {
  formula::Info info{.type = formula::text_of_type(typeid(F)),
                     .arity = F::kArity,
                     .cost = F::kCost,
                     .predicate = F::kPredicate,
                     .numbers = &formula::scalars<F::kArity>};
  if constexpr (!std::is_empty_v<F>) {
    const formula::AttrsOf<F> attrs{};
    info.bytes = sizeof(F);
    if constexpr (F::kArity == 2)
      info.offset = static_cast<size_t>(reinterpret_cast<const char*>(&attrs.formula) -
                                        reinterpret_cast<const char*>(&attrs));
    static_assert(F::kArity < 3 && sizeof(F) % 8 == 0 && std::is_trivially_copyable_v<F>);
  }
  return info;
}

template <class F>
void define_one() {
  // If x is a number, y is input 0.
  constexpr Keep in = F::kReads & formula::kY   ? Keep::inputs
                      : F::kReads & formula::kX ? keep_input(0)
                                                : Keep::none;
  constexpr Keep kept = F::kReads & formula::kOut ? in | Keep::outputs : in;
  OpDef<formula::AttrsOf<F>> op(F::name, F::kArity == 1   ? std::vector<std::string>{"data"}
                                         : F::kArity == 2 ? std::vector<std::string>{"lhs", "rhs"}
                                         : F::kMasked
                                             ? std::vector<std::string>{"condition", "x", "y"}
                                             : std::vector<std::string>{"a", "x", "y"});
  op.template infer<&infer<F>>().layout(Layout::strided).template samples<&samples<F>>();
  if constexpr (F::kArity > 1) op.inputs(1, F::kArity).broadcasts();
  if constexpr (F::kPredicate)
    op.no_gradient("the result is a truth value");
  else if constexpr ((F::kKinds & formula::kFloats) == 0)
    op.no_gradient("the operands are integers");
  else
    op.template gradient<&gradient<F>>(kept);
}

// Formulas with attributes, those with kNamed = false, and those of gradients are left out.
template <class F>
void name_one() {
  if constexpr (std::is_empty_v<F> && !requires { F::kNamed; })
    if (!std::string_view(F::name).ends_with("_grad"))
      ops::detail::define_formula(F::name, F::kArity, [](const ops::Arguments& a) {
        if constexpr (F::kArity == 1)
          return call(F(), a.tensor(0), Caller::here());
        else if constexpr (F::kArity == 2)
          return call(F(), a.operand(0), a.operand(1));
        else
          return call(F(), a.tensor(0), a.operand(1), a.operand(2));
      });
}

}  // namespace detail

// Also gives the ops without attributes a function by name (named.h).
template <class... F>
void define(formula::List<F...>) {
  (detail::define_one<F>(), ...);
  (detail::name_one<F>(), ...);
}
// For formulas whose text is in formula_source(): generated code may compute them.
template <class... F>
void define_with_text(formula::List<F...> list) {
  define(list);
  (formula::set_info(*find_op(F::name), detail::info_of<F>()), ...);
}

template <class F>
Tensor call(const F& f, const Tensor& x, Caller from) try {
  const UserLine user_line(from);
  detail::expect_tensor(F::name, x);
  const DType d =
      detail::operand_dtype(kPromotion<F>, F::kWidens ? amp::widened(x.dtype()) : x.dtype());
  formula::AttrsOf<F> attrs{};
  if constexpr (!std::is_empty_v<F>) attrs = f;
  return d == x.dtype() ? invoke(op_of<F>(), {x}, attrs) : invoke(op_of<F>(), {x.astype(d)}, attrs);
} catch (const Error&) {
  rethrow_at(from);
}
template <class F>
Tensor call(const F& f, const Operand& x, const Operand& y) try {
  const UserLine user_line(x.from());
  formula::AttrsOf<F> attrs{};
  if constexpr (!std::is_empty_v<F>) attrs.formula = f;
  return detail::run(op_of<F>(), kPromotion<F>, F::kWidens, x, y, attrs);
} catch (const Error&) {
  rethrow_at(x.from());
}
// x and y may both be numbers.
template <class F>
Tensor call(const F&, const Tensor& a, const Operand& x, const Operand& y) try {
  const UserLine user_line(x.from());
  return F::kMasked ? detail::run_where(op_of<F>(), a, x, y)
                    : detail::run_ternary(op_of<F>(), a, x, y);
} catch (const Error&) {
  rethrow_at(x.from());
}

}  // namespace locus
