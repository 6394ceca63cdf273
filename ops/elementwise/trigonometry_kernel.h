// The trigonometric and hyperbolic formulas of one operand, in radians; the form is
// unary_kernel.h's.
#pragma once

#include <locus/ops/elementwise/unary_kernel.h>

namespace locus::formula {

struct Sin : Unary<kFloats, 16, Keep::inputs> {
  static constexpr const char* name = "sin";
  template <class V>
  LOCUS_HD static V apply(V x) {
    return m::sin(x);
  }
  template <class V>
  static V grad(const V& x, const V&, const V& dy) {
    return dy * cos(x);
  }
};
struct Cos : Unary<kFloats, 16, Keep::inputs> {
  static constexpr const char* name = "cos";
  template <class V>
  LOCUS_HD static V apply(V x) {
    return m::cos(x);
  }
  template <class V>
  static V grad(const V& x, const V&, const V& dy) {
    return -(dy * sin(x));
  }
};
struct Tan : Unary<kFloats, 16, Keep::outputs> {
  static constexpr const char* name = "tan";
  static constexpr double kLow = -1.2, kHigh = 1.2;
  template <class V>
  LOCUS_HD static V apply(V x) {
    return m::tan(x);
  }
  template <class V>
  static V grad(const V&, const V& y, const V& dy) {
    return dy * (y * y + 1);
  }
};
struct Arcsin : Unary<kFloats, 16, Keep::inputs> {
  static constexpr const char* name = "arcsin";
  static constexpr double kLow = -0.8, kHigh = 0.8;
  template <class V>
  LOCUS_HD static V apply(V x) {
    return m::asin(x);
  }
  template <class V>
  static V grad(const V& x, const V&, const V& dy) {
    return dy * rsqrt(1 - x * x);
  }
};
struct Arccos : Unary<kFloats, 16, Keep::inputs> {
  static constexpr const char* name = "arccos";
  static constexpr double kLow = -0.8, kHigh = 0.8;
  template <class V>
  LOCUS_HD static V apply(V x) {
    return m::acos(x);
  }
  template <class V>
  static V grad(const V& x, const V&, const V& dy) {
    return -(dy * rsqrt(1 - x * x));
  }
};
struct Arctan : Unary<kFloats, 16, Keep::inputs> {
  static constexpr const char* name = "arctan";
  template <class V>
  LOCUS_HD static V apply(V x) {
    return m::atan(x);
  }
  template <class V>
  static V grad(const V& x, const V&, const V& dy) {
    return dy / (x * x + 1);
  }
};
struct Sinh : Unary<kFloats, 16, Keep::inputs> {
  static constexpr const char* name = "sinh";
  template <class V>
  LOCUS_HD static V apply(V x) {
    return m::sinh(x);
  }
  template <class V>
  static V grad(const V& x, const V&, const V& dy) {
    return dy * cosh(x);
  }
};
struct Cosh : Unary<kFloats, 16, Keep::inputs> {
  static constexpr const char* name = "cosh";
  template <class V>
  LOCUS_HD static V apply(V x) {
    return m::cosh(x);
  }
  template <class V>
  static V grad(const V& x, const V&, const V& dy) {
    return dy * sinh(x);
  }
};
struct Arcsinh : Unary<kFloats, 16, Keep::inputs> {
  static constexpr const char* name = "arcsinh";
  template <class V>
  LOCUS_HD static V apply(V x) {
    return m::asinh(x);
  }
  template <class V>
  static V grad(const V& x, const V&, const V& dy) {
    return dy * rsqrt(x * x + 1);
  }
};
struct Arccosh : Unary<kFloats, 16, Keep::inputs> {
  static constexpr const char* name = "arccosh";
  static constexpr double kLow = 1.2, kHigh = 4;
  template <class V>
  LOCUS_HD static V apply(V x) {
    return m::acosh(x);
  }
  template <class V>
  static V grad(const V& x, const V&, const V& dy) {
    return dy * rsqrt(x * x - 1);
  }
};
struct Arctanh : Unary<kFloats, 16, Keep::inputs> {
  static constexpr const char* name = "arctanh";
  static constexpr double kLow = -0.8, kHigh = 0.8;
  template <class V>
  LOCUS_HD static V apply(V x) {
    return m::atanh(x);
  }
  template <class V>
  static V grad(const V& x, const V&, const V& dy) {
    return dy / (1 - x * x);
  }
};

using TrigonometricOps =
    List<Sin, Cos, Tan, Arcsin, Arccos, Arctan, Sinh, Cosh, Arcsinh, Arccosh, Arctanh>;

}  // namespace locus::formula
