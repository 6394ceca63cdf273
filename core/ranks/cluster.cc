#include <locus/core/cluster.h>

#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include <locus/core/base/at_line.h>
#include <locus/core/base/environment.h>
#include <locus/core/error.h>
#include <locus/core/ranks/rank_calls.h>
#include <locus/core/ranks/rank_purpose.h>

namespace locus {
namespace {

JoinRanks join_ranks = nullptr;

std::string name_and_number(int index) {
  char host[256] = {};
  gethostname(host, sizeof(host) - 1);
  return text_of(host, ":", index);
}
GpuIdentity gpu_identity = &name_and_number;

}  // namespace

void set_ranks(JoinRanks join) { join_ranks = join; }
void set_gpu_identity(GpuIdentity f) { gpu_identity = f ? f : &name_and_number; }

namespace cluster {
namespace {

constinit Ranks::RankInfo here;
constexpr int64_t kStart = 25;  // seconds, at least, for all ranks to start

// The process that joined, not its children; and its previous terminate handler.
constinit pid_t process = 0;
constinit std::terminate_handler terminated_alone = nullptr;

void lock_and_agree(const RankCall& call, double seconds = time_limit()) {
  const MutexLock lock(turns());
  agree(call, seconds);
}

// A rank that ends alone ends all; else the others would wait.
void terminated() {
  if (getpid() != process) return terminated_alone();
  std::string why = "it was terminated";
  if (const std::exception_ptr e = std::current_exception()) try {
      std::rethrow_exception(e);
    } catch (const std::exception& caught) {
      why = caught.what();
    } catch (...) {
      why = "an exception of an unknown type";
    }
  ranks()->end_all(why, 134);
}

void ended(int status, void*) {
  if (getpid() != process) return;
  std::fflush(stdout);  // before end_all()
  const bool stopped = status == 128 + SIGINT || status == 128 + SIGTERM;
  if (status != 0 && !stopped) ranks()->end_all(text_of("it ended with status ", status), status);
  std::string end = "the end of the program";
  if (stopped) end += text_of(" with status ", status);
  const MutexLock lock(turns());
  try {
    agree({.spec = {hash_of(end), 0, 0, 0}, .text = [&] { return end; }},
          stopped ? time_limit() : Ranks::kForever);
    ranks()->leave();
  } catch (const std::exception& e) {
    ranks()->end_all(stopped ? text_of("it ended with status ", status) : e.what(),
                     stopped ? status : 1);
  }
}

// Hashes of GPUs that a rank sees, in order; then 0.
using Seen = std::array<uint64_t, kMaxDevices>;

// Whether the first n share a GPU.
bool common(const Seen& a, const Seen& b, int n) {
  return std::any_of(a.begin(), a.begin() + n, [&](uint64_t gpu) {
    return gpu != 0 && std::find(b.begin(), b.begin() + n, gpu) != b.begin() + n;
  });
}

std::vector<Seen> seen_by_all(Caller from) {
  std::vector<Seen> all(static_cast<size_t>(size()));
  together(
      [&] {
        for (int i = 0; i < num_gpus(); ++i)
          all[static_cast<size_t>(rank())][static_cast<size_t>(i)] = hash_of(gpu_identity(i));
      },
      from);
  if (!ranks()) return all;
  const MutexLock lock(turns());
  agree(call_of("contexts", from), time_limit());
  carry_out([&] {
    ranks()->all_reduce(all.data(), all.size() * kMaxDevices, i64, ReduceOp::sum, time_limit());
  });
  return all;
}

}  // namespace

void init() {
  const MutexLock lock(turns());
  if (ranks()) return;
  const int64_t limit = environment_number("LOCUS_CLUSTER_TIMEOUT", 1, 1000000).value_or(12);
  if (!join_ranks) return;
  std::unique_ptr<Ranks> joined = join_ranks(static_cast<double>(std::max(kStart, limit)));
  if (!joined) return;
  here = joined->info();
  use(*joined.release(), static_cast<double>(limit));
  process = getpid();
  terminated_alone = std::set_terminate(&terminated);
  on_exit(&ended, nullptr);
}

int launched() {
  // Open MPI's mpirun; MPICH's and Slurm's PMI2; srun.
  for (const char* const variable : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"})
    if (const char* const text = std::getenv(variable)) return std::max(1, std::atoi(text));
  return 1;
}

int rank() { return here.rank; }
int size() { return here.size; }
int local_rank() { return here.local_rank; }
int local_size() { return here.local_size; }

void barrier(Caller from) {
  if (ranks()) lock_and_agree(call_of("barrier", from));
}

namespace {

void run(const char* who, const std::function<void()>& f, Caller from) {
  if (!f) throw ValueError(with_line(text_of("cluster::", who, ": the function is empty"), from));
  f();
}

}  // namespace

void together(const std::function<void()>& f, Caller from) {
  if (!ranks()) return run("together", f, from);
  RankCall call = call_of("together", from);
  lock_and_agree(call);  // finds missing ranks, however long f takes
  try {
    run("together", f, from);
  } catch (...) {
    call.failure = std::current_exception();
  }
  lock_and_agree(call, Ranks::kForever);
}

void share_failure(const std::function<void()>& f, Caller from) {
  if (!ranks()) return run("share_failure", f, from);
  try {
    run("share_failure", f, from);
  } catch (...) {
    RankCall call = call_of("an exception", from);
    call.failure = std::current_exception();
    lock_and_agree(call);
  }
}

void on_root(const std::function<void()>& f, Caller from) {
  together(
      [&] {
        if (rank() == 0) run("on_root", f, from);
      },
      from);
}

std::vector<Context> contexts(int n, Caller from) {
  share_failure(
      [&] {
        if (n < 1 || n > kMaxDevices)
          throw ValueError("cluster::contexts: ", n, " contexts; expected 1 to ", kMaxDevices);
      },
      from);
  const Purpose each(Hash().add(n), [n] { return text_of(n, " contexts per rank"); });
  const std::vector<Seen> all = seen_by_all(from);
  const Seen& mine = all[static_cast<size_t>(rank())];
  const bool any = std::ranges::any_of(all, [](const Seen& s) { return s[0] != 0; });
  // Whether all ranks of this host see the same GPUs, and no other rank sees one.
  const bool same =
      std::ranges::count(all, mine) == local_size() && std::ranges::all_of(all, [&](const Seen& s) {
        return s == mine || !common(s, mine, kMaxDevices);
      });
  const int first = same ? local_rank() * n : 0;
  together(
      [&] {
        if (any && num_gpus() < first + n)
          throw DeviceError("cluster::contexts: rank ", rank(), " is number ", local_rank(), " of ",
                            local_size(), " on its host and needs gpu(", first + n - 1,
                            "), and there are ", num_gpus(),
                            " GPUs; start fewer ranks a host, or name contexts, such as cpu(0)");
        for (int r = 0; any && !same && r < size(); ++r)
          if (r != rank() && common(all[static_cast<size_t>(r)], mine, n))
            throw DeviceError("cluster::contexts: ranks ", rank(), " and ", r,
                              " see GPUs that differ, and would share one; expected the same GPUs "
                              "for all ranks of a host, or its own for each (CUDA_VISIBLE_DEVICES, "
                              "srun --gpus-per-task)");
      },
      from);
  std::vector<Context> chosen;
  for (int i = 0; i < n; ++i) chosen.push_back(any ? gpu(first + i) : cpu(i));
  return chosen;
}

}  // namespace cluster
}  // namespace locus
