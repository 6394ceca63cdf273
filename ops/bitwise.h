// Bits of integers.
//
//   const Tensor even = (x & 1) == 0;
//
// Operands broadcast and promote as in elementwise.h. Floating operands are a DTypeError. There are
// no gradients.
#pragma once

#include <locus/ops/operand.h>

namespace locus {

// bool stays bool.
Tensor bitwise_and(const Operand& x, const Operand& y);
Tensor bitwise_or(const Operand& x, const Operand& y);
Tensor bitwise_xor(const Operand& x, const Operand& y);
// All bits inverted; logical_not of bool.
Tensor bitwise_not(const Tensor& x, Caller = Caller::here());
inline Tensor invert(const Tensor& x, Caller from = Caller::here()) { return bitwise_not(x, from); }
// x 2^y, wrapped. If the count y is negative, or not below the dtype's number of bits, the result
// is 0. bool gives i8.
Tensor left_shift(const Operand& x, const Operand& y);
// x / 2^y, rounded down. If the count y is out of that range, the result is 0, or -1 if x is
// negative.
Tensor right_shift(const Operand& x, const Operand& y);

inline Tensor operator&(const Operand& x, const Operand& y) { return bitwise_and(x, y); }
inline Tensor operator|(const Operand& x, const Operand& y) { return bitwise_or(x, y); }
inline Tensor operator^(const Operand& x, const Operand& y) { return bitwise_xor(x, y); }
inline Tensor operator~(At<Tensor> x) { return bitwise_not(x.value, x.from); }
inline Tensor operator~(At<Selection> x) { return bitwise_not(x.value.gather(), x.from); }

// In place, as x += y.
Tensor& operator&=(Tensor& x, const Operand& y);
Tensor& operator|=(Tensor& x, const Operand& y);
Tensor& operator^=(Tensor& x, const Operand& y);
// a(0) |= 1 writes into a.
inline Tensor operator&=(Tensor&& x, const Operand& y) { return x &= y; }
inline Tensor operator|=(Tensor&& x, const Operand& y) { return x |= y; }
inline Tensor operator^=(Tensor&& x, const Operand& y) { return x ^= y; }

}  // namespace locus
