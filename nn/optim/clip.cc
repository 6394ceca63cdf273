#include <locus/nn/clip.h>

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include <locus/core/autograd.h>
#include <locus/core/base/at_line.h>
#include <locus/core/base/empty_tensor.h>
#include <locus/core/base/layout.h>
#include <locus/core/error.h>
#include <locus/core/memory/storage.h>
#include <locus/core/observe/memory_events.h>
#include <locus/core/tape/tape.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/optim.h>
#include <locus/ops/reduce.h>
#include <locus/ops/unary.h>

namespace locus {
namespace {

// Groups of arrays for one call each, in order of first appearance.
std::vector<Tensors> alike(const Tensors& arrays) {
  std::vector<Tensors> groups;
  std::map<std::pair<Context, DType>, size_t> of;
  for (const Tensor& t : arrays) {
    const auto [at, added] = of.try_emplace({t.context(), t.dtype()}, groups.size());
    if (added) groups.emplace_back();
    groups[at->second].push_back(t);
  }
  return groups;
}

void check(const char* who, const Tensors& arrays) {
  if (arrays.empty()) throw ValueError(who, ": no arrays; expected at least one");
  for (size_t i = 0; i < arrays.size(); ++i) {
    const Tensor& t = arrays[i];
    detail::expect_tensor(who, t, "array ", i);
    if (!is_floating(t.dtype()))
      throw DTypeError(who, ": array ", i, ", ", describe(t), "; expected a floating dtype");
  }
}

// Checks all that an op could refuse after other arrays have been written.
void check_targets(const char* who, const char* option, double limit, const Tensors& arrays) {
  if (!(limit >= 0)) throw ValueError(who, ": ", option, " ", limit, "; expected a limit >= 0");
  check(who, arrays);
  std::vector<std::pair<ByteRange, size_t>> places;
  for (size_t i = 0; i < arrays.size(); ++i) {
    const Tensor& t = arrays[i];
    check_in_place(text_of(who, ": array ", i), {}, t);
    if (!t.contiguous())
      throw ShapeError(who, ": array ", i, ", ", describe(t),
                       ", has gaps or another order; expected contiguous tensors, since they are "
                       "written in place");
    if (t.size() > 0) places.emplace_back(byte_range(t.impl().view), i);
  }
  std::ranges::sort(places, std::less<>(), [](const auto& p) { return p.first.begin; });
  for (size_t k = 1; k < places.size(); ++k) {
    if (places[k].first.begin >= places[k - 1].first.end) continue;
    const auto [a, b] = std::minmax(places[k - 1].second, places[k].second);
    throw ValueError(who, ": arrays ", a, " and ", b, " share memory, ", describe(arrays[a]),
                     " and ", describe(arrays[b]),
                     "; expected each array once, since they are written in "
                     "place");
  }
}

void clip_arrays(const Tensors& arrays, const Tensor& norm, double max_norm) {
  const autograd::Pause pause;
  for (const Tensors& group : alike(arrays))
    multi_clip_norm(group, norm.as_in_context(group[0].context()), max_norm);
}

}  // namespace

Tensor global_norm(const Tensors& arrays, Caller from) try {
  const UserLine user_line(from);
  check("global_norm", arrays);
  const autograd::Pause pause;
  Tensor total;
  for (const Tensors& group : alike(arrays)) {
    // Squares of f64 may overflow or underflow although the norm does not.
    Tensor part = group[0].dtype() == f64 ? norm(group[0]) : sqrt(multi_sum_sq(group).sum());
    for (size_t i = 1; group[0].dtype() == f64 && i < group.size(); ++i)
      part = hypot(part, norm(group[i]));
    part = part.as_in_context(arrays[0].context());
    total = total.defined() ? hypot(total, part) : part;
  }
  return total;
} catch (const Error&) {
  rethrow_at(from);
}

void clip_to_norm(const Tensors& arrays, const Tensor& norm, double max_norm, Caller from) try {
  const UserLine user_line(from);
  check_targets("clip_to_norm", "max_norm", max_norm, arrays);
  if (norm.size() != 1 || norm.dtype() != f64)
    throw ShapeError("clip_to_norm: norm ", describe(norm), "; expected one f64");
  clip_arrays(arrays, norm, max_norm);
} catch (const Error&) {
  rethrow_at(from);
}

Tensor clip_global_norm(const Tensors& arrays, double max_norm, Caller from) try {
  const UserLine user_line(from);
  check_targets("clip_global_norm", "max_norm", max_norm, arrays);
  const Tensor norm = global_norm(arrays);
  clip_arrays(arrays, norm, max_norm);
  return norm;
} catch (const Error&) {
  rethrow_at(from);
}

void clip_value(const Tensors& arrays, double limit, Caller from) try {
  const UserLine user_line(from);
  check_targets("clip_value", "limit", limit, arrays);
  const autograd::Pause pause;
  for (const Tensors& group : alike(arrays)) multi_clip(group, limit);
} catch (const Error&) {
  rethrow_at(from);
}

Tensor all_finite(const Tensors& arrays, Caller from) try {
  const UserLine user_line(from);
  check("all_finite", arrays);
  const autograd::Pause pause;
  Tensor all;
  for (const Tensors& group : alike(arrays)) {
    const Tensor one = multi_all_finite(group).as_in_context(arrays[0].context());
    all = all.defined() ? all * one : one;
  }
  return all;
} catch (const Error&) {
  rethrow_at(from);
}

Tensors nn::gradients(const Block& net, std::optional<Context> c, Caller from) {
  return gradients(net.parameters(), c, from);
}
Tensors nn::gradients(const Parameters& parameters, std::optional<Context> c, Caller from) try {
  const UserLine user_line(from);
  Tensors all;
  for (const auto& [name, p] : parameters)
    if (p.grad_req() != GradReq::null) {
      if (!c && p.initialized() && p.list_ctx().size() > 1)
        throw Error("gradients: Parameter '", p.name(), "' has one on each of [",
                    listed(p.list_ctx()),
                    "]; name the context, gradients(net, c), or limit all gradients of an "
                    "update with Trainer::clip_global_norm");
      all.push_back(p.grad(c));
    }
  // A shared parameter has several names.
  for (size_t i = 0; i < all.size(); ++i)
    all.erase(std::remove_if(all.begin() + static_cast<ptrdiff_t>(i) + 1, all.end(),
                             [&](const Tensor& t) { return t.is(all[i]); }),
              all.end());
  return all;
} catch (const Error&) {
  rethrow_at(from);
}

}  // namespace locus
