// A binary tree of copies and sums, for devices that offer nothing better, and checks of parts.
// Internal to the family.
#pragma once

#include <exception>
#include <functional>
#include <span>
#include <string>

#include <locus/core/error.h>
#include <locus/core/group.h>
#include <locus/core/tensor.h>

namespace locus {

// Throws unless g has one part on each context.
void check_places(const Group& g, std::span<const Tensor> parts);
// Also throws unless dtypes are equal and, except along `axis`, shapes.
void check_parts(const Group& g, std::span<const Tensor> parts, int axis = -1);
// Throws unless parts of this dtype can be combined so.
void check_op(ReduceOp op, const Tensor& part);
// Throws unless there is one target per context, or none.
void check_out(const Group& g, std::span<const Tensor> targets);
// Throws unless each defined target could be `result` on its context.
void check_targets(const Group& g, std::span<const Tensor> targets, const Tensor& result);

// Throws unless `root` is an index of g.
void check_root(const Group& g, int root);

// f(), with the op's name in its errors.
auto named(const std::string& op, const auto& f) {
  try {
    return f();
  } catch (const Error&) {
    std::rethrow_exception(reworded([&](const std::string& text) {
      return text.starts_with(op + ": ") ? text : op + ": " + text;
    }));
  }
}

Tensor combine_up(Tensors parts, ReduceOp op, Caller from);
// Spreads x to n contexts. The first has x. put(i, x) returns x on context i, given it from another
// context.
void spread_down(const Tensor& x, size_t n,
                 const std::function<Tensor(size_t, const Tensor&)>& put);
// x itself if row-major, else a copy.
Tensor packed(const Tensor& x);
// Copies x to `out` if defined, else sets `out` to x on c.
void give(const Tensor& x, Context c, Tensor& out, Caller from);

}  // namespace locus
