// The values that a recorded op call keeps for its gradient function, and the function's access to
// them.
#pragma once

#include <algorithm>
#include <cstdint>

#include <locus/core/shape.h>
#include <locus/core/tensor.h>

namespace locus {

// The operands whose values backward reads. Recording keeps their values alive and unchanged.
// Choose Keep::none, inputs, outputs, both, or single operands: keep_input(0) | keep_output(0).
// Keep is a value type, usable in constant expressions.
struct Keep {
  static const Keep none, inputs, outputs, both;

  // Bit i: operand i. The last bit also covers all later operands.
  uint32_t in = 0, out = 0;

  constexpr bool input(int i) const { return in >> std::min(i, 31) & 1; }
  constexpr bool output(int i) const { return out >> std::min(i, 31) & 1; }
  friend constexpr Keep operator|(Keep a, Keep b) { return {a.in | b.in, a.out | b.out}; }
  friend bool operator==(const Keep&, const Keep&) = default;
};
inline constexpr Keep Keep::none{0, 0};
inline constexpr Keep Keep::inputs{~0u, 0};
inline constexpr Keep Keep::outputs{0, ~0u};
inline constexpr Keep Keep::both{~0u, ~0u};
constexpr Keep keep_input(int i) { return {1u << i, 0}; }  // i < 31
constexpr Keep keep_output(int i) { return {0, 1u << i}; }
constexpr Keep keep_inputs_from(int i) { return {~0u << i, 0}; }

struct Node;
struct PassInput;

// A recorded call, for its gradient function. References are valid until the function returns.
//
// The function also receives `dout`, one gradient per result, and returns one gradient per input.
// An undefined returned gradient means zero. dout[i] is undefined if no head depends on result i.
// At least one is defined, except for the op's head_gradient function, for which all are undefined.
class Saved {
 public:
  // `inputs` and `results`: the current pass's data for each input and result of the call.
  Saved(const Node& node, const PassInput* inputs, const Tensor* results)
      : node_(node), inputs_(inputs), results_(results) {}

  template <class A>
  const A& attrs() const {
    return *static_cast<const A*>(attributes());
  }
  int n_in() const;
  // Kept tensors. Undefined if the op's Keep does not include the operand.
  const Tensor& in(int i) const;
  const Tensor& out(int i = 0) const;
  // Always available.
  const Meta& in_meta(int i) const;
  Shape in_shape(int i) const { return Shape(in_meta(i)); }
  DType in_dtype(int i) const { return in_meta(i).dtype; }
  Context in_context(int i) const;
  const Meta& out_meta(int i = 0) const;
  // Whether this pass uses input i's gradient. Other returned gradients are dropped.
  bool needs(int i) const;
  // The final memory of input i's gradient, if this call computes all of it. Pass the tensor as
  // `out` to the op that computes the gradient, to save a copy. Often undefined; then invoke()
  // allocates.
  Tensor place(int i) const;

 private:
  const void* attributes() const;

  const Node& node_;
  const PassInput* const inputs_;
  const Tensor* const results_;
};

}  // namespace locus
