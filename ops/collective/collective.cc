#include <locus/ops/collective.h>

#include <algorithm>

#include <locus/core/autograd.h>
#include <locus/core/base/at_line.h>
#include <locus/core/base/empty_tensor.h>
#include <locus/core/call/invoke_check.h>
#include <locus/core/observe/memory_events.h>
#include <locus/core/op.h>
#include <locus/core/ranks/communicator.h>
#include <locus/core/tape/tape.h>
#include <locus/ops/call_check.h>
#include <locus/ops/collective/exchange.h>
#include <locus/ops/collective/peers.h>
#include <locus/ops/collective/tree.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/view.h>

namespace locus {
namespace {

// The group is the operands' contexts.
struct CollectiveAttrs {
  ReduceOp op = ReduceOp::sum;
  int root = 0, axis = 0, concat_axis = 0;
  Caller from = {};  // the gradient's copies are attributed to this line
};

Group group_of(std::span<const Ref> in) {
  std::vector<Context> contexts;
  for (const Ref& r : in) contexts.push_back(r.tensor_->context());
  return Group(contexts);
}
Group group_of(const Saved& saved) {
  std::vector<Context> contexts;
  for (int i = 0; i < saved.n_in(); ++i) contexts.push_back(saved.in_context(i));
  return Group(contexts);
}

Tensors parts_of(const Group& g, std::span<const Ref> in, int axis = -1) {
  Tensors parts;
  for (const Ref& r : in) parts.push_back(*r.tensor_);
  check_parts(g, parts, axis);
  return parts;
}

// The length of one context's slice. ShapeError if the axis does not divide evenly.
int64_t slice_length(const Group& g, const Tensor& part, int axis) {
  const int64_t length = part.shape()[axis];
  if (length % g.size() != 0)
    throw ShapeError("axis ", axis, " of ", describe(part), " is ", length,
                     " long; expected a multiple of the group's ", g.size());
  return length / g.size();
}

Tensor slice_of(const Tensor& part, int axis, int64_t length, int i) {
  return slice_axis(part, axis, Slice(i * length, (i + 1) * length));
}

// Group index i, counted from the root.
size_t turned(size_t i, int root, size_t n) { return (i + static_cast<size_t>(root)) % n; }
Tensors from_root(Tensors parts, int root) {
  std::rotate(parts.begin(), parts.begin() + root, parts.end());
  return parts;
}

// New memory on c, like x but with this length along the axis.
Tensor like(const Tensor& x, Context c, int axis, int64_t length) {
  Meta m = x.impl().view.meta;
  m.shape[axis] = length;
  return allocate(c, m);
}

bool on_devices(const Group& g, const Tensors& parts, const CollectiveAttrs& a,
                std::span<Tensor> out) {
  if (parts[0].size() == 0 || !communicator(g)) return false;
  Tensors from, to;
  for (size_t i = 0; i < parts.size(); ++i) {
    // A result goes to its target directly if the target is its part or has other storage.
    const bool there =
        out[i].defined() && out[i].contiguous() &&
        (out[i].impl().storage != parts[i].impl().storage ||
         (parts[i].contiguous() && out[i].impl().view.data == parts[i].impl().view.data));
    from.push_back(packed(parts[i]));
    to.push_back(there
                     ? out[i]
                     : allocate(parts[i].context(), make_meta(parts[i].dtype(), parts[i].shape())));
  }
  if (!all_reduce_on_devices(g, from, to, {.op = a.op}, a.from)) return false;
  for (size_t i = 0; i < parts.size(); ++i)
    if (!out[i].defined())
      out[i] = to[i];
    else if (!out[i].is(to[i]))
      to[i].copyto(out[i], {}, a.from);
  return true;
}

void sum_up(const Group& g, const Tensors& parts, const CollectiveAttrs& a, std::span<Tensor> out) {
  check_op(a.op, parts[0]);
  check_targets(g, out, parts[0]);
  if (on_devices(g, parts, a, out)) return;
  const Tensor total = combine_up(parts, a.op, a.from);
  spread_down(total, out.size(), [&](size_t i, const Tensor& x) {
    if (i == 0 && out.size() > 1 && !out[0].defined()) return out[0] = x;
    give(x, g[static_cast<int>(i)], out[i], a.from);
    return out[i];
  });
}

void run_all_reduce(std::span<const Ref> in, const CollectiveAttrs& a, std::span<Tensor> out) {
  const Group g = group_of(in);
  sum_up(g, parts_of(g, in), a, out);
}

void run_reduce(std::span<const Ref> in, const CollectiveAttrs& a, std::span<Tensor> out) {
  const Group g = group_of(in);
  const Tensors parts = parts_of(g, in);
  check_op(a.op, parts[0]);
  check_root(g, a.root);
  if (!out[0].defined()) out[0] = allocate(g[a.root], parts[0].impl().view.meta);
  const Piece piece{from_root(parts, a.root), out[0]};
  exchange(g, {&piece, 1}, a.op, false, a.from);
}

void run_reduce_scatter(std::span<const Ref> in, const CollectiveAttrs& a, std::span<Tensor> out) {
  const Group g = group_of(in);
  const Tensors parts = parts_of(g, in);
  check_op(a.op, parts[0]);
  const int axis = detail::axis_of(parts[0], a.axis, "reduce_scatter");
  const int64_t length = slice_length(g, parts[0], axis);
  std::vector<Piece> pieces;
  for (int i = 0; i < g.size(); ++i) {
    Tensors slices;
    for (const Tensor& p : parts) slices.push_back(slice_of(p, axis, length, i));
    Tensor& mine = out[static_cast<size_t>(i)];
    mine = allocate(g[i], slices[0].impl().view.meta);
    pieces.push_back({from_root(slices, i), mine});
  }
  exchange(g, pieces, a.op, false, a.from);
}

void run_all_gather(std::span<const Ref> in, const CollectiveAttrs& a, std::span<Tensor> out) {
  const int axis = detail::axis_of(*in[0].tensor_, a.axis, "all_gather");
  const Group g = group_of(in);
  Tensors parts = parts_of(g, in, axis);
  int64_t length = 0;
  for (Tensor& p : parts) {
    length += p.shape()[axis];
    p = packed(p);
  }
  std::vector<Piece> pieces;
  for (int i = 0; i < g.size(); ++i) {
    Tensor& mine = out[static_cast<size_t>(i)];
    mine = like(parts[0], g[i], axis, length);
    int64_t begin = 0;
    for (const Tensor& p : parts) {
      const int64_t end = begin + p.shape()[axis];
      pieces.push_back({{p}, slice_axis(mine, axis, Slice(begin, end))});
      begin = end;
    }
  }
  exchange(g, pieces, {}, false, a.from);
}

void run_all_to_all(std::span<const Ref> in, const CollectiveAttrs& a, std::span<Tensor> out) {
  const Group g = group_of(in);
  const Tensors parts = parts_of(g, in);
  const int split = detail::axis_of(parts[0], a.axis, "all_to_all"),
            join = detail::axis_of(parts[0], a.concat_axis, "all_to_all");
  const int64_t length = slice_length(g, parts[0], split);
  std::vector<Piece> pieces;
  for (int i = 0; i < g.size(); ++i) {
    const Tensor first = slice_of(parts[0], split, length, i);
    const int64_t each = first.shape()[join];
    Tensor& mine = out[static_cast<size_t>(i)];
    mine = like(first, g[i], join, each * g.size());
    for (int k = 0; k < g.size(); ++k)
      pieces.push_back({{slice_of(parts[static_cast<size_t>(k)], split, length, i)},
                        slice_of(mine, join, each, k)});
  }
  exchange(g, pieces, {}, false, a.from);
}

// One per context; zeros if nothing depends on the result.
Tensors all_of(std::span<const Tensor> dout, const Saved& saved) {
  const Group g = group_of(saved);
  Tensors all(dout.begin(), dout.end());
  for (int i = 0; i < g.size(); ++i) {
    const Meta& m = saved.out_meta(i);
    Tensor& d = all[static_cast<size_t>(i)];
    if (!d.defined()) d = zeros(Shape(m), {g[i], m.dtype});
  }
  return all;
}

// Throws unless `op` has a gradient.
void check_differentiable(ReduceOp op) {
  if (op != ReduceOp::sum && op != ReduceOp::mean)
    throw Error(
        "the gradient of max, min and prod over a group is not defined; expected sum or "
        "mean");
}

Tensors all_reduce_gradient(const Saved& saved, std::span<const Tensor> dout) {
  const auto& a = saved.attrs<CollectiveAttrs>();
  check_differentiable(a.op);
  return all_reduce(group_of(saved), all_of(dout, saved), {.op = a.op}, a.from);
}
Tensors reduce_gradient(const Saved& saved, std::span<const Tensor> dout) {
  const auto& a = saved.attrs<CollectiveAttrs>();
  check_differentiable(a.op);
  const bool mean = a.op == ReduceOp::mean;
  return broadcast(group_of(saved), mean ? dout[0] / saved.n_in() : dout[0], a.from);
}
Tensors reduce_scatter_gradient(const Saved& saved, std::span<const Tensor> dout) {
  const auto& a = saved.attrs<CollectiveAttrs>();
  check_differentiable(a.op);
  Tensors all = all_of(dout, saved);
  if (a.op == ReduceOp::mean)
    for (Tensor& d : all) d = d / saved.n_in();
  return all_gather(group_of(saved), all, {.axis = a.axis}, a.from);
}
Tensors all_gather_gradient(const Saved& saved, std::span<const Tensor> dout) {
  const auto& a = saved.attrs<CollectiveAttrs>();
  const Tensors all = all_of(dout, saved);
  const int axis = detail::axis_of(all[0], a.axis, "all_gather");
  Tensors dx(static_cast<size_t>(saved.n_in()));
  int64_t begin = 0;
  for (int i = 0; i < saved.n_in(); ++i) {
    const int64_t end = begin + saved.in_meta(i).shape[axis];
    Tensors slices;
    for (const Tensor& d : all) slices.push_back(slice_axis(d, axis, Slice(begin, end)));
    if (saved.needs(i))
      dx[static_cast<size_t>(i)] = reduce(group_of(saved), slices, i, ReduceOp::sum, a.from);
    begin = end;
  }
  return dx;
}
Tensors all_to_all_gradient(const Saved& saved, std::span<const Tensor> dout) {
  const auto& a = saved.attrs<CollectiveAttrs>();
  return all_to_all(group_of(saved), all_of(dout, saved),
                    {.split_axis = a.concat_axis, .concat_axis = a.axis}, a.from);
}

// Samples have a group of one, because they live on one context.

Samples samples(Context c, DType d) {
  return {Sample({sample_values(c, d, {4, 6})}, CollectiveAttrs{}),
          Sample({sample_values(c, d, {4, 6}).T()}, CollectiveAttrs{.axis = 1})};
}

// Checks the operands and returns the op's results. `group` is the caller's.
Tensors run(const Op& op, const Group& group, const Tensors& parts, const CollectiveAttrs& a,
            Tensors out = {}, int uneven_axis = -1) {
  return named(op.name, [&] {
    check_parts(group, parts, uneven_axis);
    const std::vector<Ref> in(parts.begin(), parts.end());
    check_out(group, out);
    return invoke_all(op, in, a, std::move(out));
  });
}

}  // namespace

Tensors all_reduce(const Group& group, const Tensors& parts, const AllReduceOptions& options,
                   Caller from) try {
  const UserLine user_line(from);
  static const OpRef<CollectiveAttrs> op("all_reduce");
  const CollectiveAttrs a{.op = options.op, .from = from};
  if (autograd::is_recording()) return run(op, group, parts, a, options.out);
  // Without the work for a tape.
  Tensors out = options.out;
  named("all_reduce", [&] {
    check_parts(group, parts);
    check_out(group, out);
    for (const Tensor& t : out) check_in_place("all_reduce", {}, t);
    out.resize(parts.size());
    sum_up(group, parts, a, out);
  });
  return out;
} catch (const Error&) {
  rethrow_at(from);
}

Tensor reduce(const Group& group, const Tensors& parts, int root, ReduceOp how, Caller from) try {
  const UserLine user_line(from);
  static const OpRef<CollectiveAttrs> op("reduce");
  return run(op, group, parts, {.op = how, .root = root, .from = from})[0];
} catch (const Error&) {
  rethrow_at(from);
}

Tensors broadcast(const Group& group, const Tensor& x, Caller from) try {
  const UserLine user_line(from);
  detail::expect_tensor("broadcast", x);
  const auto at = std::ranges::find(group, x.context());
  if (at == group.end())
    throw ContextMismatch("broadcast: ", describe(x), "; expected it on one of ", to_string(group));
  const int root = static_cast<int>(at - group.begin());
  Tensors all(static_cast<size_t>(group.size()));
  if (!autograd::is_recording() && by_kernel(group, x)) {
    const Tensor whole = packed(x);
    std::vector<Piece> pieces;
    for (size_t i = 0; i < all.size(); ++i) {
      all[i] = allocate(group[static_cast<int>(i)], x.impl().view.meta);
      pieces.push_back({{whole}, all[i]});
    }
    exchange(group, pieces, {}, false, from);
    return all;
  }
  spread_down(x, all.size(), [&](size_t i, const Tensor& there) {
    const size_t to = turned(i, root, all.size());
    return all[to] = there.copyto(group[static_cast<int>(to)], {}, from);
  });
  return all;
} catch (const Error&) {
  rethrow_at(from);
}

Tensors reduce_scatter(const Group& group, const Tensors& parts,
                       const ReduceScatterOptions& options, Caller from) try {
  const UserLine user_line(from);
  static const OpRef<CollectiveAttrs> op("reduce_scatter");
  return run(op, group, parts, {.op = options.op, .axis = options.axis, .from = from});
} catch (const Error&) {
  rethrow_at(from);
}

Tensors all_gather(const Group& group, const Tensors& parts, const AllGatherOptions& options,
                   Caller from) try {
  const UserLine user_line(from);
  static const OpRef<CollectiveAttrs> op("all_gather");
  const int axis = parts.empty() ? 0 : detail::axis_of(parts[0], options.axis, "all_gather");
  return run(op, group, parts, {.axis = axis, .from = from}, {}, axis);
} catch (const Error&) {
  rethrow_at(from);
}

Tensors all_to_all(const Group& group, const Tensors& parts, const AllToAllOptions& options,
                   Caller from) try {
  const UserLine user_line(from);
  static const OpRef<CollectiveAttrs> op("all_to_all");
  return run(op, group, parts,
             {.axis = options.split_axis, .concat_axis = options.concat_axis, .from = from});
} catch (const Error&) {
  rethrow_at(from);
}

Tensors send_recv(const Group& group, const Tensors& parts, const std::vector<int>& sources,
                  Caller from) try {
  const UserLine user_line(from);
  named("send_recv", [&] {
    check_places(group, parts);
    if (sources.size() != parts.size())
      throw Error(sources.size(), " sources for ", to_string(group), "; expected one per context, ",
                  group.size());
    for (int source : sources)
      if (source < -1 || source >= group.size())
        throw IndexError("source ", source, "; expected 0 to ", group.size() - 1,
                         ", or -1 for nothing");
  });
  Tensors all(parts.size());
  std::vector<Piece> pieces;
  for (size_t i = 0; i < all.size(); ++i) {
    if (sources[i] < 0) continue;
    const Tensor& x = parts[static_cast<size_t>(sources[i])];
    const Context c = group[static_cast<int>(i)];
    if (autograd::is_recording() || !by_kernel(group, x)) {
      all[i] = x.copyto(c, {}, from);
      continue;
    }
    all[i] = allocate(c, x.impl().view.meta);
    pieces.push_back({{x}, all[i]});
  }
  exchange(group, pieces, {}, false, from);
  return all;
} catch (const Error&) {
  rethrow_at(from);
}

void register_collective() {
  const auto define = [](const char* name) {
    return OpDef<CollectiveAttrs>(name).inputs(1, Op::kAny).outputs(Op::kEach).samples<&samples>();
  };
  define("all_reduce").function<&run_all_reduce>().gradient<&all_reduce_gradient>(Keep::none);
  define("reduce").outputs(1).function<&run_reduce>().gradient<&reduce_gradient>(Keep::none);
  define("reduce_scatter")
      .function<&run_reduce_scatter>()
      .gradient<&reduce_scatter_gradient>(Keep::none);
  define("all_gather").function<&run_all_gather>().gradient<&all_gather_gradient>(Keep::none);
  define("all_to_all").function<&run_all_to_all>().gradient<&all_to_all_gradient>(Keep::none);
}

}  // namespace locus
