// Times of ops, summed by name and context. Internal to core.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <locus/core/base/mutex.h>
#include <locus/core/observe/trace.h>
#include <locus/core/op_totals.h>

namespace locus::profiler {

class Totals {
 public:
  // A launch or copy on `s`. `seconds` counts if there are no events.
  void add(const std::string& name, StreamView s, double seconds,
           const std::shared_ptr<tracing::Bracket>& events);
  // Waits for work in flight, then lists the sums by context, the longest first. Throws the first
  // failure of a device; failed work does not count. `reset`: counts from zero afterwards.
  std::vector<OpTotals> list(bool reset);

 private:
  struct Sum {
    uint64_t count = 0;
    double total = 0, least = 0, most = 0;  // seconds
    void add(double seconds);
  };
  struct Pending {
    Sum* sum;  // in sums_
    std::shared_ptr<tracing::Bracket> events;
  };

  Mutex listing_;  // locked before mutex_
  Mutex mutex_;
  std::map<std::pair<Context, std::string>, Sum> sums_ LOCUS_GUARDED_BY(mutex_);  // only grows
  std::map<uint32_t, std::deque<Pending>> pending_ LOCUS_GUARDED_BY(mutex_);      // by stream
};

// The text of dumps().
std::string format_totals(const std::vector<OpTotals>& all);

}  // namespace locus::profiler
