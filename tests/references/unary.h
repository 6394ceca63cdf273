// References of functions of one number.
#pragma once

#include <type_traits>
#include <utility>

#include "tests/references/reference.h"

namespace locus::test {

inline constexpr Real kPi = 3.14159265358979323846264338327950288L;

// f of one number, or of a number and the op's attributes.
template <class A = NoAttrs, class F>
Reference unary(std::string op, F f) {
  return each_exact(reference<A>(std::move(op), [f](const Arrays& in, const A& a) -> Arrays {
    return {mapped(in[0], [&](Real x) -> Real {
      if constexpr (std::is_invocable_v<F, Real>)
        return f(x);
      else
        return f(x, a);
    })};
  }));
}

}  // namespace locus::test
