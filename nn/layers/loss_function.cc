#include <locus/nn/layers/loss_function.h>

#include <utility>

#include <locus/core/error.h>
#include <locus/core/tape/tape.h>

namespace locus::nn {

void check_batch(const char* who, const Tensor& data, const Tensor& label) {
  const std::pair<const char*, const Tensor&> both[] = {{"data", data}, {"label", label}};
  for (const auto& [what, t] : both)
    if (t.defined() && needs_grad(t.impl()))
      throw Error(who, ": ", what, " ", describe(t),
                  t.has_grad() ? " has a gradient attached" : " is the result of recorded ops",
                  ", and gets no gradient here; expected ", what, ".detach()");
  if (data.ndim() > 0 && label.ndim() > 0 && label.shape()[0] == data.shape()[0]) return;
  throw ShapeError(who, ": data ", describe(data), ", label ", describe(label),
                   "; expected one label per sample");
}

Tensor losses_of(const char* who, const LossFunction& loss_fn, const Tensor& out,
                 const Tensor& label) {
  const Tensor l = loss_fn(out, label);
  const int64_t n = label.shape()[0];
  if (!l.defined() || l.shape() != Shape{n})
    throw ShapeError(who, ": of ", n, " samples loss_fn gave ",
                     l.defined() ? describe(l) : "no tensor", "; expected one loss per sample, (",
                     n, ",): a mean over a microbatch is not that of the batch");
  if (l.context() != label.context())
    throw ContextMismatch(who, ": loss_fn gave ", describe(l), "; expected it on ", label.context(),
                          ", where its operands are");
  return l;
}

}  // namespace locus::nn
