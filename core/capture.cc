#include <locus/core/capture.h>

#include <algorithm>
#include <utility>

#include <locus/core/error.h>
#include <locus/core/recording.h>
#include <locus/core/stream.h>

namespace locus {
namespace capture {
namespace {

// Streams that no device has, for memory without values: numbers that are used again.
struct Nowhere {
  Mutex mutex;
  std::vector<StreamView> unused LOCUS_GUARDED_BY(mutex);

  StreamView take(Context c) {
    const MutexLock lock(mutex);
    for (StreamView& s : unused) {
      if (s.context != c) continue;
      std::swap(s, unused.back());
      const StreamView found = unused.back();
      unused.pop_back();
      return found;
    }
    return {c, new_stream_id(), nullptr};
  }
  void put(StreamView s) {
    const MutexLock lock(mutex);
    unused.push_back(s);
  }
};
Nowhere& nowhere() {
  static Nowhere* const streams = new Nowhere;
  return *streams;
}

Recording* recording_on(std::optional<Context> c) {
  Recording* r = innermost;
  while (r && c && r->only && *r->only != *c) r = r->outer;
  return r;
}

}  // namespace

Recording::Recording(Context c)
    : only(c), stream(nowhere().take(c)), current(current_stream(c)), line(&Timeline::of(stream)) {
  line->set_capturing(true);
  outer = std::exchange(innermost, this);
}

Recording::Recording(Caller asked) : from(asked), first_node(next_node()) {
  outer = std::exchange(innermost, this);
}

Recording::Recording(const Recording& first)
    : from(first.from),
      plan(std::make_unique<Plan>(*first.plan)),
      first_node(first.first_node),
      outer(std::exchange(innermost, this)) {}

void Recording::leave() {
  for (Recording** r = &innermost; *r; r = &(*r)->outer) {
    if (*r != this) continue;
    *r = outer;
    break;
  }
  if (!line) return;
  std::exchange(line, nullptr)->set_capturing(false);
  // Results live on: as if made on the compute stream.
  const StreamView compute = device(*only).stream(Lane::compute);
  for (const auto& seen : made)
    if (const auto storage = seen.lock(); storage && storage->home().id == stream.id)
      storage->leave_home(compute);
  made.clear();
  nowhere().put(stream);
}

Recording::~Recording() { leave(); }

void Recording::end() {
  for (const auto& seen : made)
    if (const auto storage = seen.lock()) plan->show(storage);
  leave();
  plan->finish(!only);
}

std::string Recording::text() const {
  if (only) return to_string(*only) + " is being captured";
  return "the function called at " + to_string(from) + " is being recorded";
}

bool find(Context c) { return recording_on(c) != nullptr; }
bool runs() { return !innermost->only; }

void check(const std::string& what, const char* why) {
  if (active() && why)
    throw CaptureError(what, ": ", innermost->text(), ", and this cannot be replayed: ", why);
}

void check(const std::string& what, Context c, const StreamView* s) {
  const Recording* const r = recording_on(c);
  if (r && (!s || !r->only || s->id == r->current.id)) return;
  throw CaptureError(what, ": ", innermost->text(),
                     ", and work on another stream or context, here of ", c,
                     ", would not be replayed; do it before or after, or capture that context too");
}

Noted note(Context c, PlanCall call) {
  Recording& r = *recording_on(c);
  PlanCall& kept = r.plan->add(std::move(call));
  if (!r.only) r.plan->ran_on(current_stream(c));
  return {r.plan.get(), &kept};
}

void touch(Context c, const std::shared_ptr<Storage>& storage, bool write) {
  Recording& r = *recording_on(c);
  r.plan->touch(storage, write);
  // Who wants its values has something to wait for.
  if (write && r.only && storage->home().id == r.stream.id) storage->after_write(r.stream);
}

void copied(Context from, Context to, size_t bytes, Caller asked) {
  recording_on(to)->plan->copied(from, to, bytes, asked);
}

std::shared_ptr<Storage> allocate(Context c, size_t bytes, StreamView home) {
  Recording* const r = recording_on(c);
  if (!r) return std::make_shared<Storage>(c, bytes, home);
  const auto& arena = r->plan->arena(c);
  auto storage = std::make_shared<Storage>(c, bytes, r->only ? r->stream : home, arena);
  r->made.push_back(storage);
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
  const auto same = [&](const auto& l) { return l.second == state; };
  if (std::none_of(all.begin(), all.end(), same)) all.emplace_back(leaf, state);
}

void check_tape(uint64_t order) {
  if (order < innermost->first_node)
    throw CaptureError("backward: ", innermost->text(),
                       ", and a graph that was recorded before cannot be replayed; call the "
                       "function with the data, and record inside");
}

void wrote(const std::shared_ptr<GraphState>& leaf) {
  if (innermost->graph)
    throw CaptureError(
        "backward: ", innermost->text(),
        " under autograd::Record, which is to differentiate it; call a function that "
        "calls backward() itself outside of Record");
  auto& all = innermost->written;
  if (std::find(all.begin(), all.end(), leaf) == all.end()) all.push_back(leaf);
}

void asked_fresh(const Tensor& leaf) {
  Recording& r = *innermost;
  const std::shared_ptr<GraphState>& state = leaf.impl().graph;
  if (std::find(r.written.begin(), r.written.end(), state) != r.written.end()) return;
  const auto same = [&](const auto& f) { return f.first == state; };
  if (std::any_of(r.fresh.begin(), r.fresh.end(), same)) return;
  r.fresh.emplace_back(state, state->fresh);
  depends_on(leaf);
}

void refuse_wait(std::optional<Context> c, const char* what, Caller from) {
  const Recording* const r = recording_on(c);
  if (!r) return;
  throw CaptureError(from.file ? to_string(from) + ": " : "", what, ": ", r->text(),
                     r->only
                         ? ", and the host cannot wait for it: nothing runs yet; read after "
                           "the replay"
                         : ", and a replay does not come back to the host; read after the call");
}

const void* slot(Context c, size_t bytes, std::function<void(void*)> fill) {
  Recording& r = *recording_on(c);
  return r.plan->slot(c, bytes, std::move(fill), !r.only);
}

}  // namespace capture

Capture::Capture(Context c) {
  if (is_host(c))
    throw CaptureError("Capture: ", c, " runs nothing asynchronously; expected a GPU");
  if (capture::find(c))
    throw CaptureError("Capture: ", capture::innermost->text(), " already; end that first");
  recording_ = std::make_unique<capture::Recording>(c);
}

Capture::~Capture() = default;

Graph Capture::end() {
  if (!recording_) throw CaptureError("Capture::end: this capture has ended; make another one");
  capture::Recording* own = capture::innermost;
  while (own && own != recording_.get()) own = own->outer;
  if (!own)
    throw CaptureError("Capture::end: the capture was begun by another thread; end it there");
  const auto recording = std::move(recording_);
  recording->end();
  return Graph(*recording->only, std::move(recording->plan));
}

Graph::Graph(Context c, std::unique_ptr<Plan> plan) : context_(c), plan_(std::move(plan)) {}
Graph::Graph(Graph&&) noexcept = default;
Graph& Graph::operator=(Graph&&) noexcept = default;
Graph::~Graph() = default;

void Graph::check() const {
  if (!plan_) throw Error("Graph: it was moved from; use the Graph it was moved to");
}

Context Graph::context() const {
  check();
  return context_;
}

void Graph::replay(Caller from) {
  capture::check("Graph::replay", "a graph is not recorded in another one");
  check();
  plan_->replay(from);
}

}  // namespace locus
