#include <locus/core/observe/totals.h>

#include <algorithm>

#include <locus/core/base/table.h>
#include <locus/core/base/text.h>
#include <locus/core/error.h>

namespace locus::profiler {
namespace {

// Pairs of events of a stream in flight. If there are more, fired ones are read and released.
constexpr size_t kSweep = 1024;

}  // namespace

void Totals::Sum::add(double seconds) {
  least = count == 0 ? seconds : std::min(least, seconds);
  most = std::max(most, seconds);
  total += seconds;
  ++count;
}

void Totals::add(const std::string& name, StreamView s, double seconds,
                 const std::shared_ptr<tracing::Bracket>& events) {
  const MutexLock lock(mutex_);
  Sum& sum = sums_[{s.context, name}];
  if (!events) return sum.add(seconds);
  std::deque<Pending>& line = pending_[s.id];
  line.push_back({&sum, events});
  if (line.size() < kSweep) return;
  try {
    while (!line.empty() && line.front().events->done()) {
      line.front().sum->add(line.front().events->seconds());
      line.pop_front();
    }
  } catch (const DeviceError&) {
    // The device has failed: list() and every wait on it throw.
  }
}

std::vector<OpTotals> Totals::list(bool reset) {
  const MutexLock listing(listing_);
  std::map<uint32_t, std::deque<Pending>> in_flight;
  {
    const MutexLock lock(mutex_);
    in_flight.swap(pending_);
  }
  FirstFailure failure;
  for (const auto& [stream, line] : in_flight)
    for (const Pending& p : line)
      failure.run([&] {
        p.events->wait();
        const double seconds = p.events->seconds();
        const MutexLock lock(mutex_);
        p.sum->add(seconds);
      });
  failure.rethrow();
  const MutexLock lock(mutex_);
  std::vector<OpTotals> all;
  for (const auto& [key, sum] : sums_) {
    if (sum.count == 0) continue;
    const double mean = sum.total / static_cast<double>(sum.count);
    all.push_back({key.second, key.first, sum.count, sum.total * 1e3, sum.least * 1e3,
                   sum.most * 1e3, mean * 1e3});
  }
  std::stable_sort(all.begin(), all.end(), [](const OpTotals& a, const OpTotals& b) {
    return a.context == b.context ? a.total_ms > b.total_ms : a.context < b.context;
  });
  if (reset)
    for (auto& [key, sum] : sums_) sum = {};
  return all;
}

std::string format_totals(const std::vector<OpTotals>& all) {
  if (all.empty()) return "Profile Statistics: no ops and no copies.\n";
  std::vector<std::vector<std::string>> rows{{"Name", "Context", "Total Count", "Time (ms)",
                                              "Min Time (ms)", "Max Time (ms)", "Avg Time (ms)"}};
  std::string times;
  for (const OpTotals& t : all) {
    const ContextInfo info = is_host(t.context) ? ContextInfo() : context_info(t.context);
    if (times.empty()) times = info.times;
    rows.push_back({t.name, to_string(t.context) + (info.emulated ? "*" : ""),
                    std::to_string(t.count), formatted("%.4f", t.total_ms),
                    formatted("%.4f", t.min_ms), formatted("%.4f", t.max_ms),
                    formatted("%.4f", t.mean_ms)});
  }
  std::string text = "Profile Statistics\n";
  for (const std::string& line : table_lines(rows, "llrrrrr")) text += line + "\n";
  if (!times.empty()) text += "* emulated GPU: " + times + "\n";
  return text;
}

}  // namespace locus::profiler
