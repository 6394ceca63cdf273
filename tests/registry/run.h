// Calls any op of the registry on a sample.
#pragma once

#include <algorithm>
#include <vector>

#include <locus/core/memory/storage.h>
#include <locus/core/op.h>
#include <locus/ops/register.h>

namespace locus::test {

inline std::vector<const Op*> every_op() {
  register_builtins();
  return all_ops();
}

// The same values with other strides: every second element of a longer last axis.
inline Tensor strided(const Tensor& x) {
  if (x.ndim() == 0) return x;
  View v = x.impl().view;
  const int last = v.meta.rank - 1;
  v.meta.shape[last] = 2 * std::max<int64_t>(v.meta.shape[last], 1);
  const Tensor wide = allocate(x.context(), v.meta);
  View every = wide.impl().view;
  every.meta = x.impl().view.meta;
  every.stride[last] *= 2;
  const Tensor seen = alias(wide, every);
  x.copyto(seen);
  return seen;
}

// The inputs that an in-place op writes, by its results: with one result the first, with any number
// all except gradients.
inline std::vector<size_t> targets(const Op& op, size_t inputs) {
  if (!op.in_place) return {};
  if (op.n_out == 1) return {0};
  std::vector<size_t> written;
  for (size_t i = 0; i < inputs; ++i)
    if (op.arguments[i % op.arguments.size()] != "grad") written.push_back(i);
  return written;
}

inline Tensors run_directly(const Op& op, const Tensors& in, const Attrs& attrs, Context where) {
  const std::vector<Ref> refs(in.begin(), in.end());
  if (op.in_place) {
    Tensors written;
    for (const size_t i : targets(op, in.size())) written.push_back(in[i]);
    detail::invoke_into(op, refs, attrs.view(), std::vector<Ref>(written.begin(), written.end()));
    return written;
  }
  Tensors out(static_cast<size_t>(op.results(in.size())));
  detail::invoke(op, refs, attrs.view(), &where, out);
  return out;
}
// Leaves the inputs unchanged. An op with any number of targets needs contiguous ones.
inline Tensors run(const Op& op, Tensors in, const Attrs& attrs, Context where) {
  const std::vector<size_t> written = targets(op, in.size());
  for (const size_t i : written) {
    if (op.n_out == 1 && !in[i].contiguous()) {
      in[i] = strided(in[i]);
      continue;
    }
    const Tensor own = allocate(in[i].context(), make_meta(in[i].dtype(), in[i].shape()));
    in[i].copyto(own);
    in[i] = own;
  }
  return run_directly(op, in, attrs, where);
}

}  // namespace locus::test
