#include <locus/core/replay/recording.h>

#include <algorithm>
#include <utility>

#include <locus/core/accumulate.h>
#include <locus/core/base/at_line.h>
#include <locus/core/error.h>
#include <locus/core/memory/recording_home.h>
#include <locus/core/stream.h>

namespace locus {
namespace capture {
namespace {

// Streams of no device, as homes of memory without values. Ids are reused.
struct PlaceholderStreams {
  Mutex mutex;
  std::vector<StreamView> unused LOCUS_GUARDED_BY(mutex);
  std::vector<StreamView> all LOCUS_GUARDED_BY(mutex);

  StreamView take(Context c) {
    const MutexLock lock(mutex);
    for (StreamView& s : unused) {
      if (s.context != c) continue;
      std::swap(s, unused.back());
      const StreamView found = unused.back();
      unused.pop_back();
      return found;
    }
    const StreamView made{c, new_stream_id(), nullptr};
    all.push_back(made);
    return made;
  }
  void put(StreamView s) {
    const MutexLock lock(mutex);
    unused.push_back(s);
  }
};
PlaceholderStreams& nowhere() {
  static PlaceholderStreams* const streams = new PlaceholderStreams;
  return *streams;
}

}  // namespace
}  // namespace capture

bool is_recording_home(StreamView s) {
  capture::PlaceholderStreams& streams = capture::nowhere();
  const MutexLock lock(streams.mutex);
  return std::ranges::any_of(streams.all, [&](const StreamView& one) {
    return one.id == s.id && one.context == s.context;
  });
}

namespace capture {

namespace {

// Throws CaptureError. A trace keeps the text.
[[noreturn]] void refuse(const auto&... text) {
  const std::string all = text_of(text...);
  if (innermost->traced) innermost->traced->refused = all;
  throw CaptureError(all);
}

}  // namespace

Recording* recording_on(std::optional<Context> c) {
  Recording* r = innermost;
  while (r && c && r->only && *r->only != *c) r = r->traced ? nullptr : r->outer;
  return r;
}

Recording::Recording(Context c) : Recording(c, nullptr) {}

Recording::Recording(Context c, std::unique_ptr<Traced> calls)
    : only(c),
      traced(std::move(calls)),
      stream(nowhere().take(c)),
      current(current_stream(c)),
      line(&Timeline::of(stream)) {
  line->set_capturing(true);
  outer = std::exchange(innermost, this);
}

Recording::Recording(Caller who) : from(who), first_node(next_node()) {
  outer = std::exchange(innermost, this);
}

Recording::Recording(const Recording* before)
    : from(before->from),
      replay(std::make_unique<Replay>(before->replay.get())),
      first_node(before->first_node),
      outer(std::exchange(innermost, this)) {}

void Recording::leave() {
  for (Recording** r = &innermost; *r; r = &(*r)->outer) {
    if (*r != this) continue;
    *r = outer;
    break;
  }
  if (line && !traced) release_stream();
}

void Recording::release_stream() {
  std::exchange(line, nullptr)->set_capturing(false);
  // Results live on, at home on the compute stream.
  const StreamView compute = device(*only).stream(Lane::compute);
  for (const auto& seen : made)
    if (const auto storage = seen.lock(); storage && storage->home().id == stream.id)
      storage->leave_home(compute);
  made.clear();
  nowhere().put(stream);
}

// The stream of a trace stays, if the program holds memory of the trace: uses of it throw.
Recording::~Recording() {
  leave();
  const auto held = [](const auto& seen) { return !seen.expired(); };
  if (line && std::ranges::none_of(made, held)) release_stream();
}

void Recording::end() {
  for (const auto& seen : made)
    if (const auto storage = seen.lock()) replay->show(storage);
  leave();
  replay->finish(!only);
}

std::string Recording::text() const {
  if (traced) return "the function is being traced";
  if (only) return to_string(*only) + " is being captured";
  return "the function called at " + to_string(from) + " is being recorded";
}

bool find(Context c) { return recording_on(c) != nullptr || tracing(); }
bool runs() { return !innermost->only; }

void check(const std::string& what, const char* why) {
  if (active() && why)
    refuse(what, ": ", innermost->text(), ", and this cannot be ",
           innermost->traced ? "traced: " : "replayed: ", why);
}

void check(const std::string& what, Context c, const StreamView* s) {
  const Recording* const r = recording_on(c);
  if (r && (!s || !r->only || s->id == r->current.id)) return;
  if (tracing())
    refuse(what, ": ", innermost->text(), " for ", *innermost->only,
           ", and works on another stream or context, here of ", c);
  throw CaptureError(what, ": ", innermost->text(),
                     ", and work on another stream or context, here of ", c,
                     ", would not be replayed; do it before or after, or capture that context too");
}

RecordedCall note(Context c, ReplayCall call) {
  Recording& r = *recording_on(c);
  if (r.traced) {
    if (!call.op) refuse("copyto: ", r.text(), ", and copies between contexts are not traced");
    r.traced->calls.push_back(
        {call.op, std::move(call.attrs), std::move(call.views), call.n_in, {}});
    return {};
  }
  ReplayCall& kept = r.replay->add(std::move(call));
  if (!r.only) r.replay->ran_on(current_stream(c));
  return {r.replay.get(), &kept};
}

void check_read(Context c, const std::string& who, const Storage& storage) {
  const Recording& r = *recording_on(c);
  if (!r.traced && r.replay->is_unwritten(storage))
    throw CaptureError(r.text(), ", and ", who, " reads ", storage.bytes(), " bytes on ", c,
                       " that no recorded call has written; fill the tensor by an op, make it "
                       "by array(), or make it before the call");
}

void touch(Context c, const std::shared_ptr<Storage>& storage, bool write) {
  Recording& r = *recording_on(c);
  if (r.traced) {
    TracedCall& call = r.traced->calls.back();
    if (write && !r.replay->owns(*storage))
      refuse(call.op->name, ": ", r.text(), ", and writes a tensor that it did not make");
    call.memory.push_back(storage);
    if (!write) return;
    storage->count_write();
    storage->after_write(r.stream);  // uses outside of the trace wait for it, which throws
    return;
  }
  r.replay->touch(storage, write);
  if (r.only) write ? storage->count_write() : storage->tell_read();  // no run does so
  // Makes other streams wait for the values, which throws CaptureError.
  if (write && r.only && storage->home().id == r.stream.id) storage->after_write(r.stream);
}

void copied(Context from, Context to, size_t bytes, Caller caller) {
  if (tracing())
    refuse("copyto: ", innermost->text(), ", and copies between contexts are not traced");
  recording_on(to)->replay->copied(from, to, bytes, caller);
}

bool owns(const Storage& storage) {
  const Recording* const r = recording_on(storage.context());
  return r && r->replay->owns(storage);
}

std::shared_ptr<Storage> allocate(Context c, size_t bytes, StreamView home) {
  Recording* const r = recording_on(c);
  if (!r) return std::make_shared<Storage>(c, bytes, home);
  const auto& arena = r->replay->arena(c, r->traced != nullptr);
  auto storage = std::make_shared<Storage>(c, bytes, r->only ? r->stream : home, arena);
  r->made.push_back(storage);
  r->replay->allocated(*storage);
  return storage;
}

void depends_on(std::shared_ptr<const uint64_t> generation) {
  auto& all = innermost->generations;
  const auto same = [&](const auto& g) { return g == generation; };
  if (std::none_of(all.begin(), all.end(), same)) all.push_back(std::move(generation));
}

void depends_on(const Tensor& leaf) {
  auto& all = innermost->leaves;
  const std::shared_ptr<GraphState>& state = leaf.impl().graph;
  if (!state && innermost->replay->owns(*leaf.impl().storage)) return;
  const auto same = [&](const Leaf& l) { return state ? l.state == state : l.tensor.is(leaf); };
  if (std::none_of(all.begin(), all.end(), same)) all.push_back({leaf, state});
}

void check_tape(uint64_t order) {
  if (order < innermost->first_node)
    throw CaptureError("backward: ", innermost->text(),
                       ", and a graph that was recorded before cannot be replayed; call the "
                       "function with the data, and record inside");
}

void wrote(const std::shared_ptr<GraphState>& leaf) {
  if (tracing()) refuse("backward: ", innermost->text(), ", and writes the gradient of a tensor");
  if (innermost->graph)
    throw CaptureError(
        "backward: ", innermost->text(),
        " under autograd::Record, which is to differentiate it; call a function that "
        "calls backward() itself outside of Record");
  auto &all = innermost->written, &zeroed = innermost->zeroed;
  if (std::find(all.begin(), all.end(), leaf) != all.end()) return;
  all.push_back(leaf);
  if (autograd::adds_to(*leaf) && std::find(zeroed.begin(), zeroed.end(), leaf) == zeroed.end())
    innermost->added.push_back(leaf);
}

void asked_fresh(const Tensor& leaf) {
  Recording& r = *innermost;
  if (tracing()) refuse(r.text(), ", and asks whether a gradient is fresh");
  const std::shared_ptr<GraphState>& state = leaf.impl().graph;
  if (std::find(r.written.begin(), r.written.end(), state) != r.written.end()) return;
  const auto same = [&](const Freshness& f) { return f.leaf == state; };
  if (std::any_of(r.freshness.begin(), r.freshness.end(), same)) return;
  r.freshness.push_back({state, state->fresh});
  depends_on(leaf);
}

void refuse_values(const std::string& what) {
  if (tracing())
    refuse(what, ": ", innermost->text(), ", and the host cannot read values, which are not there");
}

void refuse_wait(std::optional<Context> c, const char* what, Caller from) {
  refuse_values(text_of(what, " at ", to_string(from)));
  const Recording* const r = recording_on(c);
  if (!r) return;
  throw CaptureError(with_line(
      text_of(what, ": ", r->text(),
              r->only ? ", and the host cannot wait for it: nothing runs yet; read after the replay"
                      : ", and a replay does not come back to the host; read after the call"),
      from));
}

bool tracing() { return active() && innermost->traced; }

CallTrace::CallTrace(Context c)
    : recording_(std::make_unique<Recording>(c, std::make_unique<Traced>())) {}
CallTrace::~CallTrace() = default;

void CallTrace::end() { recording_->leave(); }
const std::vector<TracedCall>& CallTrace::calls() const { return recording_->traced->calls; }
const std::string& CallTrace::refused() const { return recording_->traced->refused; }
bool CallTrace::owns(const Storage& storage) const { return recording_->replay->owns(storage); }

bool CallTrace::release() {
  recording_->traced->calls.clear();
  return std::ranges::any_of(recording_->made, [](const auto& seen) { return !seen.expired(); });
}

}  // namespace capture
}  // namespace locus
