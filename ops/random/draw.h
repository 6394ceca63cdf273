// A draw: an op of the random family with the key of the current generator.
#pragma once

#include <locus/core/capture.h>
#include <locus/core/error.h>
#include <locus/core/op.h>
#include <locus/ops/create.h>
#include <locus/ops/random.h>
#include <locus/ops/random/random_kernel.h>

namespace locus::random::detail {

inline constexpr uint64_t kWordsOfElement = 4;  // if an element has blocks of its own

// `words`: 32-bit numbers per element.
template <class A>
Tensor draw(const OpRef<A>& op, A a, const Shape& shape, const TensorOptions& o, DType fallback,
            uint64_t words, const Tensors& in = {}) {
  const Op& drawn = op;
  a.meta = locus::detail::checked_meta(drawn.name.c_str(), o.dtype.value_or(fallback), shape);
  const Context c = o.context.value_or(current_context());
  a.key = live<PhiloxKey>(c, source(static_cast<uint64_t>(shape.size()) * words));
  if (in.empty()) return invoke_on(c, drawn, a);
  return invoke(drawn, std::vector<Ref>(in.begin(), in.end()), a);
}

// The number of tries: ValueError outside [0, 2^53], DTypeError if the dtype does not hold it.
void check_tries(const char* op, int64_t n, DType dtype);

}  // namespace locus::random::detail
