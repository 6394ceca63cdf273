// Products and quotients of three numbers. If the result is in range, so is each step: the
// magnitudes decide the order of steps. For host and device code.
#pragma once

#include <locus/ops/kernel/math.h>

namespace locus::m {

// Whether x is normal: not subnormal, 0, infinite or NaN.
LOCUS_HD bool normal(float x) { return (float_bits(x) << 1) - 0x01000000u < 0xfe000000u; }
LOCUS_HD bool normal(double x) {
  return (double_bits(x) << 1) - 0x0020000000000000u < 0xffc0000000000000u;
}

// a b / c. The smallest of a, b and 1 / c is combined with the largest first.
template <class V>
LOCUS_HD V over(V a, V b, V c) {
  const bool less = abs(a) < abs(b);
  const V low = less ? a : b, high = less ? b : a, one = m::c(c, 1);
  const bool largest = abs(high) * abs(c) <= one, smallest = abs(low) * abs(c) > one;  // of 1 / c
  const V part = (largest ? low : smallest ? high : low * high) / c;
  return part * (largest ? high : smallest ? low : one);
}

// a b / c^2. A large c first divides the larger of a and b, a small c the smaller.
template <class V>
LOCUS_HD V over_square(V a, V b, V c) {
  const V one = m::c(c, 1);
  const bool shrinks = abs(c) >= one, first = (abs(a) >= abs(b)) == shrinks;
  const V part = (first ? a : b) / c, rest = first ? b : a;
  const bool toward = (abs(rest) < one) == shrinks;  // part * rest is no nearer to the range's end
  const V quotient = (toward ? part * rest : rest) / c;
  return toward ? quotient : part * quotient;
}

}  // namespace locus::m
