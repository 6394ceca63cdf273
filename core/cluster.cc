#include <locus/core/cluster.h>

#include <unistd.h>

#include <cstdlib>
#include <memory>

#include <locus/core/environment.h>
#include <locus/core/error.h>
#include <locus/core/rank_calls.h>

namespace locus {
namespace {

JoinRanks join_ranks = nullptr;

}  // namespace

void set_ranks(JoinRanks join) { join_ranks = join; }

namespace cluster {
namespace {

constinit Ranks::Place here;

RankCall call_of(const std::string& name, Caller from) {
  return {.text = text_of(name, " (", from, ")"), .spec = {hash_of(name), 0, 0, 0}};
}

// Whoever ends alone ends all, else the others wait for it.
void terminated() {
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

void ended(int status, void* process) {
  if (getpid() != static_cast<pid_t>(reinterpret_cast<intptr_t>(process))) return;  // a child
  if (status != 0) ranks()->end_all(text_of("it ended with status ", status), status);
  const MutexLock turn(turns());
  try {
    agree({.text = "the end of the program", .spec = {hash_of("end"), 0, 0, 0}}, Ranks::kForever);
    ranks()->leave();
  } catch (const std::exception& e) {
    ranks()->end_all(e.what(), 1);
  }
}

}  // namespace

void init() {
  const MutexLock turn(turns());
  if (ranks() || !join_ranks) return;
  const int64_t limit = environment_number("LOCUS_CLUSTER_TIMEOUT", 1, 1000000).value_or(12);
  std::unique_ptr<Ranks> joined = join_ranks();
  if (!joined) return;
  here = joined->place();
  use(*joined.release(), static_cast<double>(limit));
  std::set_terminate(&terminated);
  on_exit(&ended, reinterpret_cast<void*>(static_cast<intptr_t>(getpid())));
}

int rank() { return here.rank; }
int size() { return here.size; }
int local_rank() { return here.local_rank; }
int local_size() { return here.local_size; }

void barrier(Caller from) {
  if (!ranks()) return;
  const MutexLock turn(turns());
  agree(call_of("barrier", from), time_limit());
}

void together(const std::function<void()>& f, Caller from) {
  if (!ranks()) return f();
  barrier(from);  // a rank that does not come is found, however long f takes
  RankCall call = call_of("together", from);
  try {
    f();
  } catch (...) {
    call.failure = std::current_exception();
  }
  const MutexLock turn(turns());
  agree(call, Ranks::kForever);
}

void share_failure(const std::function<void()>& f, Caller from) {
  if (!ranks()) return f();
  try {
    f();
  } catch (...) {
    RankCall call = call_of("an exception", from);
    call.failure = std::current_exception();
    const MutexLock turn(turns());
    agree(call, time_limit());
  }
}

void on_root(const std::function<void()>& f, Caller from) {
  together(
      [&] {
        if (rank() == 0) f();
      },
      from);
}

std::vector<Context> contexts(int n, Caller from) {
  if (n < 1) throw ValueError("cluster::contexts: ", n, " contexts; expected at least 1");
  const bool any = all_reduce(num_gpus(), ReduceOp::max, from) > 0;
  const int first = local_rank() * n;
  together(
      [&] {
        if (any && num_gpus() < first + n)
          throw DeviceError("cluster::contexts: rank ", rank(), " is number ", local_rank(), " of ",
                            local_size(), " on its host and needs gpu(", first + n - 1,
                            "), and there are ", num_gpus(),
                            " GPUs; start fewer ranks a host, or name contexts, such as cpu(0)");
      },
      from);
  std::vector<Context> mine;
  for (int i = 0; i < n; ++i) mine.push_back(any ? gpu(first + i) : cpu(i));
  return mine;
}

}  // namespace cluster
}  // namespace locus
