#include <locus/devices/ranks/mpi_ranks.h>

#include <algorithm>

#include <locus/core/cluster.h>
#include <locus/core/dtype.h>
#include <locus/core/error.h>
#include <locus/core/ranks/ranks.h>

#ifdef LOCUS_WITH_MPI
#include <mpi.h>
#include <sched.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <stop_token>
#include <thread>

#include <locus/devices/host/share_cpus.h>
#endif

namespace locus {
namespace {

#ifdef LOCUS_WITH_MPI

using Clock = std::chrono::steady_clock;

void check(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw DeviceError("MPI: ", call, ": ", std::string(text, static_cast<size_t>(length)));
}

MPI_Datatype type_of(DType d) {
  switch (d) {
    case f32:
      return MPI_FLOAT;
    case f64:
      return MPI_DOUBLE;
    case i32:
      return MPI_INT32_T;
    case i64:
      return MPI_INT64_T;
    case u8:
      return MPI_UINT8_T;
    case i8:
      return MPI_INT8_T;
    default:
      throw DTypeError("MPI: ", locus::name(d), " is not reduced on the host");
  }
}

// MPI's own max and min keep or drop a NaN by the order of the ranks.
template <class T, bool is_max>
void extreme(void* in, void* in_out, int* n, MPI_Datatype*) {
  const auto* const a = static_cast<const T*>(in);
  auto* const b = static_cast<T*>(in_out);
  for (int i = 0; i < *n; ++i)
    if (a[i] != a[i] || (is_max ? a[i] > b[i] : a[i] < b[i])) b[i] = a[i];
}
template <class T, bool is_max>
MPI_Op extreme_op() {
  static const MPI_Op op = [] {
    MPI_Op made;
    check(MPI_Op_create(&extreme<T, is_max>, true, &made), "MPI_Op_create");
    return made;
  }();
  return op;
}

MPI_Op native(ReduceOp op, DType d) {
  switch (op) {
    case ReduceOp::max:
      return d == f32 ? extreme_op<float, true>() : d == f64 ? extreme_op<double, true>() : MPI_MAX;
    case ReduceOp::min:
      return d == f32   ? extreme_op<float, false>()
             : d == f64 ? extreme_op<double, false>()
                        : MPI_MIN;
    case ReduceOp::prod:
      return MPI_PROD;
    default:
      return MPI_SUM;
  }
}

template <class T>
void divide(void* data, size_t n, int by) {
  auto* const v = static_cast<T*>(data);
  for (size_t i = 0; i < n; ++i) v[i] /= static_cast<T>(by);
}

class MpiRanks final : public Ranks {
 public:
  MpiRanks() {
    int there = 0;
    check(MPI_Initialized(&there), "MPI_Initialized");
    ours_ = there == 0;
    int level = 0;
    if (ours_)
      check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &level), "MPI_Init_thread");
    else
      check(MPI_Query_thread(&level), "MPI_Query_thread");
    if (level < MPI_THREAD_SERIALIZED)
      throw Error("cluster::init: this MPI gives threads level ", level,
                  "; expected MPI_THREAD_SERIALIZED");
    check(MPI_Comm_dup(MPI_COMM_WORLD, &all_), "MPI_Comm_dup");
    check(MPI_Comm_set_errhandler(all_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    check(MPI_Comm_rank(all_, &info_.rank), "MPI_Comm_rank");
    check(MPI_Comm_size(all_, &info_.size), "MPI_Comm_size");
    MPI_Comm local;
    check(MPI_Comm_split_type(all_, MPI_COMM_TYPE_SHARED, info_.rank, MPI_INFO_NULL, &local),
          "MPI_Comm_split_type");
    check(MPI_Comm_rank(local, &info_.local_rank), "MPI_Comm_rank");
    check(MPI_Comm_size(local, &info_.local_size), "MPI_Comm_size");
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    sched_getaffinity(0, sizeof cpus, &cpus);
    const bool bound = bound_apart(cpus, local);
    if (!bound && CPU_COUNT(&cpus) < info_.local_size) spin_ = 0;
    share_cpus(info_.local_rank, info_.local_size, bound);
    check(MPI_Comm_free(&local), "MPI_Comm_free");
    messages_.resize(static_cast<size_t>(info_.rank == 0 ? info_.size : 1));
    requests_.assign(static_cast<size_t>(std::max(info_.size, 2)), MPI_REQUEST_NULL);
  }

  RankInfo info() const override { return info_; }

  std::vector<std::optional<std::string>> gather(const std::string& mine, double seconds) override {
    if (info_.rank != 0) {  // completed in from_root()
      messages_[0].write(mine);
      check(MPI_Isend(&messages_[0], sizeof(Message), MPI_BYTE, 0, kToRoot, all_, &requests_[0]),
            "MPI_Isend");
      return {};
    }
    messages_[0].write(mine);
    for (int r = 1; r < info_.size; ++r)
      check(MPI_Irecv(&messages_[static_cast<size_t>(r)], sizeof(Message), MPI_BYTE, r, kToRoot,
                      all_, &requests_[static_cast<size_t>(r)]),
            "MPI_Irecv");
    const bool all = all_came_ = wait(&requests_[1], info_.size - 1, seconds);
    std::vector<std::optional<std::string>> came(static_cast<size_t>(info_.size));
    for (size_t r = 0; r < came.size(); ++r) {
      int here = all || r == 0;
      if (!here) check(MPI_Test(&requests_[r], &here, MPI_STATUS_IGNORE), "MPI_Test");
      if (here) came[r] = messages_[r].read();
    }
    return came;
  }

  std::optional<std::string> from_root(const std::string& mine, double seconds) override {
    if (info_.rank != 0) {
      check(MPI_Irecv(&answer_, sizeof(Message), MPI_BYTE, 0, kFromRoot, all_, &requests_[1]),
            "MPI_Irecv");
      if (!wait(requests_.data(), 2, seconds)) return std::nullopt;
      return answer_.read();
    }
    answer_.write(mine);
    for (int r = 1; r < info_.size; ++r)
      check(MPI_Isend(&answer_, sizeof(Message), MPI_BYTE, r, kFromRoot, all_,
                      &requests_[static_cast<size_t>(r)]),
            "MPI_Isend");
    // A rank that did not come may not receive the answer.
    if (!wait(&requests_[1], info_.size - 1, all_came_ ? seconds : 1) && all_came_)
      throw DeviceError("MPI: a rank that came did not take rank 0's answer within ", seconds,
                        " s");
    return mine;
  }

  void all_reduce(void* data, size_t elements, DType dtype, ReduceOp op, double seconds) override {
    in_pieces(data, elements, static_cast<size_t>(size_of(dtype)), [&](void* at, int n) {
      MPI_Request r;
      check(MPI_Iallreduce(MPI_IN_PLACE, at, n, type_of(dtype), native(op, dtype), all_, &r),
            "MPI_Iallreduce");
      await({&r, 1}, "MPI_Iallreduce", seconds);
    });
    if (op != ReduceOp::mean) return;
    if (dtype == f32)
      divide<float>(data, elements, info_.size);
    else
      divide<double>(data, elements, info_.size);
  }

  void broadcast(void* data, size_t bytes, int root, double seconds) override {
    in_pieces(data, bytes, 1, [&](void* at, int n) {
      MPI_Request r;
      check(MPI_Ibcast(at, n, MPI_BYTE, root, all_, &r), "MPI_Ibcast");
      await({&r, 1}, "MPI_Ibcast", seconds);
    });
  }

  void send_recv(const void* mine, void* theirs, size_t bytes, const std::vector<int>& sources,
                 double seconds) override {
    const int source = sources[static_cast<size_t>(info_.rank)];
    in_pieces(theirs, bytes, 1, [&](void* to, int n) {
      const auto* const at =
          static_cast<const char*>(mine) + (static_cast<char*>(to) - static_cast<char*>(theirs));
      std::vector<MPI_Request> requests;
      for (int r = 0; r < info_.size; ++r)
        if (sources[static_cast<size_t>(r)] == info_.rank)
          check(MPI_Isend(at, n, MPI_BYTE, r, kPart, all_, &requests.emplace_back()), "MPI_Isend");
      if (source >= 0)
        check(MPI_Irecv(to, n, MPI_BYTE, source, kPart, all_, &requests.emplace_back()),
              "MPI_Irecv");
      await(requests, "MPI_Isend", seconds);
    });
  }

  void leave() override {
    int gone = 0;
    check(MPI_Finalized(&gone), "MPI_Finalized");
    if (ours_ && !gone) check(MPI_Finalize(), "MPI_Finalize");
  }

  [[noreturn]] void end_all(const std::string& why, int status) noexcept override {
    char host[256] = {};
    gethostname(host, sizeof host - 1);
    std::fprintf(stderr, "locus: rank %d of %d, on %s, ends all ranks: %s\n", info_.rank,
                 info_.size, host, why.c_str());
    std::fflush(stderr);
    MPI_Abort(MPI_COMM_WORLD, status);
    _exit(status);
  }

 private:
  static constexpr int kToRoot = 1, kFromRoot = 2, kPart = 3;
  static constexpr size_t kPiece = size_t{1} << 28;  // bytes: MPI counts in int

  struct Message {
    uint32_t length = 0;
    char text[kLongest];
    void write(const std::string& s) {
      length = static_cast<uint32_t>(std::min(s.size(), kLongest));
      std::memcpy(text, s.data(), length);
    }
    std::string read() const { return {text, length}; }
  };

  // Whether the launcher bound this host's ranks to different CPUs.
  bool bound_apart(const cpu_set_t& mine, MPI_Comm local) const {
    std::vector<cpu_set_t> all(static_cast<size_t>(info_.local_size));
    check(MPI_Allgather(&mine, sizeof mine, MPI_BYTE, all.data(), sizeof mine, MPI_BYTE, local),
          "MPI_Allgather");
    return std::ranges::any_of(all, [&](const cpu_set_t& s) { return !CPU_EQUAL(&s, &mine); });
  }

  // False if not all are done in time.
  bool wait(MPI_Request* requests, int n, double seconds) const {
    const auto start = Clock::now();
    for (int polls = 0;; ++polls) {
      int done = 0;
      check(MPI_Testall(n, requests, &done, MPI_STATUSES_IGNORE), "MPI_Testall");
      if (done) return true;
      if (polls < 20) continue;
      const double spent = std::chrono::duration<double>(Clock::now() - start).count();
      if (spent > seconds) return false;
      // The system prefers a thread that slept to threads that compute, but not one that yields.
      if (spent > spin_) std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  }
  void await(std::span<MPI_Request> requests, const char* call, double seconds) const {
    if (!wait(requests.data(), static_cast<int>(requests.size()), seconds))
      throw DeviceError("MPI: ", call, " did not end within ", seconds,
                        " s: a rank hangs, or its connection does");
  }

  static void in_pieces(void* data, size_t elements, size_t element, const auto& f) {
    const size_t each = kPiece / element;
    for (size_t begin = 0; begin < elements; begin += each)
      f(static_cast<char*>(data) + begin * element,
        static_cast<int>(std::min(each, elements - begin)));
  }

  RankInfo info_;
  MPI_Comm all_ = MPI_COMM_NULL;
  bool ours_ = false;
  bool all_came_ = true;  // on rank 0: in the last gather()
  double spin_ = 2e-4;    // seconds of waiting without sleep
  // Buffers of messages in flight. Rank 0 has all ranks' messages.
  std::vector<Message> messages_;
  Message answer_;
  std::vector<MPI_Request> requests_;
};

// Ends this process unless destroyed in time: MPI's start waits for all ranks without limit.
std::jthread start_limit(int n, double seconds) {
  return std::jthread([=](const std::stop_token& stop) {
    std::mutex mutex;
    std::unique_lock lock(mutex);
    const auto started = [&] { return stop.stop_requested(); };
    if (std::condition_variable_any().wait_for(lock, stop, std::chrono::duration<double>(seconds),
                                               started))
      return;
    std::fprintf(stderr,
                 "locus: cluster::init: not all of the %d ranks came within %g s: one hangs or "
                 "ended before cluster::init(), or its host is not reached; look at what each "
                 "prints (mpirun --tag-output), and set LOCUS_CLUSTER_TIMEOUT, in seconds, where "
                 "they need longer\n",
                 n, seconds);
    std::fflush(stderr);
    _exit(1);
  });
}

std::unique_ptr<Ranks> join(double seconds) {
  const int n = cluster::launched();
  int there = 0;
  check(MPI_Initialized(&there), "MPI_Initialized");
  if (n == 1 && !there) return nullptr;
  std::jthread limit = start_limit(n, seconds);
  auto ranks = std::make_unique<MpiRanks>();
  limit = {};
  if (ranks->info().size < n)
    throw Error("cluster::init: this process is one of ", n, ", but MPI finds ", ranks->info().size,
                "; start it with the mpirun of the MPI that it was built with, or under Slurm with "
                "srun --mpi=pmix (srun --mpi=list says what there is)");
  return ranks;
}

#else

std::unique_ptr<Ranks> join(double) {
  if (const int n = cluster::launched(); n > 1)
    throw Error("cluster::init: this process is one of ", n,
                ", and Locus was built without MPI; install it (libopenmpi-dev), and configure "
                "with LOCUS_MPI=ON");
  return nullptr;
}

#endif

}  // namespace

void register_ranks() { set_ranks(&join); }

}  // namespace locus
