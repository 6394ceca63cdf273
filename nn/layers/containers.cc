#include <locus/nn/containers.h>

#include <algorithm>
#include <string>

#include <locus/core/autograd.h>
#include <locus/core/error.h>
#include <locus/core/recompute.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/join.h>

namespace locus::nn {

void Container::push(std::shared_ptr<Block> block) {
  push_child(std::to_string(size()), std::move(block));
}

Block& Container::operator[](int i) const {
  if (i < -size() || i >= size())
    throw IndexError(type_name(), ": layer ", i, "; there are ", size());
  return *children()[static_cast<size_t>(i < 0 ? i + size() : i)].second;
}

Tensor Sequential::forward(const Tensor& x) {
  Tensor y = x;
  for (const auto& [name, child] : children()) y = (*child)(y);
  return y;
}

Tensors Sequential::forward(const Tensors& in) {
  Tensors y = in;
  for (const auto& [name, child] : children()) y = (*child)(y);
  return y;
}

Tensors Sequential::forward_replicas(const Tensors& xs) {
  Tensors ys = xs;
  for (const auto& [name, child] : children()) ys = child->on_replicas(ys);
  return ys;
}

Sequential Sequential::slice(int begin, int end) const {
  const int first = begin < 0 ? begin + size() : begin, last = end < 0 ? end + size() : end;
  if (first < 0 || last > size() || first > last)
    throw IndexError("Sequential: layers ", begin, " to ", end, "; there are ", size());
  Sequential part;
  for (int i = first; i < last; ++i) part.push(children()[static_cast<size_t>(i)].second);
  return part;
}

Tensor Concurrent::forward(const Tensor& x) {
  if (size() == 0) throw Error("Concurrent: it has no branches; add() some");
  Tensors parts;
  for (const auto& [name, child] : children()) parts.push_back((*child)(x));
  return concat(parts, {.axis = axis_});
}

Tensors Concurrent::forward_replicas(const Tensors& xs) {
  if (size() == 0) throw Error("Concurrent: it has no branches; add() some");
  std::vector<Tensors> parts(xs.size());
  for (const auto& [name, child] : children()) {
    const Tensors ys = child->on_replicas(xs);
    for (size_t i = 0; i < xs.size(); ++i) parts[i].push_back(ys[i]);
  }
  Tensors out;
  for (const Tensors& of_one : parts) out.push_back(concat(of_one, {.axis = axis_}));
  return out;
}

Tensor Residual::forward(const Tensor& x) {
  const Tensor y = (*children()[0].second)(x);
  return joined(y, children().size() > 1 ? (*children()[1].second)(x) : x);
}

Tensors Residual::forward_replicas(const Tensors& xs) {
  const Tensors ys = children()[0].second->on_replicas(xs);
  const Tensors around = children().size() > 1 ? children()[1].second->on_replicas(xs) : xs;
  Tensors out;
  for (size_t i = 0; i < xs.size(); ++i) out.push_back(joined(ys[i], around[i]));
  return out;
}

Tensor Residual::joined(const Tensor& y, const Tensor& around) const {
  if (y.shape() != around.shape())
    throw ShapeError("Residual: the body gives ", describe(y), ", the shortcut ", describe(around),
                     "; expected one shape");
  return activation_(y + around);
}

Tensors Recompute::forward(const Tensors& in) {
  const std::shared_ptr<Block>& body = children()[0].second;
  return once_more([body](const Tensors& x) { return (*body)(x); }, in);
}

Tensors Recompute::forward_replicas(const Tensors& xs) {
  const std::shared_ptr<Block>& body = children()[0].second;
  if (!body->spans_replicas()) return Block::forward_replicas(xs);
  return once_more([body](const Tensors& x) { return body->on_replicas(x); }, xs);
}

Tensors Recompute::once_more(const std::function<Tensors(const Tensors&)>& body,
                             const Tensors& in) const {
  const auto has_input = [&](Context c) {
    return std::ranges::any_of(in, [c](auto& x) { return x.defined() && x.context() == c; });
  };
  Tensors variables;
  for (const auto& [name, p] : children()[0].second->parameters()) {
    if (p.deferred()) return body(in);  // a first run infers its shapes
    if (p.grad_req() == GradReq::null) continue;
    // The inputs' contexts. If none has a replica, all: the body spans contexts.
    const std::vector<Context> places = p.list_ctx();
    const bool here = std::ranges::any_of(places, has_input);
    for (const Context c : places)
      if (!here || has_input(c)) variables.push_back(p.data(c));
  }
  const auto run = [body](const Tensors& x) {
    const Plain plain;  // compiled code has other leaves
    return body(x);
  };
  return autograd::recompute(run, in, variables);
}

}  // namespace locus::nn
