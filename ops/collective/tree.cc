#include <locus/ops/collective/tree.h>

#include <string>

#include <locus/core/base/empty_tensor.h>
#include <locus/core/base/text.h>
#include <locus/core/error.h>
#include <locus/core/io/print.h>
#include <locus/ops/elementwise.h>

namespace locus {
namespace {

Tensor combined(ReduceOp op, const Tensor& a, const Tensor& b) {
  switch (op) {
    case ReduceOp::max:
      return maximum(a, b);
    case ReduceOp::min:
      return minimum(a, b);
    case ReduceOp::prod:
      return a * b;
    default:
      return a + b;
  }
}

}  // namespace

void check_places(const Group& g, std::span<const Tensor> parts) {
  if (static_cast<int>(parts.size()) != g.size())
    throw Error(parts.size(), " parts for ", to_string(g), "; expected one per context, ",
                g.size());
  for (int i = 0; i < g.size(); ++i) {
    const Tensor& part = parts[static_cast<size_t>(i)];
    detail::expect_tensor("", part, "part ", i, " of ", to_string(g));
    if (part.context() != g[i])
      throw ContextMismatch("part ", i, " of ", to_string(g), " is ", describe(part),
                            "; expected it on ", g[i], ": part.as_in_context(", g[i], ")");
  }
}

void check_parts(const Group& g, std::span<const Tensor> parts, int axis) {
  check_places(g, parts);
  const Tensor& first = parts[0];
  const Shape shape = first.shape();
  for (size_t i = 1; i < parts.size(); ++i) {
    const Tensor& part = parts[i];
    const Shape its = part.shape();
    const auto refuse = [&]<class E>(E*, const auto&... expected) {
      throw E("part ", i, " of ", to_string(g), " is ", describe(part), "; expected part 0's ",
              expected...);
    };
    if (part.dtype() != first.dtype())
      refuse(static_cast<DTypeError*>(nullptr), "dtype, ", name(first.dtype()));
    bool same = its.rank() == shape.rank();
    for (int k = 0; same && k < its.rank(); ++k) same = k == axis || its[k] == shape[k];
    if (!same)
      refuse(static_cast<ShapeError*>(nullptr), "shape, ", shape,
             axis < 0 ? "" : text_of(", but along axis ", axis));
  }
}

void check_op(ReduceOp op, const Tensor& part) {
  check_reduce_op(op);
  if (op == ReduceOp::mean && !is_floating(part.dtype()))
    throw DTypeError("the mean of ", name(part.dtype()), "; expected floating-point parts");
}

void check_root(const Group& g, int root) {
  if (root < 0 || root >= g.size())
    throw IndexError("root ", root, "; expected 0 to ", g.size() - 1);
}

void check_out(const Group& g, std::span<const Tensor> out) {
  if (out.empty()) return;
  if (static_cast<int>(out.size()) != g.size())
    throw Error(out.size(), " targets for ", to_string(g), "; expected one per context, ",
                g.size());
  for (int i = 0; i < g.size(); ++i)
    detail::expect_tensor("", out[static_cast<size_t>(i)], "target ", i, " of ", to_string(g));
}

void check_targets(const Group& g, std::span<const Tensor> out, const Tensor& result) {
  for (int i = 0; i < static_cast<int>(out.size()); ++i) {
    const Tensor& t = out[static_cast<size_t>(i)];
    if (!t.defined()) continue;
    const auto which = [&] { return text_of("target ", i, " is ", describe(t), "; expected "); };
    if (t.context() != g[i]) throw ContextMismatch(which(), "it on ", g[i]);
    if (t.dtype() != result.dtype()) throw DTypeError(which(), name(result.dtype()));
    if (t.shape() != result.shape()) throw ShapeError(which(), result.shape());
  }
}

Tensor combine_up(Tensors parts, ReduceOp op, Caller from) {
  const size_t n = parts.size();
  for (size_t step = 1; step < n; step *= 2)
    for (size_t i = 0; i + step < n; i += 2 * step)
      parts[i] = combined(op, parts[i], parts[i + step].copyto(parts[i].context(), {}, from));
  return op == ReduceOp::mean ? parts[0] / static_cast<double>(n) : parts[0];
}

void spread_down(const Tensor& x, size_t n,
                 const std::function<Tensor(size_t, const Tensor&)>& put) {
  Tensors there(n);
  there[0] = put(0, x);
  size_t step = 1;
  while (step < n) step *= 2;
  for (step /= 2; step >= 1; step /= 2)
    for (size_t i = 0; i + step < n; i += 2 * step) there[i + step] = put(i + step, there[i]);
}

Tensor packed(const Tensor& x) { return x.contiguous() ? x : row_major_copy(x, x.dtype()); }

void give(const Tensor& x, Context c, Tensor& out, Caller from) {
  if (out.defined())
    x.copyto(out, {}, from);
  else
    out = x.copyto(c, {}, from);
}

}  // namespace locus
