// Cluster: processes that train together, on one machine or several. mpirun or srun starts them;
// each is a rank.
//
//   cluster::init();
//   const Context c = cluster::contexts()[0];                // gpu(local_rank())
//   net.initialize(init::Xavier(), c);
//   nn::Trainer trainer(net.parameters(), optim::SGD({.learning_rate = 0.1}));
//   data::DataLoader loader(set, {.batch_size = 256,           // of all ranks together
//                                 .shuffle = true, .context = c,
//                                 .num_parts = cluster::size(), .part_index = cluster::rank()});
//   for (auto [x, y] : loader) {
//     ...
//     l.backward();
//     trainer.step(256);                                     // of all ranks together
//   }
//
// Every rank makes the same collective calls in the same order. One process alone, and a process
// before init(), is rank 0 of 1: all calls work and cost nothing. Threads of one process take turns
// (MPI_THREAD_SERIALIZED). Unusual cases: "Details" at the end.
#pragma once

#include <functional>
#include <vector>

#include <locus/core/caller.h>
#include <locus/core/group.h>
#include <locus/core/tensor.h>

namespace locus::cluster {

// Joins the ranks that mpirun or srun started. Call it first: ranks of one host share its CPUs, and
// each computes with threads on its part of them, unless the launcher bound them apart or
// LOCUS_NUM_THREADS and LOCUS_PIN=0 say otherwise. Later calls do nothing.
//
// Waits for all ranks for 25 s, or for LOCUS_CLUSTER_TIMEOUT if that is longer. If some do not
// come, this process prints that and ends with status 1, since MPI cannot go on without them.
// Throws Error if LOCUS_CLUSTER_TIMEOUT is not a number from 1 to 1000000, if several ranks were
// started and the build has no MPI, and if MPI does not find them.
void init();

// How many processes mpirun or srun says that it started, also before init(). 1: there was none.
int launched();

int rank();        // 0 to size() - 1
int size();        // 1: alone
int local_rank();  // among those on this host
int local_size();

// This rank's part of its host's GPUs, n of them. If all ranks of the host see the same GPUs, they
// are gpu(local_rank() * n) and the next ones. If each rank sees its own (srun --gpus-per-task),
// they are gpu(0) and the next ones. If no rank has a GPU: cpu(0) to cpu(n - 1). A collective call.
// Errors on every rank: Error for different n, DeviceError if a rank lacks its GPUs or two ranks
// would share one, ValueError unless n is 1 to 64.
std::vector<Context> contexts(int n = 1, Caller = Caller::here());

// Waits until every rank calls it.
void barrier(Caller = Caller::here());

// Combines the tensors with those of the other ranks, element by element, in place. Each rank gives
// as many tensors, of equal shapes, dtypes and kinds of context (the host is one kind). Tensors
// that share a context on one rank share a context on all. Many tensors in one call are faster than
// one after the other. On the host f16 and bf16 are summed in f32, and NaN stays NaN in max and
// min; on GPUs NCCL decides. Does not wait for GPUs if NCCL sums. Not differentiable. DTypeError
// for bool_ and for the mean of whole numbers, Error for recorded tensors, CaptureError in compiled
// code.
void all_reduce(const Tensors& tensors, ReduceOp op = ReduceOp::sum, Caller = Caller::here());
double all_reduce(double value, ReduceOp op = ReduceOp::sum, Caller = Caller::here());
// Writes rank root's values into the tensors of every rank. Any dtype.
void broadcast(const Tensors& tensors, int root = 0, Caller = Caller::here());
// Sends and receives at once, as send_recv() of ops/collective.h does among contexts. Rank i gets a
// copy of rank sources[i]'s x, or an undefined tensor if sources[i] is -1. A rank's x may go to
// several ranks or to none. Every rank gives the same sources, one per rank, and an x of the same
// shape and dtype. Checks all this before anything moves. Not differentiable. IndexError for a
// source that is no rank, CaptureError in compiled code.
//   send_recv(x, {3, 0, 1, 2})        each to the next rank, round
//   send_recv(x, {-1, 0, -1, -1})     rank 0 to rank 1
Tensor send_recv(const Tensor& x, const std::vector<int>& sources, Caller = Caller::here());

// Runs f() on every rank; f makes no collective calls. If f throws on some ranks, the lowest of
// them rethrows its exception, and every other rank throws an exception of the same type that names
// this rank, also a rank whose own f threw. An exception that is not of core/error.h is an Error on
// the other ranks. Waits for all ranks to come, as other calls do, and for f as long as it takes.
void together(const std::function<void()>& f, Caller = Caller::here());
// Runs f() before a collective call. If f throws, every rank throws as in together(): the other
// ranks throw from their collective call.
void share_failure(const std::function<void()>& f, Caller = Caller::here());
// Runs f() on rank 0 while the other ranks wait. Throws as together() does.
void on_root(const std::function<void()>& f, Caller = Caller::here());

// --- Details ---

// Ways
//   - MPI joins the ranks, and sums tensors of the host and of emulated GPUs. Among real GPUs NCCL
//     sums, in stream order, if the build has NCCL.
//   - Results are the same bits on every rank, and in every run with as many ranks.
//   - The ledger and the profiler show copies on this rank, not what goes between ranks.

// Calls that differ
//   - Rank 0 compares what the ranks call before anything moves. Every rank throws, and names
//     a rank that differs: Error for another call or purpose, ContextMismatch for other kinds of
//     contexts, DTypeError, ShapeError. Nothing is written then, and the ranks may go on.
//   - A trainer's calls also compare batch size, loss scale and learning rate (nn/trainer.h).
//   - Values of tensors are not compared. If a rank decides something by its own values, such as a
//     learning rate by its loss, send the value through all_reduce() or broadcast() first.

// What each rank has alone
//   - Random numbers: equal seeds give dropout equal masks, so seed by rank().
//   - The running statistics of BatchNorm, except nn::SyncBatchNorm's. A checkpoint has rank 0's.

// Ranks that fail
//   - If a rank does not come to a call within LOCUS_CLUSTER_TIMEOUT seconds (12), every rank that
//     waits for it throws a DeviceError that names it. Ranks that wait for rank 0 throw after twice
//     that time and 2 s. Then the cluster has failed: each later collective call throws a
//     DeviceError, whatever else is wrong with it.
//   - If a rank ends by a signal, by an uncaught exception or with a status other than 0, all ranks
//     end, and it is named. Except status 128 + SIGINT or SIGTERM, which programs that were stopped
//     end with: if all ranks end so, they end as with status 0.

}  // namespace locus::cluster
