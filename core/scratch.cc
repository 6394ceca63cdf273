#include <locus/core/scratch.h>

#include <locus/core/device.h>

namespace locus {

Scratch::Scratch(const Call& call, size_t bytes)
    : stream_(call.stream),
      bytes_(bytes),
      data_(bytes == 0 ? nullptr : device(stream_.context).allocator().allocate(bytes, stream_)) {}

Scratch::~Scratch() {
  if (data_) device(stream_.context).allocator().deallocate(data_, bytes_, stream_);
}

}  // namespace locus
