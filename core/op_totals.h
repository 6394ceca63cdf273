// OpTotals, of profiler::totals() (profiler.h).
#pragma once

#include <cstdint>
#include <string>

#include <locus/core/context.h>

namespace locus::profiler {

// Counts and times of one op on one context, or of copies: "copy cpu(0) to gpu(0)".
struct OpTotals {
  std::string name;  // as in the trace
  Context context;   // where it ran
  uint64_t count = 0;
  double total_ms = 0, min_ms = 0, max_ms = 0, mean_ms = 0;
};

}  // namespace locus::profiler
