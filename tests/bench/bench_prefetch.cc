// The share of uploads that overlaps with compute of earlier batches. From the profiler's trace of
// an epoch: the time in which the rows compute and to_device are both busy, over the shorter of the
// two, counted from the first product. step, compute and upload are measured without the profiler.
#include <algorithm>
#include <fstream>
#include <map>
#include <utility>
#include <vector>

#include <locus/core/device.h>
#include <locus/core/profiler.h>
#include <locus/nn/prefetch.h>
#include <locus/ops/create.h>
#include <locus/ops/matmul.h>
#include <nlohmann/json.hpp>

#include "tests/bench/bench.h"
#include "tests/support/folder.h"

namespace locus::bench {
namespace {

// Events of one stream, in order.
class Times {
 public:
  explicit Times(StreamView s) : stream_(s) {}
  ~Times() {
    for (const EventView& e : events_) device(stream_.context).release(e);
  }
  void mark() { events_.push_back(device(stream_.context).record_time(stream_)); }
  // Between two marks, once the stream is empty.
  double ms(size_t from, size_t to) const {
    return device(stream_.context).elapsed_ms(events_[from], events_[to]);
  }
  double each_ms() const {
    device(stream_.context).synchronize(stream_);
    std::vector<double> steps;
    for (size_t i = 1; i < events_.size(); ++i) steps.push_back(ms(i - 1, i));
    return median(steps);
  }

 private:
  StreamView stream_;
  std::vector<EventView> events_;
};

using Spans = std::vector<std::pair<double, double>>;  // begin, end

double length(const Spans& spans) {
  double sum = 0;
  for (const auto& [begin, end] : spans) sum += end - begin;
  return sum;
}

// Intersects lists that are ascending and free of overlaps.
Spans both(const Spans& a, const Spans& b) {
  Spans common;
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    const double begin = std::max(a[i].first, b[j].first);
    const double end = std::min(a[i].second, b[j].second);
    if (begin < end) common.emplace_back(begin, end);
    ++(a[i].second < b[j].second ? i : j);
  }
  return common;
}

// The bars of a row of c.
Spans row(const nlohmann::json& events, Context c, const std::string& name) {
  const auto named = [&](const char* what, const std::string& value) {
    return [&, what](const nlohmann::json& e) {
      return e["ph"] == "M" && e["name"] == what && e["args"]["name"] == value;
    };
  };
  const auto process =
      std::find_if(events.begin(), events.end(), named("process_name", to_string(c)));
  if (process == events.end()) return {};
  const auto thread = std::find_if(events.begin(), events.end(), [&](const nlohmann::json& e) {
    return named("thread_name", name)(e) && e["pid"] == (*process)["pid"];
  });
  if (thread == events.end()) return {};
  Spans spans;
  for (const nlohmann::json& e : events)
    if (e["ph"] == "X" && e["pid"] == (*process)["pid"] && e["tid"] == (*thread)["tid"])
      spans.emplace_back(e["ts"].get<double>(), e["ts"].get<double>() + e["dur"].get<double>());
  std::sort(spans.begin(), spans.end());
  return spans;
}

// From the trace at `path`.
double hidden_fraction(const std::string& path, Context c) {
  std::ifstream file(path);
  const nlohmann::json events = nlohmann::json::parse(file)["traceEvents"];
  const Spans compute = row(events, c, "compute");
  Spans uploads = row(events, c, "to_device");
  if (compute.empty() || uploads.empty()) throw Error("no compute or no uploads in " + path);
  const double start = compute.front().first;
  std::erase_if(uploads, [&](const auto& span) { return span.second <= start; });
  if (!uploads.empty()) uploads.front().first = std::max(uploads.front().first, start);
  return length(both(compute, uploads)) / std::min(length(compute), length(uploads));
}

// Batches of 64 MiB, and products about twice as long as their upload; smaller on an emulated GPU.
class Epochs {
 public:
  explicit Epochs(Context c)
      : context_(c),
        w_(full({n_, n_}, 1e-4, c)),
        pinned_(full({samples_, row_}, 1, {cpu_pinned(), f32})),
        loader_(
            data::Dataset(full({24 * samples_, row_}, 1, cpu()), full({24 * samples_}, 1, cpu())),
            {.batch_size = samples_, .context = c, .num_workers = real_ ? 12 : 1, .prefetch = 3}) {}

  double upload_ms() {
    return each_ms(Lane::to_device, [&] { pinned_.copyto(context_, {.blocking = false}); });
  }
  double compute_ms() {
    const Tensor batch = pinned_.copyto(context_);
    work(batch);
    return each_ms(Lane::compute, [&] { work(batch); });
  }
  // Of an epoch, from the first batch on.
  double step_ms() {
    Times times(device(context_).stream(Lane::compute));
    for (auto [batch, label] : loader_) {
      work(batch);
      times.mark();
    }
    return times.each_ms();
  }
  // Of an epoch under the profiler.
  double hidden() {
    const test::Folder folder;
    const std::string trace = folder / "trace.json";
    profiler::start(trace);
    for (auto [batch, label] : loader_) work(batch);
    profiler::stop();
    return hidden_fraction(trace, context_);
  }

 private:
  template <class F>
  double each_ms(Lane lane, const F& f) {
    Times times(device(context_).stream(lane));
    times.mark();
    for (int i = 0; i < 10; ++i) {
      f();
      times.mark();
    }
    return times.each_ms();
  }
  void work(const Tensor& batch) const {
    Tensor y = batch.reshape({-1, n_});
    for (int i = 0; i < products_; ++i) y = matmul(y, w_);
  }

  const bool real_ = real_gpu();
  const int64_t samples_ = real_ ? 1024 : 64, row_ = real_ ? 16384 : 1024, n_ = real_ ? 4096 : 64;
  const int products_ = real_ ? 1 : 4;
  Context context_;
  Tensor w_, pinned_;
  data::Prefetcher loader_;
};

void hidden(benchmark::State& state, Context c) {
  Epochs epochs(c);
  std::vector<double> fractions;
  double upload = 0, compute = 0, step = 0;
  rounds(state, [&] {
    upload = epochs.upload_ms();
    compute = epochs.compute_ms();
    step = epochs.step_ms();
    fractions.push_back(epochs.hidden());
    return 1e-3 * step;
  });
  state.counters["upload_us"] = 1e3 * upload;
  state.counters["compute_us"] = 1e3 * compute;
  state.counters["hidden_percent"] = 100 * median(fractions);
}

}  // namespace

void add_prefetch() {
  for (const Context c : contexts()) {
    if (is_host(c)) continue;
    add_timed("prefetch/hidden/" + to_string(c),
              [=](benchmark::State& state) { hidden(state, c); });
  }
}

}  // namespace locus::bench
