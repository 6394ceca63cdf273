// NVTX ranges: named spans of a thread that NVIDIA's profilers show. A back end with NVTX provides
// the calls (devices/cuda/nvtx.cc); without one there are none. Internal to core and devices.
#pragma once

#include <locus/core/noncopyable.h>

namespace locus::tracing {

struct RangeCalls {
  void (*push)(const char* name);  // reads `name` before it returns
  void (*pop)();                   // ends the thread's innermost range
};
// `calls` lives as long as the process. Null: none.
void set_range_calls(const RangeCalls* calls);
const RangeCalls* range_calls();

// Whether LOCUS_NVTX=1 is set. Throws Error for a value that is neither 0 nor 1, and if there are
// no range calls.
bool ranges_wanted();

// A range while it lives. Null: none.
class RangeScope : NonCopyable {
 public:
  explicit RangeScope(const char* name) : calls_(name ? range_calls() : nullptr) {
    if (calls_) calls_->push(name);
  }
  ~RangeScope() {
    if (calls_) calls_->pop();
  }

 private:
  const RangeCalls* const calls_;
};

}  // namespace locus::tracing
