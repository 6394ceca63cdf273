// Collectives: functions that combine or exchange one tensor per context of a group.
//
//   const Group g(gpus(4));
//   const Tensors sums = all_reduce(g, parts);      // parts[i] lives on g[i], and so does result i
//
// Part i lives on group[i]. Unless stated otherwise, all parts have one dtype and one shape. A mean
// needs floating-point parts. Results are new memory, also in a group of one context.
// Collectives are differentiable, with exceptions (see Details). Compiled functions record
// collectives. The host waits for no device, except at the first call on new streams. Several
// threads may call collectives at once.
//
// Each call combines parts in a fixed order. Results therefore have the same bits in every run and
// on every context, except perhaps from NCCL. Details list the orders, by kind of context,
// function, size and dtype.
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
  // behind(i) is called once for each context, after the work is enqueued on all contexts, also if
  // there are no tensors. If enqueuing fails, behind is not called. All behind(i) run at once on
  // their contexts' threads (core/parallel.h), or one after the other on the caller's. Work that
  // behind(i) enqueues on group[i] runs after the collective. behind may call collectives.
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
  // The length of split_axis is a multiple of the group's size, else ShapeError.
  int split_axis = 0, concat_axis = 0;
};

// Combines all parts. Every context receives the result. Returns the targets, if given.
Tensors all_reduce(const Group& group, const Tensors& parts, const AllReduceOptions& options = {},
                   Caller from = Caller::here());
// Combines several tensors at once, each in place. tensors[k][i] lives on group[i].
void all_reduce_many(const Group& group, std::span<const Tensors> tensors,
                     const AllReduceManyOptions& options = {}, Caller from = Caller::here());
// Combines several tensors at once; only group[roots[k]] receives the result of tensors[k], in
// place. The other parts' values are unspecified afterwards.
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
// other source outside the group is an IndexError. A part may go to several contexts or to none,
// but must be defined and live on its context. Shapes and dtypes of the parts may differ. To copy
// one tensor, use copyto() (core/tensor.h).
//   send_recv(g, parts, {3, 0, 1, 2})             each part to its right neighbour, in a ring
//   send_recv(g, parts, {-1, 0, 1, 2})            the first context receives nothing
Tensors send_recv(const Group& group, const Tensors& parts, const std::vector<int>& sources,
                  Caller from = Caller::here());

// --- Details ---
//
// Each call checks all tensors before it writes. Errors name the part or target and what was
// expected:
// - Error: the number of parts, targets, roots or sources does not fit. EmptyTensor, an Error: a
//   part or target is undefined.
// - ContextMismatch: a part or target lives on another context.
// - ShapeError, DTypeError: a part or target has another shape or dtype, or the op refuses the
//   dtype.
// - ValueError: the ReduceOp (core/group.h) is no enumerator; tensors of a `_many` call share
//   memory. IndexError: the root is out of range.
//
// Gradients
// - max, min and prod compute a result, but backward() through it throws Error. Use the result's
//   detach() where its gradient is not needed.
// - Functions named `_many` write in place. In an autograd::Record scope they throw Error for a
//   tensor that needs a gradient, before anything is written.
//
// Hosts and emulated GPUs use a binary tree for reductions and broadcast(). Other collectives copy.
// - A sum over n contexts takes log2(n) steps, rounded up. all_reduce then copies the sum to all
//   contexts in as many steps. Sums of f16 and bf16 are rounded at each step.
// - In reduce and reduce_scatter the tree begins at the result's context. In other functions it
//   begins at group[0].
// - The result for a cpu_pinned context may live on cpu(0), as results of other ops do. backward()
//   through that result then throws ContextMismatch.
//
// Real GPUs that reach each other's memory, up to 8, use one kernel per GPU. The kernel reads or
// writes the other GPUs' memory, adds f16 and bf16 in f32, and rounds once.
// - all_reduce, all_reduce_many: sums and means of floating-point parts. Eager calls use the kernel
//   up to 64 MiB per context and call, compiled calls for any size. The kernel adds in the group's
//   order.
// - reduce, reduce_scatter: sums and means of floating-point parts of any size. The order starts at
//   the result's context and goes round: for root 2 of 4 it is 2, 3, 0, 1.
// - reduce_many: sums and means of floating-point parts of any size, in the group's order. If
//   all_reduce_many uses the kernel, both have the same bits.
// - broadcast, all_gather, all_to_all, send_recv, broadcast_many: parts or slices of up to 4 MiB.
//   If a tape records them, broadcast and send_recv use copies.
// - Larger parts are copied by the copy engines.
// - Other all_reduce calls use NCCL. Without NCCL, and in compiled functions, they use the tree.
// - Other calls of reduce, reduce_scatter and reduce_many use the tree.
// - The kernel becomes part of a compiled function's graphs. A TransferLog does not see its
//   replays.
// - The kernels of a call wait for each other. If a kernel waits for over 30 s, it gives up, and
//   the next wait for its GPU throws DeviceError.
// - If enqueuing fails on one GPU, the call throws. Kernels that are enqueued on other GPUs give up
//   after 30 s as above and then write, so all targets are unspecified. Later work on these tensors
//   waits for these kernels. The group can be used again.

}  // namespace locus
