// Any op of the registry called on a sample.
#pragma once

#include <algorithm>
#include <vector>

#include <locus/core/op.h>
#include <locus/core/storage.h>
#include <locus/ops/register.h>

namespace locus::test {

// What the walks over the registry walk.
inline std::vector<const Op*> every_op() {
  register_builtins();
  return all_ops();
}

// The same values behind other strides: every second element of a longer last axis.
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

// An op that writes in place, with one result, has its target first.
inline Tensors run_directly(const Op& op, const Tensors& in, const Attrs& attrs, Context where) {
  const std::vector<Ref> refs(in.begin(), in.end());
  if (op.in_place) {
    detail::invoke_into(op, refs, attrs.view(), {refs.data(), 1});
    return {in[0]};
  }
  Tensors out(static_cast<size_t>(op.results(in.size())));
  detail::invoke(op, refs, attrs.view(), &where, out);
  return out;
}
// The inputs are left as they are.
inline Tensors run(const Op& op, Tensors in, const Attrs& attrs, Context where) {
  if (op.in_place) in[0] = in[0].contiguous() ? in[0].copyto(in[0].context()) : strided(in[0]);
  return run_directly(op, in, attrs, where);
}

}  // namespace locus::test
