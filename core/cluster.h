// A cluster: processes that train together, on one machine or several. mpirun or srun starts the
// processes; each process is a rank.
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
// Every rank makes the same collective calls in the same order. A single process, or a process
// before init(), is rank 0 of 1: all calls work, without MPI. If several threads of a process call,
// the program orders their calls. Unusual cases: "Details" at the end.
#pragma once

#include <functional>
#include <vector>

#include <locus/core/caller.h>
#include <locus/core/group.h>
#include <locus/core/tensor.h>

namespace locus::cluster {

// Joins the ranks that mpirun or srun started. Call init() first: it divides a host's CPUs among
// its ranks, unless the launcher did. LOCUS_PIN=0 leaves threads unpinned. LOCUS_NUM_THREADS sets
// the number of threads. Once ranks have joined, later calls do nothing.
//
// Waits for all ranks for 25 s, or LOCUS_CLUSTER_TIMEOUT if longer. If a rank is then missing, this
// process prints a message and exits with status 1. Throws Error if LOCUS_CLUSTER_TIMEOUT is not a
// whole number from 1 to 1000000, if several ranks were started but the build has no MPI, or if MPI
// does not find them.
void init();

// The number of processes that mpirun or srun started, also before init(). 1 if none.
int launched();

int rank();        // 0 to size() - 1
int size();        // 1: single process
int local_rank();  // among the ranks on this host
int local_size();

// Returns this rank's n GPUs. A collective call. If all ranks of the host see the same GPUs, the n
// GPUs start at gpu(local_rank() * n). If each rank sees its own GPUs (srun --gpus-per-task), they
// start at gpu(0). If no rank has a GPU: cpu(0) to cpu(n - 1). Errors, on every rank: Error for
// different n, DeviceError if a rank lacks GPUs or two ranks would share one, ValueError unless n
// is 1 to 64.
std::vector<Context> contexts(int n = 1, Caller = Caller::here());

// Waits until every rank calls it.
void barrier(Caller = Caller::here());

// Reduces the tensors over all ranks element-wise, in place. Every rank passes the same number of
// tensors, of equal shapes, dtypes and device types (cpu and cpu_pinned count as one). Tensors on
// one context on some rank must share a context on every rank. On the host f16 and bf16 are summed
// in f32, and max and min propagate NaN. On GPUs NCCL's rules hold; the host waits for the other
// ranks' calls only. Not differentiable. Views are allowed. Error for tensors that share bytes,
// broadcast views, and recorded tensors. DTypeError for bool_ and for the mean of integers,
// CaptureError in compiled code.
void all_reduce(const Tensors& tensors, ReduceOp op = ReduceOp::sum, Caller = Caller::here());
double all_reduce(double value, ReduceOp op = ReduceOp::sum, Caller = Caller::here());
// Writes rank root's values into the tensors of every rank. Any dtype. IndexError for a bad root.
// Other errors: as all_reduce().
void broadcast(const Tensors& tensors, int root = 0, Caller = Caller::here());
// Sends and receives at once, as send_recv() of ops/collective.h does among contexts. Rank i
// receives a copy of x from rank sources[i], or an undefined tensor if sources[i] is -1. A rank's x
// may go to several ranks or to none. Every rank passes the same sources, one per rank, and an x of
// the same shape and dtype; this is checked before anything is sent. Not differentiable. IndexError
// for a source that is not a rank, CaptureError in compiled code.
//   send_recv(x, {3, 0, 1, 2})        each to the next rank, as a ring
//   send_recv(x, {-1, 0, -1, -1})     rank 0 to rank 1
Tensor send_recv(const Tensor& x, const std::vector<int>& sources, Caller = Caller::here());

// Runs f() on every rank; f makes no collective calls. If f throws on some ranks, the lowest
// failing rank rethrows its exception. Every other rank throws an exception of the same type that
// names the lowest failing rank. If the type is not from core/error.h, the other ranks throw Error.
// The cluster timeout applies to reaching this call, not to f.
void together(const std::function<void()>& f, Caller = Caller::here());
// For checks before a collective call. Runs f(), without waiting if f succeeds. If f throws on some
// ranks, every rank throws as in together(): those ranks from here, and the others from the
// collective call that follows.
void share_failure(const std::function<void()>& f, Caller = Caller::here());
// Runs f() on rank 0 while the other ranks wait. Throws as together() does.
void on_root(const std::function<void()>& f, Caller = Caller::here());

// --- Details ---

// A single process
//   - rank() is 0, and size() is 1.
//   - all_reduce() and broadcast() check their arguments and leave the tensors as they are.
//     send_recv(x, {0}) returns a copy of x. together() runs f().
//   - contexts() returns gpu(0), or cpu(0) if there is no GPU.

// Threads of a process
//   - Calls at the same time are safe: a lock runs one all_reduce(), broadcast() or barrier() after
//     the other.
//   - The lock does not order threads: the program must call in one order on every rank. If threads
//     call in different orders, calls that differ throw as in "Mismatched calls". Calls with equal
//     shapes and dtypes are paired wrongly without an error.

// Transport
//   - MPI connects the ranks, and sums tensors on the host and on emulated GPUs. NCCL sums on real
//     GPUs, in stream order. In a build without NCCL, MPI sums them on the host.
//   - Results are the same bits on every rank and in every run, except perhaps NCCL's.
//   - TransferLog and the profiler show copies within this rank, not those between ranks.

// Mismatched calls
//   - Rank 0 compares the ranks' calls before anything is sent. If calls differ, every rank throws
//     and names a differing rank: Error for another call or purpose, ContextMismatch for other
//     types or numbers of contexts, DTypeError, ShapeError. Nothing is written, and the ranks may
//     continue.
//   - If one rank finds an error in its arguments, every rank throws this error.
//   - A trainer's calls also compare batch size, loss scale and learning rate (nn/trainer.h).
//   - Values of tensors are not compared. If a rank decides something by its own values, such as a
//     learning rate by its loss, send the value through all_reduce() or broadcast() first.

// State of each rank
//   - Random numbers: equal seeds give equal dropout masks, so seed by rank().
//   - Running statistics of BatchNorm differ between ranks; a checkpoint stores rank 0's. Running
//     statistics of nn::SyncBatchNorm are equal on all ranks.

// Failing ranks
//   - LOCUS_CLUSTER_TIMEOUT is in seconds. The default is 12, for every call except init().
//   - If a rank does not reach a call within LOCUS_CLUSTER_TIMEOUT, every rank that waits throws a
//     DeviceError that names the late rank. The late rank's call throws DeviceError, too, within
//     twice that time plus 2 s.
//   - If rank 0 is late, the other ranks throw after twice LOCUS_CLUSTER_TIMEOUT plus 2 s.
//   - After such an error the cluster has failed: on ranks that threw, each later collective call
//     throws DeviceError, even if the call has other errors.
//   - Buffers are allocated before anything is sent. If a rank has no memory for them, every rank
//     throws OutOfMemory. Nothing is written, and the ranks may continue.
//   - On GPUs a call returns before NCCL has ended. If NCCL has begun and does not end within
//     LOCUS_CLUSTER_TIMEOUT, or reports an error, nothing is thrown. The process prints a message
//     and ends all ranks with status 1.
//   - If a rank ends by a signal (srun: with --kill-on-bad-exit), by an uncaught exception, or with
//     a status other than 0, all ranks end, and the failing rank is named.
//   - A rank that ends with status 0 waits for the end of the others. If another rank makes a
//     collective call instead, that call throws Error, and all ranks end with status 1. After a
//     failure of the cluster, the first rank that ends with status 0 ends all ranks with status 1.
//   - Status 128 + SIGINT or 128 + SIGTERM is for stopped programs. If all ranks end with that
//     status, none is aborted.

}  // namespace locus::cluster
