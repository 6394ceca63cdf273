#include <locus/core/benchmark.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <numeric>

#include <locus/core/base/recording_hooks.h>
#include <locus/core/base/table.h>
#include <locus/core/base/text.h>
#include <locus/core/device.h>
#include <locus/core/error.h>
#include <locus/core/observe/trace.h>
#include <locus/core/stream.h>

namespace locus {
namespace {

void check(const std::function<void()>& f, const BenchmarkOptions& o, Caller from) try {
  if (!f) throw ValueError("benchmark: the function is empty; expected one that can be called");
  if (o.warmup < 0)
    throw ValueError("benchmark: warmup is ", o.warmup, "; expected 0 or more calls");
  if (o.repeat < 1)
    throw ValueError("benchmark: repeat is ", o.repeat, "; expected 1 or more calls");
  if (!(o.max_seconds > 0))
    throw ValueError("benchmark: max_seconds is ", o.max_seconds, "; expected a positive number");
  for (size_t i = 0; i < o.contexts.size(); ++i) {
    if (std::count(o.contexts.begin(), o.contexts.end(), o.contexts[i]) > 1)
      throw ValueError("benchmark: ", o.contexts[i], " is named twice; expected each context once");
    device(o.contexts[i]);
  }
} catch (const Error&) {
  rethrow_at(from);
}

std::vector<Context> timed_contexts(const BenchmarkOptions& o) {
  std::vector<Context> list = o.contexts.empty() ? opened_devices() : o.contexts;
  if (o.contexts.empty()) std::erase_if(list, is_host);
  return list;
}

// The host waits for all streams of c, as part of the call at `from`.
void wait_for(Context c, Caller from) {
  if (is_host(c)) return;
  const tracing::Scope scope(TransferKind::event, from);
  const tracing::Wait traced(c);
  device(c).synchronize({});
}

// Microseconds of one run: of the call, then of the work on each context.
std::vector<double> run(const std::function<void()>& f, const std::vector<Context>& contexts,
                        Caller from) {
  for (const Context c : contexts) wait_for(c, from);
  std::deque<tracing::Bracket> events;
  for (const Context c : contexts) {
    Device& d = device(c);
    events.emplace_back(d, current_stream(c, d));
  }
  const double start = tracing::now();
  f();
  const double call = tracing::now() - start;
  for (tracing::Bracket& e : events) e.finish();
  std::vector<double> times{call * 1e6};
  for (size_t i = 0; i < contexts.size(); ++i) {
    wait_for(contexts[i], from);
    times.push_back(events[i].timed() ? events[i].seconds() * 1e6 : call * 1e6);
  }
  return times;
}

// Calls each() `most` times, or until `seconds` are over, but once at least.
void repeat(int most, double seconds, const auto& each) {
  const double start = tracing::now();
  for (int i = 0; i < most; ++i) {
    each();
    if (tracing::now() - start >= seconds) return;
  }
}

// Of all runs' times number `which`.
Percentiles percentiles(const std::vector<std::vector<double>>& runs, size_t which) {
  std::vector<double> v;
  for (const std::vector<double>& times : runs) v.push_back(times[which]);
  std::sort(v.begin(), v.end());
  const double n = static_cast<double>(v.size());
  const auto at = [&](double part) {
    const double place = part * (n - 1);
    const auto below = static_cast<size_t>(place);
    return std::lerp(v[below], v[std::min(below + 1, v.size() - 1)], place - std::floor(place));
  };
  Percentiles p{.min = v.front(), .p10 = at(.1), .median = at(.5), .p90 = at(.9), .max = v.back()};
  p.mean = std::accumulate(v.begin(), v.end(), 0.) / n;
  const double squares = std::accumulate(v.begin(), v.end(), 0., [&](double sum, double x) {
    return sum + (x - p.mean) * (x - p.mean);
  });
  p.deviation = std::sqrt(squares / n);
  return p;
}

// Names of contexts; emulated ones have a star, and the text ends with what their times are.
struct Labels {
  std::string of(Context c) {
    const ContextInfo info = is_host(c) ? ContextInfo() : context_info(c);
    if (times.empty()) times = info.times;
    return to_string(c) + (info.emulated ? "*" : "");
  }
  std::string text(const std::vector<std::vector<std::string>>& rows) const {
    std::string all;
    const std::string align = "l" + std::string(rows[0].size() - 1, 'r');
    for (const std::string& line : table_lines(rows, align)) all += line + "\n";
    return times.empty() ? all : all + "* emulated GPU: " + times + "\n";
  }
  std::string times = {};
};

std::string micros_text(double us) { return time_text(us / 1e6); }

const Percentiles* find(const Benchmark& b, Context c) {
  for (const auto& [context, p] : b.device)
    if (context == c) return &p;
  return nullptr;
}

}  // namespace

Benchmark benchmark(const std::function<void()>& f, const BenchmarkOptions& options,
                    std::string name, Caller from) {
  check(f, options, from);
  capture::check_wait({}, "benchmark", from);
  repeat(options.warmup, options.max_seconds, [&] { run(f, timed_contexts(options), from); });
  const std::vector<Context> contexts = timed_contexts(options);
  std::vector<std::vector<double>> runs;
  repeat(options.repeat, options.max_seconds, [&] { runs.push_back(run(f, contexts, from)); });
  if (name.empty()) {
    name = to_string(from);
    name.erase(0, name.rfind('/') + 1);
  }
  Benchmark result{.name = std::move(name), .host = percentiles(runs, 0)};
  for (size_t i = 0; i < contexts.size(); ++i)
    result.device.emplace_back(contexts[i], percentiles(runs, i + 1));
  result.runs = static_cast<int>(runs.size());
  return result;
}

std::string Benchmark::table() const {
  Labels labels;
  std::vector<std::vector<std::string>> rows{
      {text_of(name, ", ", runs, runs == 1 ? " run" : " runs"), "mean", "min", "10 %", "median",
       "90 %", "max", "deviation"}};
  const auto add = [&](const std::string& label, const Percentiles& p) {
    std::vector<std::string>& row = rows.emplace_back();
    row.push_back(label);
    for (const double us : {p.mean, p.min, p.p10, p.median, p.p90, p.max, p.deviation})
      row.push_back(micros_text(us));
  };
  add("host", host);
  for (const auto& [context, p] : device) add(labels.of(context), p);
  return labels.text(rows);
}

std::string comparison_table(const std::vector<Benchmark>& all, Caller from) try {
  if (all.empty())
    throw ValueError("comparison_table: there is no benchmark; expected one or more");
  std::vector<Context> contexts;
  for (const Benchmark& b : all)
    for (const auto& [context, p] : b.device)
      if (std::find(contexts.begin(), contexts.end(), context) == contexts.end())
        contexts.push_back(context);
  Labels labels;
  std::vector<std::vector<std::string>> rows{{"median", "host", "ratio"}};
  for (const Context c : contexts) {
    rows[0].push_back(labels.of(c));
    rows[0].push_back("ratio");
  }
  for (const Benchmark& b : all) {
    std::vector<std::string>& row = rows.emplace_back();
    row.push_back(b.name);
    const auto add = [&](const Percentiles* p, const Percentiles* first) {
      row.push_back(p ? micros_text(p->median) : "-");
      const bool comparable = p && first && first->median > 0;
      row.push_back(comparable ? formatted("%.2f", p->median / first->median) : "-");
    };
    add(&b.host, &all[0].host);
    for (const Context c : contexts) add(find(b, c), find(all[0], c));
  }
  return labels.text(rows);
} catch (const Error&) {
  rethrow_at(from);
}

}  // namespace locus
