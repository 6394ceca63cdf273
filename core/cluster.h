// Processes that train together, on one machine or several: ranks, started by mpirun or srun.
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
//     trainer.step(256);                                     // likewise
//   }
//
// MPI joins the ranks, and sums what is on the host or on emulated GPUs; among real GPUs NCCL does,
// in stream order, where the build has it. One process alone, or before init(), is rank 0 of 1: all
// here works, and costs nothing.
//
// Collective calls are made by every rank in the same order, one thread a rank at a time; threads
// of one process take turns (MPI_THREAD_SERIALIZED). Rank 0 compares what the ranks call before
// anything moves: another call, other contexts' kinds, dtypes or shapes are an Error, a
// ContextMismatch, a DTypeError or a ShapeError on every rank, which says who differs; nothing is
// written then, and the ranks may go on. A trainer's calls compare batch size, loss scale and
// learning rate, too (nn/trainer.h). Values are not compared: what a rank decides by values of its
// own, such as a learning rate by its part's loss, goes through all_reduce() or broadcast() first.
// Random numbers are each rank's own: equal seeds give dropout equal masks, so seed by rank(). The
// running statistics of BatchNorm are each rank's own, and a checkpoint has rank 0's, unless it
// is nn::SyncBatchNorm. The ledger and the profiler show copies on this rank, not what goes
// between. Results are the same bits on every rank and in every run with as many ranks.
//
// A rank that does not come to a call within LOCUS_CLUSTER_TIMEOUT seconds (12) is a DeviceError on
// every rank that waits for it, which names it, and rank 0 on the others after twice that and 2 s;
// the cluster has failed then, and each later call throws the same. A rank that ends by a signal,
// by an exception that nobody catches or by a status other than 0 ends all ranks, naming itself;
// but for 128 + SIGINT or SIGTERM, by which programs end that these stopped: where all ranks do,
// they end as they do with 0.
#pragma once

#include <functional>
#include <vector>

#include <locus/core/caller.h>
#include <locus/core/group.h>
#include <locus/core/tensor.h>

namespace locus::cluster {

// Joins the ranks that mpirun or srun started; waits until all do, for 25 s, or for
// LOCUS_CLUSTER_TIMEOUT where that is longer: then this process ends with status 1 and says that
// not all came, for MPI cannot go on without them. Later calls do nothing. Ranks of
// one host share its CPUs: each computes with threads on its part of them, unless the launcher
// bound them apart or LOCUS_NUM_THREADS and LOCUS_PIN=0 say otherwise; so call it first. Throws
// Error where several were started and the build is without MPI, or MPI does not find them.
void init();

// How many processes mpirun or srun says that it started, also before init(): 1 where there was
// none.
int launched();

int rank();        // 0 to size() - 1
int size();        // 1: alone
int local_rank();  // among those on this host
int local_size();

// This rank's part of its host's GPUs, n: gpu(local_rank() * n) and those after it where all ranks
// of the host see the same ones, gpu(0) and those after it where each sees its own (srun
// --gpus-per-task); cpu(0) ... cpu(n - 1) where no rank has a GPU. Collective, with one n: Error
// where ranks ask for different ones, DeviceError where one lacks its GPUs or two would have one in
// common, on every rank; ValueError unless n is 1 to 64.
std::vector<Context> contexts(int n = 1, Caller = Caller::here());

// Until every rank is here.
void barrier(Caller = Caller::here());

// Tensors combined with those of the other ranks, in place, element by element: the same number of
// tensors on each rank, alike from rank to rank in shape, dtype and kind of context, of which the
// host is one; those that share a context on one rank share one on all. Many at once are faster
// than one after the other. f16 and bf16 are summed in f32 on the host. NaN stays NaN, in max and
// min too; those of GPUs are as NCCL has them. mean is of floating-point tensors; bool_ is a
// DTypeError. Not differentiable: Error for tensors that are being recorded, CaptureError while a
// compiled function is. Does not wait for GPUs where NCCL sums.
void all_reduce(const Tensors& tensors, ReduceOp op = ReduceOp::sum, Caller = Caller::here());
double all_reduce(double value, ReduceOp op = ReduceOp::sum, Caller = Caller::here());
// Rank root's values, on every rank, likewise in place. Any dtype.
void broadcast(const Tensors& tensors, int root = 0, Caller = Caller::here());
// Sends and receives at once, as send_recv() of ops/collective.h does among contexts: a copy of
// rank sources[i]'s x on rank i, beside its own x, and nothing, an undefined tensor, where
// sources[i] is -1. One rank's may go to several or to none. Every rank calls it, with the same
// sources, one a rank, and with an x of one shape and dtype, any; what does not fit is found before
// anything moves. IndexError for a source that is no rank. Not differentiable; CaptureError while a
// compiled function is recorded.
//   send_recv(x, {3, 0, 1, 2})        each to the next rank, round
//   send_recv(x, {-1, 0, -1, -1})     rank 0 to rank 1
Tensor send_recv(const Tensor& x, const std::vector<int>& sources, Caller = Caller::here());

// f() on every rank, without collective calls: where it throws on one, that exception is rethrown
// there, and every other rank throws one of the same type that names the rank. Waits for all to
// come as other calls do, and for f as long as it takes.
void together(const std::function<void()>& f, Caller = Caller::here());
// f(), which comes before a collective call: what it throws on one rank is rethrown there, and the
// others throw one of the same type, which names the rank, from their call.
void share_failure(const std::function<void()>& f, Caller = Caller::here());
// f() on rank 0, while the others wait.
void on_root(const std::function<void()>& f, Caller = Caller::here());

}  // namespace locus::cluster
