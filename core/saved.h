// What the recorded call of an op keeps for its gradient function, and how the function sees it.
#pragma once

#include <algorithm>
#include <cstdint>

#include <locus/core/shape.h>
#include <locus/core/tensor.h>

namespace locus {

// The operands whose values backward reads, and so what recording keeps alive and unchanged:
// Keep::none, inputs, outputs, both, or one by one: keep_input(0) | keep_output(0). A value, and a
// constant expression.
struct Keep {
  static const Keep none, inputs, outputs, both;

  // Bit i is the i-th operand; the last bit stands also for all behind it.
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

// A call as its gradient function sees it. What it gives is valid until that function returns.
//
// The function gets the gradients of the results beside it: `dout`, one each, undefined for a
// result that nothing asked for depends on (at least one is defined; an op with one result never
// meets an undefined one; none is when the op's head_gradient is called). It returns one gradient
// an input, undefined where there is none: zero.
class Saved {
 public:
  // `inputs` and `results`: what the pass under way has for each of the call's.
  Saved(const Node& node, const PassInput* inputs, const Tensor* results)
      : node_(node), inputs_(inputs), results_(results) {}

  template <class A>
  const A& attrs() const {
    return *static_cast<const A*>(attributes());
  }
  int n_in() const;
  // Kept tensors; an undefined Tensor when the op's Keep does not include them.
  const Tensor& in(int i) const;
  const Tensor& out(int i = 0) const;
  // Always known.
  const Meta& in_meta(int i) const;
  Shape in_shape(int i) const { return Shape(in_meta(i)); }
  DType in_dtype(int i) const { return in_meta(i).dtype; }
  Context in_context(int i) const;
  const Meta& out_meta(int i = 0) const;
  // Whether this pass has a use for input i's gradient; what is returned for others is dropped.
  bool needs(int i) const;
  // Where input i's gradient ends up, when the one made here is all of it: hand it on as the `out`
  // of the op that makes it, which saves a copy. Mostly undefined, which lets invoke() allocate.
  Tensor place(int i) const;

 private:
  const void* attributes() const;

  const Node& node_;
  const PassInput* const inputs_;
  const Tensor* const results_;
};

}  // namespace locus
