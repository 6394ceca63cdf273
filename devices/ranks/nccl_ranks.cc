// NCCL among ranks: connections, whose id the ranks broadcast, and a thread that watches the
// collectives enqueued there.
#include <locus/devices/nccl/nccl.h>

#ifdef LOCUS_WITH_NCCL
#include <chrono>
#include <list>
#include <map>
#include <thread>
#include <vector>

#include <locus/core/base/mutex.h>
#include <locus/core/base/text.h>
#include <locus/core/shape.h>
#include <locus/devices/cuda/check.h>
#include <locus/devices/cuda/exit.h>
#include <locus/devices/nccl/nccl_calls.h>

namespace locus::cuda {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point t) {
  return std::chrono::duration<double>(Clock::now() - t).count();
}

// Collectives that are enqueued and not known to be done. If a peer is gone, a collective's kernel
// never ends, and the host waits for it.
class Watch {
 public:
  struct WatchedCall {
    Ranks* ranks;
    ncclComm_t comm;
    Context context;
    const char* call;
    double limit;  // seconds
    cudaEvent_t begun, ended;
    Clock::time_point since = {};  // when it was seen to have begun
    bool runs = false;
  };

  static Watch& of_process() {
    static auto* const watch = new Watch;
    return *watch;
  }

  cudaEvent_t event(Context c) {
    {
      const MutexLock lock(mutex_);
      if (std::vector<cudaEvent_t>& spare = spare_[c]; !spare.empty()) {
        const cudaEvent_t e = spare.back();
        spare.pop_back();
        return e;
      }
    }
    cudaEvent_t e;
    LOCUS_CUDA(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
    return e;
  }
  void add(const WatchedCall& w) {
    const MutexLock lock(mutex_);
    if (!started_) std::thread([this] { live(); }).detach();  // as long as the process
    started_ = true;
    under_way_.push_back(w);
  }

 private:
  void live() {
    while (!devices_unload) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      const MutexLock lock(mutex_);
      for (auto w = under_way_.begin(); w != under_way_.end();) {
        const Guard guard(w->context.index);
        ncclResult_t state = ncclSuccess;
        const ncclResult_t asked = ncclCommGetAsyncError(w->comm, &state);
        if (asked != ncclSuccess || (state != ncclSuccess && state != ncclInProgress))
          fail(*w, ncclGetErrorString(asked != ncclSuccess ? asked : state));
        if (!w->runs && cudaEventQuery(w->begun) != cudaErrorNotReady) {
          w->runs = true;
          w->since = Clock::now();
        }
        if (cudaEventQuery(w->ended) == cudaErrorNotReady) {  // else done, or the device failed
          if (w->runs && seconds_since(w->since) > w->limit)
            fail(*w, text_of("it did not end within ", w->limit, " s"));
          ++w;
          continue;
        }
        std::vector<cudaEvent_t>& spare = spare_[w->context];
        spare.insert(spare.end(), {w->begun, w->ended});
        w = under_way_.erase(w);
      }
    }
  }

  static void fail(const WatchedCall& w, const std::string& why) {
    w.ranks->end_all(text_of("NCCL: ", w.call, " on ", w.context, ": ", why), 1);
  }

  Mutex mutex_;
  bool started_ LOCUS_GUARDED_BY(mutex_) = false;
  std::list<WatchedCall> under_way_ LOCUS_GUARDED_BY(mutex_);
  std::map<Context, std::vector<cudaEvent_t>> spare_ LOCUS_GUARDED_BY(mutex_);
};

class NcclLink final : public RankLink {
 public:
  NcclLink(Ranks& ranks, Context c, double seconds)
      : ranks_(ranks), context_(c), seconds_(seconds) {
    ncclUniqueId id{};
    if (ranks.info().rank == 0) check(ncclGetUniqueId(&id), "ncclGetUniqueId");
    ranks.broadcast(&id, sizeof id, 0, seconds);
    const Guard guard(c.index);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;  // to notice a rank that dies meanwhile
    settle(ncclCommInitRankConfig(&comm_, ranks.info().size, id, ranks.info().rank, &config),
           "ncclCommInitRankConfig");
    watch_exit();
  }

  void all_reduce(std::span<const View> data, ReduceOp op, StreamView s) override {
    enqueue("ncclAllReduce", data, s, [&](const View& v, cudaStream_t stream) {
      return ncclAllReduce(v.data, v.data, static_cast<size_t>(v.meta.size()),
                           *type_of(v.meta.dtype), native(op), comm_, stream);
    });
  }
  void broadcast(std::span<const View> data, int root, StreamView s) override {
    enqueue("ncclBroadcast", data, s, [&](const View& v, cudaStream_t stream) {
      return ncclBroadcast(v.data, v.data, bytes_of(v.meta), ncclUint8, root, comm_, stream);
    });
  }
  void send_recv(std::span<const View> data, const std::vector<int>& sources,
                 StreamView s) override {
    const int me = ranks_.info().rank, source = sources[static_cast<size_t>(me)];
    enqueue("ncclSend", data.first(1), s, [&](const View& mine, cudaStream_t stream) {
      const size_t bytes = bytes_of(mine.meta);
      ncclResult_t first = ncclSuccess;
      const auto note = [&first](ncclResult_t r) {
        if (first == ncclSuccess && r != ncclInProgress) first = r;
      };
      for (size_t r = 0; r < sources.size(); ++r)
        if (sources[r] == me)
          note(ncclSend(mine.data, bytes, ncclUint8, static_cast<int>(r), comm_, stream));
      if (source >= 0) note(ncclRecv(data[1].data, bytes, ncclUint8, source, comm_, stream));
      return first;
    });
  }

 private:
  void enqueue(const char* call, std::span<const View> data, StreamView s, const auto& f) {
    const Guard guard(context_.index);
    const auto stream = static_cast<cudaStream_t>(s.native);
    Watch& watch = Watch::of_process();
    const cudaEvent_t begun = watch.event(context_), ended = watch.event(context_);
    LOCUS_CUDA(cuda::record(begun, stream));
    check(ncclGroupStart(), "ncclGroupStart");
    ncclResult_t first = ncclSuccess;
    for (const View& v : data) {
      const ncclResult_t result = f(v, stream);
      if (first == ncclSuccess && result != ncclInProgress) first = result;
    }
    const ncclResult_t closed = ncclGroupEnd();
    check(first, call);
    settle(closed, call);
    LOCUS_CUDA(cuda::record(ended, stream));
    watch.add({&ranks_, comm_, context_, call, seconds_, begun, ended});
  }

  // Waits until the host's part is done.
  void settle(ncclResult_t state, const char* call) {
    for (const auto start = Clock::now(); state == ncclInProgress; std::this_thread::yield()) {
      check(ncclCommGetAsyncError(comm_, &state), "ncclCommGetAsyncError");
      if (state == ncclInProgress && seconds_since(start) > seconds_)
        throw DeviceError("NCCL: ", call, " on ", context_, " did not end within ", seconds_,
                          " s: a rank hangs, or its connection does");
    }
    check(state, call);
  }

  Ranks& ranks_;
  const Context context_;
  const double seconds_;
  ncclComm_t comm_ = nullptr;  // as long as the process
};

}  // namespace

MakeRankLink nccl_links() {
  return [](Ranks& ranks, Context c, double seconds) -> std::unique_ptr<RankLink> {
    return std::make_unique<NcclLink>(ranks, c, seconds);
  };
}

}  // namespace locus::cuda

#else

namespace locus::cuda {

MakeRankLink nccl_links() { return nullptr; }

}  // namespace locus::cuda

#endif
