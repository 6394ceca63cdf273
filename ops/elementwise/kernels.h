// Shared by CPU and CUDA kernels of formulas: attributes of a call, numbers as operands, and the
// kernel list.
#pragma once

#include <type_traits>

#include <locus/core/kernel_list.h>
#include <locus/core/op.h>
#include <locus/ops/elementwise/form.h>

namespace locus {

// The attributes of ops of three operands: the last two, x and y, may be numbers instead of inputs.
// `dtype` is the result's; it selects the kernel.
struct TernaryAttrs {
  Scalar x = 0, y = 0;
  bool x_scalar = false, y_scalar = false;
  DType dtype = f32;
};

namespace formula {

// A binary formula that has attributes.
template <class F>
struct WithNumber : BinaryAttrs {
  F formula;
};
template <class F>
struct AttrsType {
  using type = std::conditional_t<std::is_empty_v<F>, NoAttrs, F>;
};
template <class F>
requires(F::kArity == 2) struct AttrsType<F> {
  using type = std::conditional_t<std::is_empty_v<F>, BinaryAttrs, WithNumber<F>>;
};
template <class F>
requires(F::kArity == 3) struct AttrsType<F> {
  using type = TernaryAttrs;
};
template <class F>
using AttrsOf = typename AttrsType<F>::type;

template <class F>
LOCUS_HD F formula_of(const AttrsOf<F>& a) {
  if constexpr (std::is_empty_v<F>)
    return F();
  else if constexpr (F::kArity == 1)
    return a;
  else
    return a.formula;
}

// Which operands of a call are numbers: scalar[i] is null if operand i is an input.
struct Scalars {
  const Scalar* scalar[3] = {};
};
template <int Arity>
LOCUS_HD Scalars scalars(const Call& call) {
  Scalars s;
  if constexpr (Arity == 2) {
    if (call.n_in == 1) {
      const BinaryAttrs& a = call.attributes<BinaryAttrs>();
      s.scalar[a.scalar_first ? 0 : 1] = &a.scalar;
    }
  } else if constexpr (Arity == 3) {
    const TernaryAttrs& a = call.attributes<TernaryAttrs>();
    if (a.x_scalar) s.scalar[1] = &a.x;
    if (a.y_scalar) s.scalar[2] = &a.y;
  }
  return s;
}

// A number as an element of T.
template <class T>
LOCUS_HD T number(const Scalar& s) {
  if constexpr (kInteger<T>)
    return static_cast<T>(s.integer());
  else
    return convert<T>(s.floating());
}

// The kernels of a list of formulas; Engine::kernel<F, D>() returns each.
template <class Engine, class... F>
constexpr KernelList kernels_of(List<F...>) {
  KernelList list;
  const auto add = [&]<class G>(G) {
    const auto of = [](auto d) { return Engine::template kernel<G, d>(); };
    if constexpr ((G::kKinds & kFloats) != 0) list.add_each(G::name, kFloatDTypes, of);
    if constexpr ((G::kKinds & kInts) != 0) list.add_each(G::name, DTypes<i32, i64, u8, i8>{}, of);
    if constexpr ((G::kKinds & kBool) != 0) list.add_each(G::name, DTypes<bool_>{}, of);
  };
  (add(F{}), ...);
  return list;
}

}  // namespace formula
}  // namespace locus
