// Collectives: functions that combine or exchange one tensor per context of a group.
//
//   const Group g(gpus(4));
//   const Tensors sums = all_reduce(g, parts);      // parts[i] lives on g[i], and so does result i
//
// Part i lives on group[i]. All parts have one dtype and, unless stated otherwise, one shape. A
// mean needs floating-point parts. Collectives are differentiable; max, min, prod and the functions
// named `_many` have no gradient. Compiled functions record collectives. The host waits for no
// device, except at the first call on new streams. Several threads may call collectives at once.
//
// Parts are combined in a fixed order, except perhaps by NCCL: results have the same bits in every
// run and on every context. Other functions, sizes and dtypes, and compiled calls of over 64 MiB,
// may have another order; see Details.
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
  Tensors out = {};  // targets, one for each context; may be the parts; empty: new tensors
};
struct AllReduceManyOptions {
  ReduceOp op = ReduceOp::sum;
  bool beside = false;  // true: the kernel occupies only part of a GPU; other kernels run beside it
  // behind(i) is called for each context after the work is enqueued on all contexts. If enqueuing
  // fails, it is not called. behind(i) may run on group[i]'s thread or on the caller's: work that
  // it enqueues on group[i] follows directly.
  std::function<void(int)> behind = {};
};
struct ReduceScatterOptions {
  ReduceOp op = ReduceOp::sum;
  int axis = 0;  // its length is a multiple of the group's size, else ShapeError
};
struct AllGatherOptions {
  int axis = 0;  // parts are joined along this axis; their lengths there may differ
};
struct AllToAllOptions {
  int split_axis = 0, concat_axis = 0;  // split_axis: its length is a multiple of the group's size
};

// Combines all parts. Every context receives the result.
Tensors all_reduce(const Group& group, const Tensors& parts, const AllReduceOptions& options = {},
                   Caller from = Caller::here());
// Combines several tensors at once, each in place. tensors[k][i] lives on group[i].
void all_reduce_many(const Group& group, std::span<const Tensors> tensors,
                     const AllReduceManyOptions& options = {}, Caller from = Caller::here());
// Combines several tensors at once; only group[roots[k]] receives the result of tensors[k], in
// place. The other parts' values are unspecified afterwards. Up to 64 MiB, the result has the bits
// of all_reduce_many.
void reduce_many(const Group& group, std::span<const Tensors> tensors, std::span<const int> roots,
                 const AllReduceManyOptions& options = {}, Caller from = Caller::here());
// Copies tensors[k][roots[k]] into every tensors[k][i], which lives on group[i].
void broadcast_many(const Group& group, std::span<const Tensors> tensors,
                    std::span<const int> roots, Caller from = Caller::here());
// Combines all parts. The result lives on group[root].
Tensor reduce(const Group& group, const Tensors& parts, int root = 0, ReduceOp op = ReduceOp::sum,
              Caller from = Caller::here());
// Copies x, which lives on a context of the group, to every context, also to its own.
Tensors broadcast(const Group& group, const Tensor& x, Caller from = Caller::here());
// Combines all parts and cuts the result into one slice per context. Slice i lives on group[i].
Tensors reduce_scatter(const Group& group, const Tensors& parts,
                       const ReduceScatterOptions& options = {}, Caller from = Caller::here());
// Joins all parts. Every context receives the result.
Tensors all_gather(const Group& group, const Tensors& parts, const AllGatherOptions& options = {},
                   Caller from = Caller::here());
// Cuts each part into one slice per context along split_axis. group[i] receives slice i of every
// part and joins the slices along concat_axis in the group's order.
Tensors all_to_all(const Group& group, const Tensors& parts, const AllToAllOptions& options = {},
                   Caller from = Caller::here());
// Copies part sources[i] to group[i]. If sources[i] is -1, result i is an undefined tensor. Any
// other source outside the group is an IndexError. A part may go to several contexts or to none.
// Shapes and dtypes of the parts may differ. To copy one tensor, use copyto() (core/tensor.h).
//   send_recv(g, parts, {3, 0, 1, 2})             each part to its right neighbour, in a ring
//   send_recv(g, parts, {-1, 0, 1, 2})            the first context receives nothing
Tensors send_recv(const Group& group, const Tensors& parts, const std::vector<int>& sources,
                  Caller from = Caller::here());

// --- Details ---
//
// These errors name the part or target and what was expected. Nothing is written then.
// - Error: the number of parts, targets, roots or sources does not fit.
// - ContextMismatch: a part or target lives on another context.
// - ShapeError, DTypeError: a part or target has another shape or dtype.
// - ValueError: the ReduceOp (core/group.h) is no enumerator; tensors of a `_many` call share
//   memory. IndexError: the root is out of range.
//
// Hosts and emulated GPUs use a binary tree for sums and broadcast(); other parts are copied.
// - A sum takes log2(n) steps, rounded up; all_reduce takes as many to spread it. Sums of f16 and
//   bf16 are rounded at each step.
// - If a context is cpu_pinned, its result may live on the cpu, as results of other ops do. The
//   gradient of that result is refused as a part on another context.
//
// Real GPUs that reach each other's memory, up to 8, use one kernel per GPU. The kernel reads or
// writes the other GPUs' memory, adds f16 and bf16 in f32, and rounds once.
// - all_reduce, all_reduce_many: sums and means of floating-point parts, up to 64 MiB per context
//   and call, or any size in compiled functions; in the group's order.
// - reduce, reduce_scatter: such parts of any size; the order starts at the result's context and
//   goes round.
// - reduce_many: such parts of any size; in the group's order.
// - broadcast, all_gather, all_to_all, send_recv, broadcast_many: parts or slices of up to 4 MiB.
//   If a tape records them, broadcast and send_recv use copies.
// - Larger parts are copied by the copy engines.
// - Other all_reduce calls use NCCL. Without NCCL, and in compiled functions, they use the tree.
// - The kernel becomes part of a compiled function's graphs. A TransferLog does not see its
//   replays.
// - If a GPU is more than 30 s late at the kernel, the next wait throws DeviceError.

}  // namespace locus
