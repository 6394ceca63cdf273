#include <locus/core/profiler.h>

#include <utility>

#include <locus/core/observe/profiler_record.h>
#include <locus/core/observe/ranges.h>

namespace locus::profiler {

struct Range::Open {
  explicit Open(std::string text) : name(std::move(text)), pushed(name.c_str()) {}
  ~Open() { add_range(name, start); }
  const std::string name;
  const trace::RangeScope pushed;
  const double start = trace::now();
};

Range::Range(std::string name) {
  if (trace::range_calls() || trace::listeners.load(std::memory_order_relaxed) & trace::kProfile)
    open_ = std::make_unique<Open>(std::move(name));
}
Range::~Range() = default;

}  // namespace locus::profiler
