// References: what an op's results are by its mathematical definition, as loops over long double.
// A reference shares no code with kernels, formulas or gradients. The registry walk compares each
// op with its reference, and each gradient with differences of it. The built-in ops have theirs in
// tests/references, a file a family. An op of a user has one in the file that tests it:
//
//   const References kReferences{{
//       reference<AxpbyAttrs>("axpby", [](const Arrays& in, const AxpbyAttrs& k) {
//         return Arrays{combined(in[0], in[1], [&](Real x, Real y) { return k.a * x + k.b * y; })};
//       }),
//   }};
#pragma once

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include <locus/core/op.h>

namespace locus::test {

using Real = long double;
using Place = std::vector<int64_t>;

inline constexpr Real kNaN = std::numeric_limits<Real>::quiet_NaN();
inline constexpr Real kInf = std::numeric_limits<Real>::infinity();

// A tensor of the host, row-major. An integer of 64 bits fits a Real.
struct Array {
  std::vector<int64_t> shape;
  std::vector<Real> values;
  DType dtype = f64;

  Array() = default;
  Array(std::vector<int64_t> lengths, DType d, Real fill = 0);
  int rank() const { return static_cast<int>(shape.size()); }
  int64_t size() const { return static_cast<int64_t>(values.size()); }
  Real& at(const Place& p);
  Real at(const Place& p) const { return const_cast<Array&>(*this).at(p); }
};
using Arrays = std::vector<Array>;

Array array_of(const Tensor& x);
std::vector<int64_t> lengths_of(const Meta& m);
// Calls f with each place of a shape, in row-major order.
template <class F>
void each_place(const std::vector<int64_t>& shape, F f) {
  for (int64_t n : shape)
    if (n == 0) return;
  Place p(shape.size(), 0);
  while (true) {
    f(static_cast<const Place&>(p));
    size_t i = shape.size();
    while (i > 0 && ++p[i - 1] == shape[i - 1]) p[--i] = 0;
    if (i == 0) return;
  }
}
// The shape that two shapes are broadcast to, and x broadcast to a shape.
std::vector<int64_t> common_shape(const std::vector<int64_t>& a, const std::vector<int64_t>& b);
Array spread(const Array& x, const std::vector<int64_t>& shape);
// f of each element, and of each two of arrays that are broadcast together.
Array mapped(const Array& x, const std::function<Real(Real)>& f);
Array combined(const Array& x, const Array& y, const std::function<Real(Real, Real)>& f);
// What a tensor of dtype d holds of v: integers wrap, fractions are cut.
Real held(Real v, DType d);
inline Real real(const Scalar& s) {
  return s.kind() == Scalar::Kind::floating ? Real{s.floating()} : static_cast<Real>(s.integer());
}

struct Reference {
  std::string op;
  std::function<Arrays(const Arrays& in, const Attrs& attrs)> apply;
  // Nothing cancels in a result, so that each element is right by itself, however small.
  bool each_exact = false;
  // The gradient is a difference of numbers near each other, times the head's: it is right to
  // rounding errors of the head only.
  bool slope_cancels = false;
  // The gradient reads the result, which may have rounded to 0.
  bool slope_of_result = false;
  // f64 inputs are right between 2^-most and 2^most: there f64 holds their squares.
  int most_exponent = 1024;
};

// f takes the inputs, and the attributes where the op has any.
template <class A = NoAttrs, class F>
Reference reference(std::string op, F f) {
  return {std::move(op), [f](const Arrays& in, const Attrs& attrs) -> Arrays {
            if constexpr (std::is_invocable_v<F, const Arrays&>)
              return f(in);
            else
              return f(in, attrs.as<A>());
          }};
}
inline Reference each_exact(Reference r) {
  r.each_exact = true;
  return r;
}
inline Reference slope_of_result(Reference r) {
  r.slope_of_result = true;
  return r;
}
inline Reference within_exponents(int most, Reference r) {
  r.most_exponent = most;
  return r;
}
// The formula subtracts numbers near each other: a small result is right to rounding errors of
// those.
inline Reference cancels(Reference r) {
  r.each_exact = false;
  return r;
}
inline Reference slope_cancels(Reference r) {
  r.slope_cancels = true;
  return r;
}

// Adds references to those that find_reference() knows. Throws Error for an op that has one.
struct References {
  References(std::vector<Reference> references);
};
const Reference* find_reference(std::string_view op);  // nullptr when there is none

}  // namespace locus::test
