#include <locus/core/base/mutex.h>
#include <locus/core/base/text.h>
#include <locus/core/profiler.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <utility>

#include <locus/core/error.h>
#include <locus/core/observe/memory_events.h>
#include <locus/core/observe/profiler_record.h>
#include <locus/core/observe/totals.h>

namespace locus::profiler {
namespace {

// Bars of a stream kept with events; if more, fired events are read and released.
constexpr size_t kSweep = 1024;

uint32_t thread_number() {
  static std::atomic<uint32_t> next{1};
  thread_local const uint32_t number = next++;
  return number;
}

// An event of a context with known time on the host's clock: the origin of the context's clock.
struct Anchor {
  EventView event;
  double time = 0;
};

class Session {
 public:
  explicit Session(const std::string& path) : path_(path) {
    std::error_code none;
    if (!path.empty() && !std::filesystem::is_directory(path, none)) file_.open(path + ".part");
    if (!file_.is_open())
      throw Error("profiler::start: cannot write ", path_, "; expected a file in a folder that ",
                  "exists and can be written");
    profile_.start = tracing::now();
  }
  ~Session() {
    for (const auto& [context, anchor] : anchors_)
      if (anchor.event.native) device(context).release(anchor.event);
    if (file_.is_open()) discard();
  }
  const std::string& path() const { return path_; }

  // Before events are recorded on a stream of c.
  void anchor(Context c) {
    const MutexLock lock(mutex_);
    if (is_host(c) || anchors_.count(c)) return;
    Device& d = device(c);
    // Twice on an idle stream: the first event opens it.
    const StreamView s = d.open_stream();
    Anchor a;
    for (int i = 0; i < 2; ++i) {
      if (a.event.native) d.release(a.event);
      const double before = tracing::now();
      a.event = d.record_time(s);
      d.wait_host(a.event);
      a.time = (before + tracing::now()) / 2;
    }
    d.close_stream(s);
    anchors_[c] = a;
  }

  void add(RowId id, Bar&& bar, std::initializer_list<Context> memory_of) {
    const MutexLock lock(mutex_);
    // Bars from before this recording are dropped.
    if (closed_ || bar.start < profile_.start || (bar.events && !anchors_.count(id.context)))
      return;
    Row& row = profile_.rows[id];
    row.bars.push_back(std::move(bar));
    for (Context c : memory_of) sample(c);
    if (row.bars.size() - row.resolved < kSweep) return;
    try {
      resolve(id.context, row, false);
    } catch (const DeviceError&) {
      // The device has failed: stop() and every wait on it throw.
    }
  }

  // On this thread's row, around its ops.
  void add_range(const std::string& name, double start) {
    const char* kept;
    {
      const MutexLock lock(mutex_);
      kept = profile_.range_names.insert(name).first->c_str();
    }
    Bar bar{.kind = Bar::Kind::range, .name = kept, .start = start, .end = tracing::now()};
    add({cpu(0), thread_number()}, std::move(bar), {});
  }

  void finish() {
    const MutexLock lock(mutex_);
    closed_ = true;
    for (auto& [id, row] : profile_.rows) resolve(id.context, row, true);
    write_trace(file_, profile_);
    file_.close();
    const std::string part = path_ + ".part";
    if (!file_ || std::rename(part.c_str(), path_.c_str()) != 0) {
      discard();
      throw Error("profiler::stop: cannot write ", path_, "; is the disk full?");
    }
  }

 private:
  void discard() LOCUS_REQUIRES(mutex_) {
    file_.close();
    std::remove((path_ + ".part").c_str());
  }

  void sample(Context c) LOCUS_REQUIRES(mutex_) {
    const MemoryStats stats = memory_pool(c).stats();
    MemorySample& last = memory_[c];
    if (last.in_use == stats.in_use && last.reserved == stats.reserved) return;
    last = {c, tracing::now(), stats.in_use, stats.reserved};
    profile_.memory.push_back(last);
  }

  // Measures from event to event: times since the anchor, in float milliseconds, would be too
  // coarse for a long trace.
  void resolve(Context c, Row& row, bool wait) LOCUS_REQUIRES(mutex_) {
    for (; row.resolved < row.bars.size(); ++row.resolved) {
      Bar& bar = row.bars[row.resolved];
      if (!bar.events) continue;
      if (wait)
        bar.events->wait();
      else if (!bar.events->done())
        return;
      if (row.last) {
        bar.start = row.last_end + bar.events->seconds_since(row.last->end());
      } else {
        const Anchor& a = anchors_.at(c);
        bar.start = a.time + bar.events->seconds_since(a.event);
      }
      bar.end = bar.start + bar.events->seconds();
      row.last_end = bar.end;
      row.last = std::move(bar.events);
    }
  }

  const std::string path_;
  Mutex mutex_;
  std::ofstream file_ LOCUS_GUARDED_BY(mutex_);
  bool closed_ LOCUS_GUARDED_BY(mutex_) = false;
  Profile profile_ LOCUS_GUARDED_BY(mutex_);
  std::map<Context, Anchor> anchors_ LOCUS_GUARDED_BY(mutex_);
  std::map<Context, MemorySample> memory_ LOCUS_GUARDED_BY(mutex_);
};

RowId row_of(StreamView s) { return {s.context, s.id != 0 ? s.id : thread_number()}; }

class Profiler final : public tracing::Listener {
 public:
  std::shared_ptr<Session> session() {
    const MutexLock lock(mutex_);
    return session_;
  }

  void start(const std::string& path) {
    const MutexLock lock(mutex_);
    if (session_)
      throw Error("profiler::start: already recording ", session_->path(),
                  "; call profiler::stop() first");
    session_ = std::make_shared<Session>(path);
    tracing::start(tracing::kProfile, *this);
  }

  void start_totals() {
    const MutexLock lock(mutex_);
    if (counting_)
      throw Error("profiler::start_totals: already counting; call profiler::stop_totals() first");
    totals_ = std::make_shared<Totals>();
    counting_ = true;
    tracing::start(tracing::kProfile, *this);
  }

  void stop_totals() {
    const MutexLock lock(mutex_);
    if (!counting_)
      throw Error(
          "profiler::stop_totals: nothing is being counted; call profiler::start_totals() first");
    counting_ = false;
    if (!session_) tracing::stop(tracing::kProfile);
  }

  // The last ones that were started.
  std::shared_ptr<Totals> totals(const char* call) {
    const MutexLock lock(mutex_);
    if (!totals_)
      throw Error("profiler::", call, ": nothing was counted; call profiler::start_totals() first");
    return totals_;
  }

  std::shared_ptr<Session> stop() {
    const MutexLock lock(mutex_);
    if (!session_)
      throw Error("profiler::stop: nothing is being recorded; call profiler::start(path) first");
    if (!counting_) tracing::stop(tracing::kProfile);
    return std::exchange(session_, nullptr);
  }

  void prepare(Context c) override {
    if (const auto now = session()) now->anchor(c);
  }

  void launch(Device& d, Kernel kernel, const Call& call, const char* name) override {
    const auto [now, totals] = observers();
    if ((!now && !totals) || tracing::recorded_as_a_whole()) return d.launch(kernel, call, name);
    const auto lock = tracing::lock_stream(call.stream);
    Bar bar{.name = name};
    if (now) {
      for (int i = 0; i < call.n_in; ++i) bar.in.push_back(call.in[i].meta);
      for (int i = 0; i < call.n_out; ++i) bar.out.push_back(call.out[i].meta);
    }
    if (call.stream.id != 0) bar.events = std::make_shared<tracing::Bracket>(d, call.stream);
    bar.start = tracing::now();
    d.launch(kernel, call, name);
    bar.end = tracing::now();
    if (bar.events) {
      bar.events->finish();
      if (!bar.events->timed()) bar.events = nullptr;
    }
    if (totals) totals->add(name, call.stream, bar.end - bar.start, bar.events);
    if (now) now->add(row_of(call.stream), std::move(bar), {call.stream.context});
  }

  void copied(const tracing::CopyRecord& copy) override {
    const auto [now, totals] = observers();
    const StreamView s = copy.stream;
    if (totals)
      totals->add(text_of("copy ", copy.from, " to ", copy.to), s, copy.end - copy.start,
                  copy.events);
    if (!now) return;
    Bar bar{.kind = Bar::Kind::copy,
            .name = "copy",
            .from = copy.from,
            .to = copy.to,
            .bytes = copy.bytes,
            .caller = users_line(copy.caller),
            .mirror = s.id != 0 ? kMirrorOfStream + s.id : kMirrorOfThread + thread_number(),
            .start = copy.start,
            .end = copy.end,
            .events = copy.events};
    now->add(row_of(s), std::move(bar), {copy.from, copy.to});
  }

  void waited(const tracing::WaitRecord& wait) override {
    const auto now = session();
    if (!now || tracing::recorded_as_a_whole()) return;
    Bar bar{.kind = Bar::Kind::wait,
            .name = name(wait.kind),
            .from = wait.waited_for,
            .caller = users_line(wait.caller),
            .start = wait.end - wait.seconds,
            .end = wait.end};
    now->add({cpu(0), thread_number()}, std::move(bar), {});
  }

 private:
  struct Observers {
    std::shared_ptr<Session> session;
    std::shared_ptr<Totals> totals;
  };
  Observers observers() {
    const MutexLock lock(mutex_);
    return {session_, counting_ ? totals_ : nullptr};
  }

  Mutex mutex_;
  std::shared_ptr<Session> session_ LOCUS_GUARDED_BY(mutex_);
  std::shared_ptr<Totals> totals_ LOCUS_GUARDED_BY(mutex_);
  bool counting_ LOCUS_GUARDED_BY(mutex_) = false;
};
Profiler& profiler() {
  static Profiler& p = *new Profiler;
  return p;
}

void stop_at_exit() {
  static const int registered = std::atexit([] {
    if (!profiler().session()) return;
    try {
      stop();
    } catch (const std::exception& e) {
      std::fprintf(stderr, "locus: %s\n", e.what());
    }
  });
  static_cast<void>(registered);
}

}  // namespace

void start(const std::string& path) {
  tracing::listening();
  stop_at_exit();
  profiler().start(path);
}

void stop() { profiler().stop()->finish(); }

void start_totals() {
  tracing::listening();
  profiler().start_totals();
}
void stop_totals() { profiler().stop_totals(); }
std::vector<OpTotals> totals() { return profiler().totals("totals")->list(false); }
std::string dumps(bool reset) { return format_totals(profiler().totals("dumps")->list(reset)); }

void add_range(const std::string& name, double start) {
  if (const auto now = profiler().session()) now->add_range(name, start);
}

}  // namespace locus::profiler
