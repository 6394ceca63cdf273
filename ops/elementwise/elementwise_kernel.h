// What host and device kernels of the elementwise families share: the form of a formula, the
// formulas of two operands, and the list a kernel table is made from.
//
// A formula is a struct with
//   name                  the op's name
//   kArity                how many operands apply() takes
//   kKinds                the dtypes it has kernels for
//   kPredicate            true: the result is bool_; false: the operands' dtype
//   kCost                 of one element, in additions: what is worth a second thread
//   apply(x[, y[, z]])    the formula, for any C++ arithmetic type; f16 and bf16 come as float
// and, beside it, the gradient in terms of Tensors (see unary_kernel.h). Adding an op of two
// operands takes a formula here, its name in BinaryOps, and a function in elementwise.h.
#pragma once

#include <locus/core/kernel_list.h>
#include <locus/core/op.h>
#include <locus/ops/kernel/math.h>

namespace locus {

// The attributes of "where": the operands x and y may be numbers instead of inputs. `dtype` is the
// result's; it selects the kernel when both are.
struct WhereAttrs {
  Scalar x = 0, y = 0;
  bool x_scalar = false, y_scalar = false;
  DType dtype = f32;
};

namespace formula {

inline constexpr unsigned kFloats = 1, kInts = 2, kBool = 4;

template <class... F>
struct List {};
template <class A, class B>
struct JoinLists;
template <class... F, class... G>
struct JoinLists<List<F...>, List<G...>> {
  using type = List<F..., G...>;
};
template <class A, class B>
using Join = typename JoinLists<A, B>::type;

template <int Arity, unsigned Kinds, int Cost = 1, bool Predicate = false>
struct Form {
  static constexpr int kArity = Arity;
  static constexpr unsigned kKinds = Kinds;
  static constexpr int kCost = Cost;
  static constexpr bool kPredicate = Predicate;
};

struct Add : Form<2, kFloats | kInts | kBool> {
  static constexpr const char* name = "add";
  template <class V>
  LOCUS_HD static V apply(V x, V y) {
    return m::add(x, y);
  }
};
struct Subtract : Form<2, kFloats | kInts> {
  static constexpr const char* name = "subtract";
  template <class V>
  LOCUS_HD static V apply(V x, V y) {
    return m::subtract(x, y);
  }
};
struct Multiply : Form<2, kFloats | kInts | kBool> {
  static constexpr const char* name = "multiply";
  template <class V>
  LOCUS_HD static V apply(V x, V y) {
    return m::multiply(x, y);
  }
};
struct Divide : Form<2, kFloats> {
  static constexpr const char* name = "divide";
  template <class V>
  LOCUS_HD static V apply(V x, V y) {
    return x / y;
  }
};
struct Mod : Form<2, kFloats | kInts, 16> {
  static constexpr const char* name = "mod";
  template <class V>
  LOCUS_HD static V apply(V x, V y) {
    return m::mod(x, y);
  }
};
struct Power : Form<2, kFloats | kInts, 32> {
  static constexpr const char* name = "power";
  template <class V>
  LOCUS_HD static V apply(V x, V y) {
    return m::power(x, y);
  }
};
struct Maximum : Form<2, kFloats | kInts | kBool> {
  static constexpr const char* name = "maximum";
  template <class V>
  LOCUS_HD static V apply(V x, V y) {
    return m::max(x, y);
  }
};
struct Minimum : Form<2, kFloats | kInts | kBool> {
  static constexpr const char* name = "minimum";
  template <class V>
  LOCUS_HD static V apply(V x, V y) {
    return m::min(x, y);
  }
};
using BinaryOps = List<Add, Subtract, Multiply, Divide, Mod, Power, Maximum, Minimum>;

// Which operands of a call are numbers: scalar[i] is null where operand i is the next input.
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
    const WhereAttrs& a = call.attributes<WhereAttrs>();
    if (a.x_scalar) s.scalar[1] = &a.x;
    if (a.y_scalar) s.scalar[2] = &a.y;
  }
  return s;
}

// A number in the compute type C.
template <class C>
LOCUS_HD C number(const Scalar& s) {
  if constexpr (std::is_floating_point_v<C>)
    return static_cast<C>(s.floating());
  else if constexpr (std::is_same_v<C, bool>)
    return s.floating() != 0;
  else
    return static_cast<C>(s.integer());
}

// The kernels of a list of formulas; Engine::kernel<F, D>() names each.
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
