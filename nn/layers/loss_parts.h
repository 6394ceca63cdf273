// Shared by the losses. Internal to nn.
#pragma once

#include <cmath>
#include <initializer_list>
#include <optional>
#include <string>

#include <locus/core/amp.h>
#include <locus/core/call/named_calls.h>
#include <locus/core/error.h>
#include <locus/core/tensor.h>
#include <locus/ops/copy.h>
#include <locus/ops/elementwise.h>

namespace locus::nn {

// f16 and bf16 losses are computed in f32 and rounded once.
inline DType wide(DType d) { return size_of(d) == 2 ? f32 : d; }
inline Tensor wide(const Tensor& x) { return size_of(x.dtype()) == 2 ? cast(x, f32) : x; }

// Rounds to the dtype that the floating operands promote to. Within an amp::Scope f32 stays f32.
inline Tensor rounded(const Tensor& loss, std::initializer_list<const Tensor*> operands) {
  if (loss.dtype() != f32) return loss;
  std::optional<DType> d;
  for (const Tensor* t : operands)
    if (t->defined() && is_floating(t->dtype())) d = d ? promote(*d, t->dtype()) : t->dtype();
  return d && amp::widened(*d) != f32 && *d != f64 ? cast(loss, *d) : loss;
}

// sample_weight must broadcast to `limit`.
inline Tensor weigh(const char* who, Tensor loss, double weight, const Tensor& sample_weight,
                    const Shape& limit) {
  if (sample_weight.defined()) {
    if (!broadcasts_to(sample_weight.shape(), limit))
      throw ShapeError(who, ": sample_weight ", describe(sample_weight),
                       ": expected a shape that broadcasts to ", limit);
    loss = loss * sample_weight;
  }
  return weight == 1 ? loss : loss * weight;
}

// Integers in [0, end) that a loss takes.
struct WholeNumbers {
  const char* who;
  const char* what;
  const Tensor& values;
  int64_t end;
};

// Calls f(). An IndexError names the loss and its numbers instead of the op. `used` returns the
// numbers that count. On a GPU the error comes later and names the loss.
Tensor checked(const WholeNumbers& w, const auto& used, const auto& f) {
  const NamedCalls named(w.who, w.what);
  if (!is_host(w.values.context())) return f();
  try {
    return f();
  } catch (const IndexError&) {
    std::string got;
    for (const double v : cast(used(), f64).template to_vector<double>())
      if (got.empty() && !(v >= 0 && v < static_cast<double>(w.end) && v == std::floor(v)))
        got = text_of(", got ", v);
    throw IndexError(w.who, ": ", w.what, " ", describe(w.values),
                     ": expected whole numbers in [0, ", w.end, ")", got);
  }
}

}  // namespace locus::nn
