#include <locus/core/profiler.h>

#include <utility>

#include <locus/core/observe/profiler_record.h>
#include <locus/core/observe/ranges.h>

namespace locus::profiler {

struct Range::Open {
  explicit Open(std::string text) : name(std::move(text)), pushed(name.c_str()) {}
  ~Open() { add_range(name, start); }
  const std::string name;
  const tracing::RangeScope pushed;
  const double start = tracing::now();
};

Range::Range(std::string name) {
  if (tracing::range_calls() ||
      tracing::listeners.load(std::memory_order_relaxed) & tracing::kProfile)
    open_ = std::make_unique<Open>(std::move(name));
}
Range::~Range() = default;

}  // namespace locus::profiler
