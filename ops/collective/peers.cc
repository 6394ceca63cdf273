#include <locus/ops/collective/peers.h>

#include <functional>
#include <memory>

#include <locus/core/capture_check.h>
#include <locus/core/error.h>
#include <locus/core/mutex.h>
#include <locus/core/observe/trace.h>
#include <locus/core/op.h>
#include <locus/core/parallel.h>
#include <locus/core/plan.h>
#include <locus/core/storage.h>
#include <locus/core/stream.h>

namespace locus {
namespace {

DType infer(std::span<const Meta>, const PeersAttrs&, std::span<Meta>) {
  throw Error("it is one device's part of all_reduce; call that");
}

const Op& peers_op() {
  static const Op& op = get_op("all_reduce_peers");
  return op;
}

// What all devices of a call have in common.
struct Work {
  const Group& group;
  std::span<const Tensor> tensors, out;
  std::vector<StreamView> streams;
  Kernel kernel;
  PeersAttrs attrs;
};

// What the kernel of device `me` is given before its results: f(tensor).
void each_operand(const Work& w, int me, const auto& f) {
  for (const std::span<const Tensor> list : {w.tensors, w.out})
    for (size_t k = 0; k < list.size(); ++k)
      if (!w.attrs.pushed || k % w.streams.size() == static_cast<size_t>(me)) f(list[k]);
}

// f(storage) of those of device `me`.
void each_own(const Work& w, int me, std::span<const Tensor> tensors, const auto& f) {
  for (auto k = static_cast<size_t>(me); k < tensors.size(); k += w.streams.size())
    f(tensors[k].handle()->storage);
}
StreamView stream_of(const Work& w, int me) { return w.streams[static_cast<size_t>(me)]; }

// All that may wait, before the first kernel of the work runs.
void prepare(const Work& w, int me) {
  const StreamView s = stream_of(w, me);
  each_own(w, me, w.tensors, [&](const auto& storage) { storage->before_read(s); });
  each_own(w, me, w.out, [&](const auto& storage) { storage->before_write(s); });
  before_meeting(s);
  Timeline::of(s).before_launch();
}

capture::Noted note(const Work& w, const PeersAttrs& attrs, const std::vector<View>& in,
                    const std::vector<View>& out) {
  const Context c = stream_of(w, attrs.me).context;
  PlanCall call{.context = c,
                .op = &peers_op(),
                .kernel = w.kernel,
                .views = in,
                .n_in = static_cast<int>(in.size()),
                .attrs = AttrsView::of(attrs)};
  call.views.insert(call.views.end(), out.begin(), out.end());
  const capture::Noted noted = capture::note(c, std::move(call));
  each_operand(w, attrs.me, [&](const Tensor& t) {
    if (t.context() == c)
      capture::touch(c, t.handle()->storage, false);
    else
      noted.plan->meet(*t.handle()->storage);
  });
  each_own(w, attrs.me, w.out, [&](const auto& storage) { capture::touch(c, storage, true); });
  noted.plan->meet_in_turn(c);
  return noted;
}

// What device `me` does.
void enqueue(const Work& w, int me) {
  PeersAttrs a = w.attrs;
  a.me = me;
  const StreamView s = stream_of(w, me);
  Device& d = device(s.context);
  std::vector<View> in, out;
  in.reserve(2 * w.tensors.size());
  each_operand(w, me, [&](const Tensor& t) { in.push_back(t.handle()->view); });
  size_t bytes = 0;
  for (auto k = static_cast<size_t>(me); k < w.out.size(); k += w.streams.size()) {
    out.push_back(w.out[k].handle()->view);
    bytes += bytes_of(out.back().meta);
  }
  if (!a.pushed) bytes = 2 * bytes / w.streams.size();  // a share of each, and the sums of theirs
  const auto n_in = static_cast<int>(in.size()), n_out = static_cast<int>(out.size());
  const capture::Noted noted = capture::active() ? note(w, a, in, out) : capture::Noted();
  trace::reads(d, s, w.group.contexts(), bytes, [&] {
    if (noted.call) return noted.plan->run(*noted.call, s, true);
    const Call call{in.data(), out.data(), n_in, n_out, &a, static_cast<int>(sizeof a), s};
    trace::launch(d, w.kernel, call, peers_op().name.c_str());
  });
  each_own(w, me, w.tensors, [&](const auto& storage) { storage->after_read(s); });
  each_own(w, me, w.out, [&](const auto& storage) { storage->after_write(s); });
}

bool by_peers(const Group& g, Communicator& c, std::span<const Tensor> tensors,
              std::span<const Tensor> out, ReduceOp op, bool beside) {
  if ((op != ReduceOp::sum && op != ReduceOp::mean) || g.size() > Meeting::kMostDevices)
    return false;
  if (capture::only_recorded()) return false;
  size_t bytes = 0, chunks = 0;
  for (size_t k = 0; k < tensors.size(); k += static_cast<size_t>(g.size())) {
    const size_t part = bytes_of(tensors[k].handle()->view.meta);
    bytes += part;
    chunks += (part + kPeersChunk - 1) / kPeersChunk;
  }
  const Kernel kernel = peers_op().kernel(device(g[0]).kernels(), tensors[0].dtype());
  // What is recorded has no other way that becomes part of a graph.
  const bool few = capture::active() || bytes <= kMostPeerBytes;
  if (!kernel || !few) return false;

  Work w{g,  tensors, out,
         {}, kernel,  {.devices = g.size(), .mean = op == ReduceOp::mean, .beside = beside}};
  const auto others = static_cast<size_t>(g.size() - 1);
  w.attrs.pushed = others * chunks * kPeersChunk <= Meeting::kMostInbox;
  for (const Context context : g) w.streams.push_back(current_stream(context));
  // Also of what a first meeting allocates, while no other one is half enqueued.
  const MutexLock turn(meeting_turns());
  const auto meeting =
      c.meeting(capture::active() ? std::span<const StreamView>() : std::span(w.streams),
                w.attrs.pushed ? chunks * kPeersChunk : 0);
  if (!meeting) return false;
  w.attrs.meeting = meeting.get();
  for (int i = 0; i < g.size(); ++i) prepare(w, i);
  try {
    on_threads(g.contexts(), [&](int i) { enqueue(w, i); });
    for (const StreamView& s : w.streams) after_meeting(s);
  } catch (...) {
    meeting->broken = true;
    throw;
  }
  return true;
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
  const MutexLock turn(meeting_turns());
  each([](Storage& from, Storage& result, StreamView s) {
    from.before_read(s);
    result.before_write(s);
    Timeline::of(s).before_launch();
  });
  for (const StreamView& s : streams) before_meeting(s);
  // NCCL's ring: each device reads from the one before it.
  size_t bytes = 0;
  for (size_t k = 0; k < out.size(); k += streams.size()) bytes += bytes_of(to[k].meta);
  bytes = 2 * bytes / streams.size() * (streams.size() - 1);
  bool done = false;
  std::function<void(int)> listened = [&](int i) {
    if (i == g.size()) {
      done = c.all_reduce(in, to, op, streams);
      return;
    }
    const Context before = g[(i + g.size() - 1) % g.size()];
    trace::reads(device(g[i]), streams[static_cast<size_t>(i)], {&before, 1}, bytes,
                 [&] { listened(i + 1); });
  };
  // What was enqueued before an error is in flight.
  FirstFailure failure;
  failure.run([&] { listened(0); });
  for (const StreamView& s : streams) after_meeting(s);
  each([](Storage& from, Storage& result, StreamView s) {
    from.after_read(s);
    result.after_write(s);
  });
  failure.rethrow();
  return done;
}

}  // namespace

bool all_reduce_on_devices(const Group& g, std::span<const Tensor> tensors,
                           std::span<const Tensor> out, ReduceOp op, bool beside, Caller from) {
  Communicator* const c = communicator(g);
  if (!c) return false;
  const trace::Scope scope(TransferKind::copyto, from);
  return by_peers(g, *c, tensors, out, op, beside) || by_library(g, *c, tensors, out, op);
}

void register_peers() {
  OpDef<PeersAttrs>("all_reduce_peers")
      .inputs(1, Op::kAny)
      .outputs(Op::kAny)
      .infer<&infer>()
      .in_place()
      .meets()
      .no_gradient("all_reduce has it")
      .no_samples("one device's part of all_reduce: tests/collective_test.cc");
}

}  // namespace locus
