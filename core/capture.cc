#include <locus/core/capture.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include <locus/core/error.h>
#include <locus/core/storage.h>

namespace locus {
namespace capture {
namespace {

constexpr size_t kSlots = 4096;  // bytes that are sent together

// Host values that a replay reads from the device, and what the device has of them.
struct Numbers {
  std::shared_ptr<Storage> memory;
  std::vector<std::byte> sent, now = std::vector<std::byte>(kSlots);
  size_t used = 0;
};
struct LiveNumber {
  std::function<void(void*)> fill;
  size_t numbers, offset;
};
struct Use {
  std::shared_ptr<Storage> storage;
  bool write = false;
};

}  // namespace

struct Recording {
  explicit Recording(Context c) : Recording(c, device(c).begin_capture()) {
    line = &Timeline::of(stream);
    line->set_capturing(true);
  }
  Recording(Context c, StreamView s) : context(c), stream(s) {}
  ~Recording();
  void end();
  void replay();

  const Context context;
  const StreamView stream;
  Timeline* line = nullptr;
  Recording* outer = nullptr;
  bool ended = false;
  std::map<Storage*, Use> outside;
  std::vector<std::weak_ptr<Storage>> made;  // written here, and at home here
  std::vector<Numbers> numbers;
  std::vector<LiveNumber> live;
  // Once it ended.
  std::vector<Use> uses;  // of both
  std::unique_ptr<RecordedWork> work;
};

void Recording::end() {
  if (std::exchange(ended, true)) return;
  if (line) line->set_capturing(false);
  work = device(context).end_capture(stream);
  for (const auto& seen : made)
    if (const auto storage = seen.lock()) outside[storage.get()] = {storage, true};
  for (auto& [storage, use] : outside) uses.push_back(std::move(use));
  outside.clear();
}

// The stream will be another recording's. Results live on: as if made on the compute stream.
Recording::~Recording() {
  try {
    end();
  } catch (...) {
    // Nothing of it ever ran.
  }
  if (work) work->wait();
  if (line) line->finished(line->now());
  const StreamView compute = device(context).stream(Lane::compute);
  for (const auto& seen : made)
    if (const auto storage = seen.lock(); storage && storage->home().id == stream.id)
      storage->leave_home(compute);
  numbers.clear();
}

void Recording::replay() {
  for (const LiveNumber& n : live) n.fill(numbers[n.numbers].now.data() + n.offset);
  for (const Use& u : uses)
    u.write ? u.storage->before_write(stream) : u.storage->before_read(stream);
  Device& d = device(context);
  line->before_launch();
  for (Numbers& n : numbers) {
    if (n.sent == n.now) continue;
    d.copy(n.memory->data(), context, n.now.data(), cpu(), n.used, stream);
    n.sent = n.now;
  }
  work->replay();
  for (const Use& u : uses)
    u.write ? u.storage->after_write(stream) : u.storage->after_read(stream);
}

namespace {

Recording* recording_of(auto is_it) {
  Recording* r = innermost;
  while (r && !is_it(*r)) r = r->outer;
  return r;
}
Recording* recording_on(StreamView s) {
  return recording_of([&](const Recording& r) { return r.stream.id == s.id; });
}
Recording* recording_on(Context c) {
  return recording_of([&](const Recording& r) { return r.context == c; });
}

}  // namespace

bool find(StreamView s) { return recording_on(s) != nullptr; }
bool find(Context c) { return recording_on(c) != nullptr; }

void check(const std::string& what, const char* why, StreamView s) {
  if (!active()) return;
  const std::string text = what + ": " + to_string(innermost->context) + " is being captured, and ";
  if (why) throw CaptureError(text, "this cannot be replayed: ", why);
  if (!recording_on(s))
    throw CaptureError(text, "work on another stream or context, here of ", s.context,
                       ", would not be replayed; do it before or after, or capture that context "
                       "too");
}

void use(StreamView s, const std::shared_ptr<Storage>& storage, bool write) {
  Recording& r = *recording_on(s);
  if (storage->home().id != s.id) {
    Use& u = r.outside[storage.get()];
    u.storage = storage;
    u.write = u.write || write;
  } else if (write) {
    r.made.push_back(storage);
  }
}

void refuse_wait(std::optional<Context> c, const char* what, Caller from) {
  const Recording* r = c ? recording_on(*c) : innermost;
  if (r)
    throw CaptureError(from.file ? to_string(from) + ": " : "", what, ": ", r->context,
                       " is being captured, and the host cannot wait for it: nothing runs yet; "
                       "read after the replay");
}

const void* slot(Context c, size_t bytes, std::function<void(void*)> fill) {
  constexpr size_t kAlignment = 16;
  Recording& r = *recording_on(c);
  bytes = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  LOCUS_CHECK(bytes <= kSlots, "live numbers of ", bytes, " bytes");
  if (r.numbers.empty() || r.numbers.back().used + bytes > kSlots)
    r.numbers.emplace_back().memory = std::make_shared<Storage>(c, kSlots, r.stream);
  Numbers& n = r.numbers.back();
  r.live.push_back({std::move(fill), r.numbers.size() - 1, n.used});
  n.used += bytes;
  return static_cast<std::byte*>(n.memory->data()) + r.live.back().offset;
}

}  // namespace capture

Capture::Capture(Context c) {
  if (capture::find(c))
    throw CaptureError("Capture: this thread captures ", c, " already; end() that capture first");
  recording_ = std::make_unique<capture::Recording>(c);
  scope_.reset(new StreamScope(recording_->stream));
  recording_->outer = std::exchange(capture::innermost, recording_.get());
}

void Capture::leave() {
  scope_.reset();
  for (capture::Recording** r = &capture::innermost; *r; r = &(*r)->outer) {
    if (*r != recording_.get()) continue;
    *r = recording_->outer;
    return;
  }
}

Capture::~Capture() { leave(); }

Graph Capture::end() {
  if (!recording_) throw CaptureError("Capture::end: this capture has ended; make another one");
  if (!capture::on(recording_->stream))
    throw CaptureError("Capture::end: the capture was begun by another thread; end it there");
  leave();
  std::unique_ptr<capture::Recording> recording = std::move(recording_);
  recording->end();
  recording->work->prepare();
  return Graph(std::move(recording));
}

Graph::Graph(std::unique_ptr<capture::Recording> recording) : recording_(std::move(recording)) {}
Graph::Graph(Graph&&) noexcept = default;
Graph& Graph::operator=(Graph&&) noexcept = default;
Graph::~Graph() = default;

namespace {

capture::Recording& opened(const std::unique_ptr<capture::Recording>& recording) {
  if (!recording) throw Error("Graph: it was moved from; use the Graph it was moved to");
  return *recording;
}

}  // namespace

Context Graph::context() const { return opened(recording_).context; }

void Graph::replay() {
  capture::check("Graph::replay", "a graph is not recorded in another one", {});
  opened(recording_).replay();
}

}  // namespace locus
