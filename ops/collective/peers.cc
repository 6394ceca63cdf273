#include <locus/ops/collective/peers.h>

#include <functional>
#include <memory>

#include <locus/core/capture_check.h>
#include <locus/core/error.h>
#include <locus/core/mutex.h>
#include <locus/core/observe/trace.h>
#include <locus/core/op.h>
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
  std::vector<View> in;
  std::vector<StreamView> streams;
  Kernel kernel;
  PeersAttrs attrs;
};

// What device attrs.me does.
void enqueue(const Work& w) {
  const PeersAttrs& a = w.attrs;
  const auto me = static_cast<size_t>(a.me), n = w.streams.size();
  const StreamView s = w.streams[me];
  Device& d = device(s.context);
  const auto each = [&](const auto& tensors, const auto& f) {
    for (size_t k = me; k < tensors.size(); k += n) f(tensors[k].handle()->storage);
  };
  std::vector<View> out;
  size_t bytes = 0;
  for (size_t k = me; k < w.out.size(); k += n) {
    out.push_back(w.out[k].handle()->view);
    bytes += bytes_of(out.back().meta);
  }
  const auto n_in = static_cast<int>(w.in.size()), n_out = static_cast<int>(out.size());
  capture::Noted noted;
  if (capture::active()) {
    PlanCall call{.context = s.context,
                  .op = &peers_op(),
                  .kernel = w.kernel,
                  .views = w.in,
                  .n_in = n_in,
                  .attrs = AttrsView::of(a)};
    call.views.insert(call.views.end(), out.begin(), out.end());
    noted = capture::note(s.context, std::move(call));
    for (size_t k = 0; k < w.tensors.size(); ++k)
      if (k % n == me)
        capture::touch(s.context, w.tensors[k].handle()->storage, false);
      else
        noted.plan->meet(*w.tensors[k].handle()->storage);
    each(w.out, [&](const auto& storage) { capture::touch(s.context, storage, true); });
  }
  each(w.tensors, [&](const auto& storage) { storage->before_read(s); });
  each(w.out, [&](const auto& storage) { storage->before_write(s); });
  Timeline::of(s).before_launch();
  trace::reads(d, s, w.group.contexts(), bytes, [&] {
    if (noted.call) return noted.plan->run(*noted.call, s, true);
    const Call call{w.in.data(), out.data(), n_in, n_out, &a, static_cast<int>(sizeof a), s};
    trace::launch(d, w.kernel, call, peers_op().name.c_str());
  });
  each(w.tensors, [&](const auto& storage) { storage->after_read(s); });
  each(w.out, [&](const auto& storage) { storage->after_write(s); });
}

bool by_peers(const Group& g, Communicator& c, std::span<const Tensor> tensors,
              std::span<const Tensor> out, ReduceOp op) {
  if ((op != ReduceOp::sum && op != ReduceOp::mean) || g.size() > Meeting::kMostDevices)
    return false;
  if (capture::active() && !capture::runs()) return false;
  size_t bytes = 0;
  for (size_t k = 0; k < tensors.size(); k += static_cast<size_t>(g.size()))
    bytes += bytes_of(tensors[k].handle()->view.meta);
  const Kernel kernel = peers_op().kernel(device(g[0]).kernels(), tensors[0].dtype());
  if (!kernel || bytes > most_peer_bytes(g.size())) return false;

  Work w{g, tensors, out, {}, {}, kernel, {.devices = g.size(), .mean = op == ReduceOp::mean}};
  w.in.reserve(tensors.size());
  for (size_t k = 0; k < tensors.size(); ++k) {
    w.in.push_back(tensors[k].handle()->view);
    w.attrs.in_place = w.attrs.in_place || tensors[k].handle()->storage == out[k].handle()->storage;
  }
  for (const Context context : g) w.streams.push_back(current_stream(context));
  const auto meeting =
      c.meeting(capture::active() ? std::span<const StreamView>() : std::span(w.streams));
  if (!meeting) return false;
  w.attrs.meeting = meeting.get();
  const MutexLock turn(meeting_turns());
  for (; w.attrs.me < g.size(); ++w.attrs.me) enqueue(w);
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
  each([](Storage& from, Storage& result, StreamView s) {
    from.before_read(s);
    result.before_write(s);
    Timeline::of(s).before_launch();
  });
  // NCCL's ring: each device reads from the one before it.
  size_t bytes = 0;
  for (size_t k = 0; k < out.size(); k += streams.size()) bytes += bytes_of(to[k].meta);
  bytes = 2 * bytes / streams.size() * (streams.size() - 1);
  bool done = false;
  const MutexLock turn(meeting_turns());
  std::function<void(int)> listened = [&](int i) {
    if (i == g.size()) {
      done = c.all_reduce(in, to, op, streams);
      return;
    }
    const Context before = g[(i + g.size() - 1) % g.size()];
    trace::reads(device(g[i]), streams[static_cast<size_t>(i)], {&before, 1}, bytes,
                 [&] { listened(i + 1); });
  };
  listened(0);
  each([](Storage& from, Storage& result, StreamView s) {
    from.after_read(s);
    result.after_write(s);
  });
  return done;
}

}  // namespace

bool all_reduce_on_devices(const Group& g, std::span<const Tensor> tensors,
                           std::span<const Tensor> out, ReduceOp op, Caller from) {
  Communicator* const c = communicator(g);
  if (!c) return false;
  const trace::Scope scope(TransferKind::copyto, from);
  return by_peers(g, *c, tensors, out, op) || by_library(g, *c, tensors, out, op);
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
