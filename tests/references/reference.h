// References: results of ops by their mathematical definition, as loops over long double. A
// reference shares no code with kernels, formulas or gradients. The registry walk compares each op
// with its reference, and each gradient with differences of the reference. References of built-in
// ops are in tests/references, one file per family. For a user's op, define one in its test:
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

// A host tensor, row-major. A Real holds every 64-bit integer.
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
// The broadcast shape of two shapes; x broadcast to a shape.
std::vector<int64_t> common_shape(const std::vector<int64_t>& a, const std::vector<int64_t>& b);
Array spread(const Array& x, const std::vector<int64_t>& shape);
// f of each element; f of each pair after broadcasting.
Array mapped(const Array& x, const std::function<Real(Real)>& f);
Array combined(const Array& x, const Array& y, const std::function<Real(Real, Real)>& f);
// v as dtype d holds it: integers wrap, fractions are cut.
Real held(Real v, DType d);
inline Real real(const Scalar& s) {
  return s.kind() == Scalar::Kind::floating ? Real{s.floating()} : static_cast<Real>(s.integer());
}

struct Reference {
  std::string op;
  std::function<Arrays(const Arrays& in, const Attrs& attrs)> apply;
  // No cancellation in a result: each element has a small relative error.
  bool each_exact = false;
  // The gradient cancels: it is exact to rounding errors of the head only.
  bool slope_cancels = false;
  // The gradient reads the result, or another function of x, which may have rounded to 0.
  bool slope_of_result = false;
  // Inputs far from 0 that lie close together lose the result, by any algorithm.
  bool lost_far = false;
  // Inputs are checked between 2^-most and 2^most, such as where f64 holds their squares.
  int most_exponent = 1024;
};

// f takes the inputs and, if the op has any, the attributes.
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
// The formula cancels: a small result is exact to rounding errors of its terms.
inline Reference cancels(Reference r) {
  r.each_exact = false;
  return r;
}
inline Reference lost_far(Reference r) {
  r.lost_far = true;
  return r;
}
inline Reference slope_cancels(Reference r) {
  r.slope_cancels = true;
  return r;
}

// Adds references for find_reference(). Error if an op has one already.
struct References {
  References(std::vector<Reference> references);
};
const Reference* find_reference(std::string_view op);  // nullptr if there is none

}  // namespace locus::test
