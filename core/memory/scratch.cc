#include <locus/core/scratch.h>

#include <locus/core/device.h>
#include <locus/core/replay/plan.h>

namespace locus {

Scratch::Scratch(const Call& call, size_t bytes) : stream_(call.stream), bytes_(bytes) {
  if (bytes == 0) return;
  data_ = Plan::scratch(bytes, of_plan_);
  if (!of_plan_) data_ = device(stream_.context).allocator().allocate(bytes, stream_);
}

Scratch::~Scratch() {
  if (data_ && !of_plan_) device(stream_.context).allocator().deallocate(data_, bytes_, stream_);
}

}  // namespace locus
