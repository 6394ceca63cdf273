// Collectives: what the contexts of a group do with one tensor each.
//
//   const Group g(gpus(4));
//   const Tensors sums = all_reduce(g, parts);      // parts[i] lives on g[i], and so does result i
//
// Results of ops on cpu_pinned memory live on the cpu, here as everywhere: so may those of a group
// that has some, and their gradients are refused there as parts that live elsewhere.
//
// Part i lives on g[i]; all parts have one dtype, and one shape but where it is said otherwise.
// They are combined in one order: the same bits each time, and on every context; other sizes and
// dtypes may be combined in another way, below. They are differentiable, recorded by compiled
// functions, and their copies are the caller's in a TransferLog and in a trace. Nothing waits for a
// device.
//
// Between cpu(i), and between emulated GPUs, parts meet in a binary tree of copies and sums:
// log2(n) steps up and as many down. Sums of f16 and bf16 are rounded at each step.
//
// ReduceOp (core/group.h): mean is of floating-point parts; max, min and prod have no gradient.
//
// Among real GPUs that reach each other's memory, one kernel of ours a GPU does it, which reads the
// others' memory, and becomes part of a compiled function's graphs, whose replays a TransferLog
// does not see:
//   all_reduce, all_reduce_many       sums and means of floating-point parts, up to 64 MiB of a
//                                     context in one call, all its tensors together; they are
//                                     added up in the group's order
//   reduce, reduce_scatter            of any size, each result in the order from its context on,
//                                     round
//   reduce_many                       of any size, in the group's order
//   broadcast, all_gather, all_to_all, send_recv, broadcast_many
//                                     each part, or slice of one, that has up to 4 MiB; not what a
//                                     tape records of broadcast and send_recv
// f16 and bf16 are added up in f32, and rounded once. What is larger is copied by the GPUs' copy
// engines, straight into the results. Larger all_reduces, and those of other combinations and
// dtypes, are NCCL's, where the build has it and nothing is recorded. A GPU that does not come
// within 30 s is a DeviceError at the next wait.
//
// Errors: Error where there are not as many parts as contexts, ContextMismatch for a part that
// lives elsewhere, ShapeError, DTypeError, ValueError for a ReduceOp that is none; they name the
// part, or the target, and what was expected. Nothing is written then.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include <locus/core/caller.h>
#include <locus/core/group.h>
#include <locus/core/tensor.h>
#include <locus/ops/register.h>

namespace locus {

struct AllReduceOptions {
  ReduceOp op = ReduceOp::sum;
  Tensors out = {};  // where results go, one a context or none; parts themselves, too
};
struct AllReduceManyOptions {
  ReduceOp op = ReduceOp::sum;
  bool beside = false;  // other work goes on meanwhile: a GPU's kernel takes part of it only
  // behind(i) for each context, once what is asked for is enqueued on all; none where that failed.
  // On the threads that enqueued it, so that what behind(i) enqueues on group[i] follows at once.
  std::function<void(int)> behind = {};
};
struct ReduceScatterOptions {
  ReduceOp op = ReduceOp::sum;
  int axis = 0;  // whose length is a multiple of the group's size
};
struct AllGatherOptions {
  int axis = 0;  // along which parts are joined; their lengths there may differ
};
struct AllToAllOptions {
  int split_axis = 0, concat_axis = 0;
};

// All parts combined, on every context.
Tensors all_reduce(const Group& group, const Tensors& parts, const AllReduceOptions& options = {},
                   Caller from = Caller::here());
// The same of several tensors at once, in place: tensors[k][i] on group[i]. Not differentiable.
void all_reduce_many(const Group& group, std::span<const Tensors> tensors,
                     const AllReduceManyOptions& options = {}, Caller from = Caller::here());
// Likewise, but tensors[k] on group[roots[k]] alone: the same bits as all_reduce_many's, but where
// that is NCCL's. What the others hold then is not defined.
void reduce_many(const Group& group, std::span<const Tensors> tensors, std::span<const int> roots,
                 const AllReduceManyOptions& options = {}, Caller from = Caller::here());
// tensors[k][i], on group[i], gets the values of tensors[k][roots[k]]. Not differentiable.
void broadcast_many(const Group& group, std::span<const Tensors> tensors,
                    std::span<const int> roots, Caller from = Caller::here());
// All parts combined, on group[root].
Tensor reduce(const Group& group, const Tensors& parts, int root = 0, ReduceOp op = ReduceOp::sum,
              Caller from = Caller::here());
// x, which lives on one of the group's contexts, on every one; there it is a copy, too.
Tensors broadcast(const Group& group, const Tensor& x, Caller from = Caller::here());
// The i-th of as many slices of all parts combined, on group[i].
Tensors reduce_scatter(const Group& group, const Tensors& parts,
                       const ReduceScatterOptions& options = {}, Caller from = Caller::here());
// All parts joined, on every context.
Tensors all_gather(const Group& group, const Tensors& parts, const AllGatherOptions& options = {},
                   Caller from = Caller::here());
// Each part is cut into as many slices as there are contexts; slice i of every part goes to
// group[i], where they are joined in the order of the contexts that they come from.
Tensors all_to_all(const Group& group, const Tensors& parts, const AllToAllOptions& options = {},
                   Caller from = Caller::here());
// Sends and receives at once: a copy of part sources[i] comes to group[i], and nothing, an
// undefined tensor, where sources[i] is -1. A part may go to several contexts or to none; shapes
// and dtypes may differ. One tensor to one context is copyto() (core/tensor.h). IndexError for
// other sources.
//   send_recv(g, parts, {3, 0, 1, 2})             each to its right neighbour, round
//   send_recv(g, parts, {-1, 0, 1, 2})            and nothing to the first
Tensors send_recv(const Group& group, const Tensors& parts, const std::vector<int>& sources,
                  Caller from = Caller::here());

}  // namespace locus
