#include <locus/ops/collective/peers.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include <locus/core/base/mutex.h>
#include <locus/core/base/recording_hooks.h>
#include <locus/core/error.h>
#include <locus/core/memory/storage.h>
#include <locus/core/observe/trace.h>
#include <locus/core/op.h>
#include <locus/core/parallel.h>
#include <locus/core/replay/replay.h>
#include <locus/core/stream.h>

namespace locus {
namespace {

DType infer(std::span<const Meta>, const PeersAttrs&, std::span<Meta>) {
  throw Error("this op is one device's part of a collective; call the collective");
}

// Shared by all devices of a call.
struct SharedCall {
  const Group& group;
  const Op& op;
  Kernel kernel;
  PeersAttrs attrs;
  AttrsOwner owner = {};  // owns the barrier
  std::span<const Tensor> tensors = {}, out = {};
  std::span<const Piece> pieces = {};  // pieces of an exchange
  std::vector<StreamView> streams = {};
};

// f(tensor) for the operands of device `me`'s kernel, in order.
void each_operand(const SharedCall& w, int me, const auto& f) {
  const Context here = w.group[me];
  for (const Piece& p : w.pieces)
    if (p.result.context() == here)
      for (const Tensor& t : p.parts) f(t);
  for (const Piece& p : w.pieces)
    if (p.result.context() == here) f(p.result);
  for (const Piece& p : w.pieces)
    for (const Tensor& t : p.parts)
      if (p.result.context() != here && t.context() == here) f(t);
  for (const std::span<const Tensor> list : {w.tensors, w.out})
    for (size_t k = 0; k < list.size(); ++k)
      if (!w.attrs.pushed || k % w.streams.size() == static_cast<size_t>(me)) f(list[k]);
}

// f(tensor) for each tensor on device `me` that some device reads.
void each_read(const SharedCall& w, int me, const auto& f) {
  for (const Piece& p : w.pieces)
    for (const Tensor& t : p.parts)
      if (t.context() == w.group[me]) f(t);
  for (auto k = static_cast<size_t>(me); k < w.tensors.size(); k += w.streams.size())
    f(w.tensors[k]);
}
// f(tensor) for device `me`'s results.
void each_result(const SharedCall& w, int me, const auto& f) {
  for (const Piece& p : w.pieces)
    if (p.result.context() == w.group[me]) f(p.result);
  for (auto k = static_cast<size_t>(me); k < w.out.size(); k += w.streams.size()) f(w.out[k]);
}
Storage& storage_of(const Tensor& t) { return *t.handle()->storage; }
StreamView stream_of(const SharedCall& w, int me) { return w.streams[static_cast<size_t>(me)]; }

// Does all waits, before the call's first kernel runs.
void prepare(const SharedCall& w, int me) LOCUS_REQUIRES(barrier_turns()) {
  const StreamView s = stream_of(w, me);
  each_read(w, me, [&](const Tensor& t) { storage_of(t).before_read(s); });
  each_result(w, me, [&](const Tensor& t) { storage_of(t).before_write(s); });
  before_barrier(s);
  Timeline::of(s).before_launch();
}

capture::RecordedCall note(const SharedCall& w, const PeersAttrs& attrs,
                           const std::vector<View>& in, const std::vector<View>& out) {
  const Context c = stream_of(w, attrs.me).context;
  std::vector<const Storage*> written;  // kernels read results, too, that others push to
  each_result(w, attrs.me, [&](const Tensor& t) { written.push_back(&storage_of(t)); });
  each_operand(w, attrs.me, [&](const Tensor& t) {
    if (t.context() == c && std::ranges::find(written, &storage_of(t)) == written.end())
      capture::check_read(c, w.op.name, storage_of(t));
  });
  ReplayCall call{.context = c,
                  .op = &w.op,
                  .kernel = w.kernel,
                  .views = in,
                  .n_in = static_cast<int>(in.size()),
                  .attrs = AttrsView::of(attrs, w.owner)};
  call.views.insert(call.views.end(), out.begin(), out.end());
  const capture::RecordedCall noted = capture::note(c, std::move(call));
  each_result(w, attrs.me, [&](const Tensor& t) { capture::touch(c, t.handle()->storage, true); });
  each_operand(w, attrs.me, [&](const Tensor& t) {
    if (t.context() == c)
      capture::touch(c, t.handle()->storage, false);  // others: the kernel waits
  });
  noted.replay->order_peer_calls(c);
  return noted;
}

// Bytes that device `me` reads from each other device.
std::vector<size_t> bytes_read(const SharedCall& w, int me) {
  std::vector<size_t> bytes(w.streams.size());
  size_t own = 0;
  each_result(w, me, [&](const Tensor& t) { own += bytes_of(t.handle()->view.meta); });
  if (w.pieces.empty())  // not pushed: a share of each part, and the others' sums
    std::ranges::fill(bytes, w.attrs.pushed ? own : 2 * own / bytes.size());
  for (const Piece& p : w.pieces)
    for (const Tensor& t : p.parts)
      if (p.result.context() == w.group[me])
        bytes[static_cast<size_t>(std::ranges::find(w.group, t.context()) - w.group.begin())] +=
            bytes_of(t.handle()->view.meta);
  return bytes;
}

// Marks work on s as a user of device `me`'s tensors.
void mark(const SharedCall& w, int me, StreamView s) {
  each_read(w, me, [&](const Tensor& t) { storage_of(t).after_read(s); });
  each_result(w, me, [&](const Tensor& t) { storage_of(t).after_write(s); });
}

// Enqueues device `me`'s kernel.
void enqueue(const SharedCall& w, int me) {
  PeersAttrs a = w.attrs;
  a.me = me;
  const StreamView s = stream_of(w, me);
  Device& d = device(s.context);
  std::vector<View> in, out;
  in.reserve(2 * w.tensors.size());
  each_operand(w, me, [&](const Tensor& t) { in.push_back(t.handle()->view); });
  each_result(w, me, [&](const Tensor& t) { out.push_back(t.handle()->view); });
  const auto n_in = static_cast<int>(in.size()), n_out = static_cast<int>(out.size());
  const capture::RecordedCall noted =
      capture::active() ? note(w, a, in, out) : capture::RecordedCall();
  const auto bytes = [&] { return bytes_read(w, me); };
  tracing::Reads reads(d, s, w.group.contexts(), bytes);
  if (noted.call) {
    noted.replay->run(*noted.call, s, true);
  } else {
    const Call call{in.data(), out.data(), n_in, n_out, &a, static_cast<int>(sizeof a),
                    s,         &w.owner};
    tracing::launch(d, w.kernel, call, w.op.name.c_str());
  }
  reads.done();
  mark(w, me, s);
}

// Holds barrier_turns() until all devices have their part of the work. If enqueuing fails, the
// barrier is broken.
class LOCUS_THREAD_SAFETY(scoped_lockable) BarrierTurn : NonCopyable {
 public:
  explicit BarrierTurn(const SharedCall& w) LOCUS_THREAD_SAFETY(acquire_capability(barrier_turns()))
      : work_(w), lock_(barrier_turns()) {}
  ~BarrierTurn() LOCUS_THREAD_SAFETY(release_capability()) {
    FirstFailure failure;  // ignores errors of end(); the error that ended the turn counts
    failure.run([this] { end(); });
  }

  // The devices' parts follow.
  void begin(std::shared_ptr<const PeerBarrier> m) {
    m->broken = true;
    barrier_ = std::move(m);
  }
  // All devices have their parts. Releases the turn.
  void complete() LOCUS_THREAD_SAFETY(no_thread_safety_analysis) {
    if (!barrier_) return;
    barrier_->broken = false;
    end();
    lock_.unlock();
  }

 private:
  void end() LOCUS_THREAD_SAFETY(no_thread_safety_analysis) {
    const std::shared_ptr<const PeerBarrier> barrier = std::exchange(barrier_, nullptr);
    if (!barrier) return;
    // A kernel that waits for a missing one stores in the end, to memory of all devices.
    for (int i = 0; i < work_.group.size() && barrier->broken; ++i)
      for (const StreamView& s : work_.streams) mark(work_, i, s);
    for (const StreamView& s : work_.streams) after_barrier(s);
  }

  const SharedCall& work_;
  MutexLock lock_;
  std::shared_ptr<const PeerBarrier> barrier_;
};

// Runs on all devices. Returns false, with nothing done, if there is no barrier.
bool run(SharedCall& w, Communicator& c, size_t inbox_bytes,
         const std::function<void(int)>& behind = {}) {
  for (const Context context : w.group) w.streams.push_back(current_stream(context));
  // Covers the allocation of a first barrier, while no other call is half enqueued.
  BarrierTurn turn(w);
  auto barrier = c.barrier(capture::active() ? std::span<const StreamView>() : std::span(w.streams),
                           inbox_bytes);
  if (!barrier) return false;
  w.attrs.words = static_cast<const PeerWords*>(barrier.get());
  w.owner = {barrier};
  for (int i = 0; i < w.group.size(); ++i) prepare(w, i);
  turn.begin(std::move(barrier));
  std::function<void(int)> behind_all;  // may use barriers, too
  if (behind)
    behind_all = [&](int i) {
      if (i == 0) turn.complete();  // on this thread, which has the turn
      behind(i);
    };
  on_threads(
      w.group.contexts(), [&](int i) { enqueue(w, i); }, behind_all);
  turn.complete();
  return true;
}

size_t chunks_of(const Tensor& t) {
  return (bytes_of(t.handle()->view.meta) + kPeersChunk - 1) / kPeersChunk;
}
// Whether the devices' kernels add these.
bool adds(const Group& g, ReduceOp op) {
  return (op == ReduceOp::sum || op == ReduceOp::mean) && g.size() <= PeerWords::kMostDevices &&
         !capture::only_recorded();
}

bool by_peers(const Group& g, Communicator& c, std::span<const Tensor> tensors,
              std::span<const Tensor> out, const AllReduceManyOptions& options) {
  static const Op& kernels = get_op("all_reduce_peers");
  if (!adds(g, options.op)) return false;
  size_t bytes = 0, chunks = 0;
  for (size_t k = 0; k < tensors.size(); k += static_cast<size_t>(g.size())) {
    bytes += bytes_of(tensors[k].handle()->view.meta);
    chunks += chunks_of(tensors[k]);
  }
  const Kernel kernel = kernels.kernel(device(g[0]).kernels(), tensors[0].dtype());
  // Recorded calls have no other way into a graph.
  const bool few = capture::active() || bytes <= kMostPeerBytes;
  if (!kernel || !few) return false;

  SharedCall w{.group = g,
               .op = kernels,
               .kernel = kernel,
               .attrs = {.devices = g.size(),
                         .mean = options.op == ReduceOp::mean,
                         .beside = options.beside},
               .tensors = tensors,
               .out = out};
  w.attrs.pushed =
      static_cast<size_t>(g.size() - 1) * chunks * kPeersChunk <= PeerWords::kMostInbox;
  return run(w, c, w.attrs.pushed ? chunks * kPeersChunk : 0, options.behind);
}

// Not recorded: with several devices in one process that may deadlock, by NCCL's documentation.
bool by_library(const Group& g, Communicator& c, std::span<const Tensor> tensors,
                std::span<const Tensor> out, ReduceOp op) {
  if (capture::active()) return false;
  std::vector<View> in, to;
  std::vector<StreamView> streams;
  for (const Context context : g) streams.push_back(current_stream(context));
  for (const Tensor& t : tensors) in.push_back(t.handle()->view);
  for (const Tensor& t : out) to.push_back(t.handle()->view);
  const auto each = [&](const auto& f) {
    for (size_t k = 0; k < tensors.size(); ++k)
      f(*tensors[k].handle()->storage, *out[k].handle()->storage, streams[k % streams.size()]);
  };
  const MutexLock lock(barrier_turns());
  each([](Storage& from, Storage& result, StreamView s) {
    from.before_read(s);
    result.before_write(s);
    Timeline::of(s).before_launch();
  });
  for (const StreamView& s : streams) before_barrier(s);
  // NCCL's ring: each device reads from the previous one.
  const auto bytes = [&] {
    size_t all = 0;
    for (size_t k = 0; k < out.size(); k += streams.size()) all += bytes_of(to[k].meta);
    return std::vector{2 * all / streams.size() * (streams.size() - 1)};
  };
  bool done = false;
  std::deque<tracing::Reads> reads;
  // Work enqueued before an error is in flight.
  FirstFailure failure;
  failure.run([&] {
    for (int i = 0; i < g.size(); ++i) {
      const Context before = g[(i + g.size() - 1) % g.size()];
      reads.emplace_back(device(g[i]), streams[static_cast<size_t>(i)], std::span(&before, 1),
                         bytes);
    }
    done = c.all_reduce(in, to, op, streams);
    for (tracing::Reads& r : reads)
      if (done) r.done();
  });
  for (const StreamView& s : streams) after_barrier(s);
  each([](Storage& from, Storage& result, StreamView s) {
    from.after_read(s);
    result.after_write(s);
  });
  failure.rethrow();
  return done;
}

}  // namespace

bool all_reduce_on_devices(const Group& g, std::span<const Tensor> tensors,
                           std::span<const Tensor> out, const AllReduceManyOptions& options,
                           Caller from) {
  Communicator* const c = communicator(g);
  if (!c) return false;
  const tracing::Scope scope(TransferKind::copyto, from);
  if (by_peers(g, *c, tensors, out, options)) return true;
  if (!by_library(g, *c, tensors, out, options.op)) return false;
  if (options.behind) on_threads(g.contexts(), options.behind);
  return true;
}

bool exchange_on_devices(const Group& g, std::span<const Piece> pieces, ReduceOp op, bool beside,
                         Caller from) {
  static const Op& kernels = get_op("exchange_peers");
  Communicator* const c = communicator(g);
  if (!c || !adds(g, op)) return false;
  const size_t parts = pieces[0].parts.size();
  // The u8 kernel copies bytes.
  if (parts > 1 && !is_floating(pieces[0].result.dtype())) return false;
  const DType dtype = parts == 1 ? u8 : pieces[0].result.dtype();
  const Kernel kernel = kernels.kernel(device(g[0]).kernels(), dtype);
  if (!kernel) return false;
  SharedCall w{.group = g,
               .op = kernels,
               .kernel = kernel,
               .attrs = {.devices = g.size(),
                         .mean = op == ReduceOp::mean,
                         .beside = beside,
                         .parts = static_cast<int>(parts)},
               .pieces = pieces};
  for (const Context here : g) {
    int results = 0, chunks = 0;
    for (const Piece& p : pieces) {
      if (p.result.context() != here) continue;
      ++results;
      chunks += static_cast<int>(chunks_of(p.result));
    }
    w.attrs.results = std::max(w.attrs.results, results);
    w.attrs.chunks = std::max(w.attrs.chunks, chunks);
  }
  const tracing::Scope scope(TransferKind::copyto, from);
  return run(w, *c, 0);
}

void register_peers() {
  for (const char* const name : {"all_reduce_peers", "exchange_peers"})
    OpDef<PeersAttrs>(name)
        .inputs(0, Op::kAny)
        .outputs(Op::kAny)
        .infer<&infer>()
        .in_place()
        .needs_peers()
        .no_gradient("the collective has it")
        .no_samples("one device's part of a collective: tests/ranks/collective_test.cc");
}

}  // namespace locus
