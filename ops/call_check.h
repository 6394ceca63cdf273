// Checks of a call's operands, and errors that name the function that the user called. Internal to
// ops.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include <locus/core/base/at_line.h>
#include <locus/core/base/empty_tensor.h>
#include <locus/core/call/named_calls.h>
#include <locus/core/error.h>
#include <locus/core/tensor.h>
#include <locus/ops/matmul_attrs.h>

namespace locus::detail {

// Throws DTypeError, which names the operands, unless all defined operands are floating. An integer
// would promote every later result to f64.
inline void expect_floating(const char* who,
                            std::initializer_list<std::pair<const char*, const Tensor*>> operands) {
  for (const auto& [name, x] : operands)
    if (x->defined() && !is_floating(x->dtype())) [[unlikely]] {
      std::string all;
      for (const auto& [other, y] : operands)
        if (y->defined()) all += text_of(all.empty() ? "" : ", ", other, " ", describe(*y));
      throw DTypeError(who, ": ", all, ": expected floating operands, got ", name, " of ",
                       locus::name(x->dtype()), "; cast it: ", name,
                       ".astype(f32), or images with data::transforms::ToTensor()");
    }
}

// Throws ContextMismatch, which names both operands, unless they may be mixed.
inline void expect_together(std::string_view who, std::string_view a_name, const Tensor& a,
                            std::string_view b_name, const Tensor& b) {
  if (!mix(a.context(), b.context())) [[unlikely]]
    throw ContextMismatch(who, ": operands live on different contexts: ", a_name, " ", describe(a),
                          ", ", b_name, " ", describe(b), "; move one first: ", b_name,
                          ".as_in_context(", a.context(), ")");
}

// The shape that all tensors broadcast to. Its ShapeError names `what` and describes the tensors.
inline Shape broadcast_all(std::string_view who, std::string_view what, const Tensors& all) try {
  Shape shape;
  for (const Tensor& x : all) shape = broadcast_shapes(shape, x.shape());
  return shape;
} catch (const ShapeError& e) {
  throw ShapeError(who, ": ", what, " ", listed(all, [](const Tensor& x) { return describe(x); }),
                   ": ", e.what());
}

// normalize_axis(), whose error describes x.
inline int axis_of(const Tensor& x, int64_t axis, std::string_view op, int new_axes = 0) {
  const int rank = x.ndim() + new_axes;
  if (axis < -rank || axis >= rank) [[unlikely]]
    throw ShapeError(op, ": axis ", axis, " is out of bounds for a tensor of ", rank, " axes, ",
                     describe(x), new_axes > 0 ? " with a new axis" : "", "; expected ",
                     rank == 0 ? "a tensor with axes" : text_of(-rank, " to ", rank - 1));
  return normalize_axis(axis, rank, op);
}

inline void check_activation(FusedActivation a) {
  if (a > FusedActivation::relu) [[unlikely]]
    throw ValueError("activation ", static_cast<int>(a),
                     "; expected FusedActivation::none or FusedActivation::relu");
}

// Returns f(). If f throws an error that begins with `op`, the error begins with `who` instead.
auto called_as(const char* who, const char* op, const auto& f) {
  try {
    return f();
  } catch (const Error&) {
    std::rethrow_exception(reworded([&](const std::string& text) {
      const std::string begin = std::string(op) + ":";
      return text.starts_with(begin) ? who + text.substr(begin.size() - 1) : text;
    }));
  }
}

// In a catch block: rethrows the Error with the line of the call. A text that does not begin with
// the function's name gets the name in front: "divmod: floor_divide: lhs ...".
[[noreturn]] inline void rethrow_as(std::string_view who, Caller from) {
  std::rethrow_exception(reworded([&](const std::string& text) {
    const std::string_view begin = std::string_view(text).substr(0, text.find(':'));
    return with_line(begin.ends_with(who) ? text : text_of(who, ": ", text), from);
  }));
}

// Returns f(), which calls ops with indices that the function `who` takes as `what`. An IndexError
// names both on every context, at once or later: "gather_nd: indices: take: index 7 ...".
auto with_indices(const char* who, const char* what, const auto& f) {
  const NamedCalls named(who, what);
  try {
    return f();
  } catch (const IndexError&) {
    std::rethrow_exception(
        reworded([&](const std::string& text) { return text_of(who, ": ", what, ": ", text); }));
  }
}

}  // namespace locus::detail
