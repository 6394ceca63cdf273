// What collectives are made of where devices offer nothing better: a binary tree of copies and
// sums; and what is asked of parts. Internal to the family.
#pragma once

#include <exception>
#include <functional>
#include <span>
#include <string>

#include <locus/core/error.h>
#include <locus/core/group.h>
#include <locus/core/tensor.h>

namespace locus {

// Throws unless there is one part a context of g, ...
void check_places(const Group& g, std::span<const Tensor> parts);
// ... and they are of one dtype and, but along `axis`, of one shape.
void check_parts(const Group& g, std::span<const Tensor> parts, int axis = -1);
// Unless the dtype of `part` has such a combination.
void check_op(ReduceOp op, const Tensor& part);
// Unless there is one target a context, or none.
void check_out(const Group& g, std::span<const Tensor> targets);
// Unless the targets that there are could be `result` on each context of g.
void check_targets(const Group& g, std::span<const Tensor> targets, const Tensor& result);

// Unless it is a number of a context of g.
void check_root(const Group& g, int root);

// f(), whose errors get the op's name.
auto named(const std::string& op, const auto& f) {
  try {
    return f();
  } catch (const Error&) {
    std::rethrow_exception(reworded([&](const std::string& text) {
      return text.starts_with(op + ": ") ? text : op + ": " + text;
    }));
  }
}

// All parts combined, on the context of the first.
Tensor combine_up(Tensors parts, ReduceOp op, Caller from);
// To n contexts, of which the first has x: put(i, x) is what the i-th is to have, given that from
// another; returns it there.
void spread_down(const Tensor& x, size_t n,
                 const std::function<Tensor(size_t, const Tensor&)>& put);
// x, row-major.
Tensor packed(const Tensor& x);
// x on c: in `out` where that is defined, else in a new tensor that becomes it.
void give(const Tensor& x, Context c, Tensor& out, Caller from);

}  // namespace locus
