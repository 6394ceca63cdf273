// The form of a formula. CPU kernels, CUDA kernels, fused kernels and gradients are made from
// formulas. Formulas need neither Tensor nor the standard library, so NVRTC compiles them, too.
// The registry, all kernels and the tests walk lists of formulas.
#pragma once

#include <locus/ops/kernel/math.h>

namespace locus::formula {

// A formula is a struct whose members are the op's attributes, of type Real; most have none:
//   Unary, Binary, ...   its base: the op's name; the dtypes it has kernels for; the cost of
//                        apply() in additions, for the threads; what its gradient reads
//   apply(x[, y])        the formula, for any C++ arithmetic type; f16 and bf16 come as float
//   grad(x, y, dy)       unary: the gradient of y = apply(x), made of ops on Tensors, so that
//                        gradients of any order exist. What it is not declared to read is undefined
//   dx, dy(x, y, z, d)   binary: the gradients of z = apply(x, y); x or y may be a number. Without
//                        them there is no gradient
//   da, dx, dy(a, x, y, z, d)  ternary: the same for z = apply(a, x, y); x and y may be numbers
// Further members are under Details.

inline constexpr unsigned kFloats = 1, kInts = 2, kBool = 4, kNumbers = kFloats | kInts,
                          kAll = kNumbers | kBool;
inline constexpr unsigned kNothing = 0, kX = 1, kY = 2, kOut = 4;  // what a gradient reads

template <class... F>
struct List {};
template <class... F, class... G>
LOCUS_HD constexpr List<F..., G...> operator+(List<F...>, List<G...>) {
  return {};
}

// Text as a template argument.
struct Name {
  char text[24] = {};
  template <int N>
  LOCUS_HD constexpr Name(const char (&literal)[N]) {
    for (int i = 0; i < N; ++i) text[i] = literal[i];
  }
};

// NVRTC compiles formulas with -default-device, which would make a device variable of each static
// member and each Name: the driver takes milliseconds to load them. Kernels need none of them.
#ifdef __CUDACC_RTC__
template <Name, int, unsigned, int, unsigned = kNothing, bool = false>
struct Form {};
#else
template <Name Of, int Arity, unsigned Kinds, int Cost, unsigned Reads = kNothing,
          bool Predicate = false>
struct Form {
  static constexpr const char* name = Of.text;
  static constexpr int kArity = Arity, kCost = Cost;
  static constexpr unsigned kKinds = Kinds, kReads = Reads;
  static constexpr bool kPredicate = Predicate;  // the result is bool_, else of the operands' dtype
  static constexpr bool kCountsBool = false;     // takes bool as i8
  static constexpr bool kWidens = false;         // takes 16 bits as f32 in an amp::Scope
  static constexpr bool kMasked = false;         // the first of three operands is a mask
  static constexpr unsigned kInRange = Reads == kNothing ? kX | kY : kNothing;
  static constexpr bool kExact = Reads == kNothing;
  static constexpr double kLow = -2, kHigh = 2, kLow2 = kLow, kHigh2 = kHigh, kLow3 = kLow,
                          kHigh3 = kHigh;
};
#endif
template <Name Of, unsigned Kinds, int Cost, unsigned Reads>
struct Unary : Form<Of, 1, Kinds, Cost, Reads> {};
// The slope is 0 wherever it exists.
template <Name Of, unsigned Kinds, int Cost>
struct Step : Unary<Of, Kinds, Cost, kNothing> {
  auto grad(auto&, auto&, auto& dy) const { return zeros_like(dy); }
};
template <Name Of, unsigned Kinds, int Cost, unsigned Reads>
struct Binary : Form<Of, 2, Kinds, Cost, Reads> {};
template <Name Of, unsigned Kinds, int Cost, unsigned Reads>
struct Ternary : Form<Of, 3, Kinds, Cost, Reads> {};
template <class Base>
struct Widens : Base {
  static constexpr bool kWidens = true;
};
template <Name Of, int Arity>
struct Predicate : Form<Of, Arity, kAll, 1, kNothing, true> {};

// An attribute. c(x) is c in x's type, or a double if x is a Tensor. f32 kernels never see the
// double.
class Real {
 public:
  LOCUS_HD constexpr Real(double v) : value_(v), single_(static_cast<float>(v)) {}
  LOCUS_HD constexpr operator double() const { return value_; }
  template <class V>
  LOCUS_HD constexpr auto operator()(const V&) const {
    if constexpr (kSame<V, float>)
      return single_;
    else if constexpr (kInteger<V>)
      return convert<V>(value_);
    else
      return value_;
  }

 private:
  double value_;
  float single_;
};

// --- Details ---
//
//   kInRange        the gradients (kX, kY) of which every step is in f16's range if the gradient
//                   is. In f16, other gradients are computed in f32
//   kExact          the elements of the gradients are those of d, -d or 0. Otherwise, in 16 bits,
//                   gradients that are summed over broadcast axes are computed in f32
//   fits(x[, y])    whether quick(x[, y]) has the bits of apply(). quick() is free of branches, so
//                   the CPU computes blocks that fit in vector code
//   by(y)           a function of x that has the bits of quick(x, y), for one y above 0
//   check(expect)   checks the attributes: expect(c > 0, "c", c, "above 0"); expect.holds(c): c is
//                   a number of the data's dtype, up to rounding
//   kNamed          false: another function than call() has the op's name (ops/named.h)
//   Widens<...>     around the base, if results are too large or too close for 16 bits
//   kLow, kHigh, .. bounds of the samples of tests
//   sample()        attributes other than the defaults, all of them, for a sample

}  // namespace locus::formula
