// A traced function as values: who computes what from what. Internal to ops/fuse.
#pragma once

#include <span>
#include <string>
#include <vector>

#include <locus/core/replay/traced_calls.h>
#include <locus/core/tensor.h>
#include <locus/ops/elementwise/formula_info.h>

namespace locus::fusion {

// Why a function is not fused, for describe().
struct Unfused {
  std::string why;
};

// How a value is read: some of its elements, or a broadcast of them. Or a number.
struct Read {
  int value = -1;  // -1: a number
  View view = {};
  Scalar number = 0;
  DType dtype = f32;  // of the elements
};

struct Value {
  enum class Kind : uint8_t { input, number, cast, formula, reduction, other };

  Kind kind = Kind::input;
  View view = {};          // all elements; data: the address in the trace
  int number = 0;          // of the input, or of the call's result
  std::vector<Read> from;  // what it is computed from; a number's: itself
  const Op* op = nullptr;
  const formula::Info* formula = nullptr;
  std::string reduction = {};  // in C++: "Sum()"
  uint32_t axes = 0;           // of the reduction
  Attrs attrs = {};

  // Whether kernels of formulas compute it.
  bool computed() const { return kind != Kind::input && kind != Kind::other; }
};

// A result of the function, or undefined.
struct Result {
  int value = -1;
  View view = {};
};

struct Graph {
  std::vector<Value> values;  // the inputs first
  std::vector<Result> results;

  // Throws Unfused if a call cannot be repeated, or if the function reads other tensors than `in`.
  // Unless `arguments`, also if a result is an argument.
  static Graph of(const capture::CallTrace& trace, const Tensors& in, const Tensors& out,
                  bool arguments);
};

// Whether `view` has the elements of `base`, broadcast or not.
bool is_broadcast(const View& view, const View& base);

}  // namespace locus::fusion
