#include <locus/core/scratch.h>

#include <locus/core/device.h>
#include <locus/core/replay/replay.h>

namespace locus {

Scratch::Scratch(const Call& call, size_t bytes) : stream_(call.stream), bytes_(bytes) {
  if (bytes == 0) return;
  data_ = Replay::scratch(bytes, of_replay_);
  if (!of_replay_) data_ = device(stream_.context).allocator().allocate(bytes, stream_);
}

Scratch::~Scratch() {
  if (data_ && !of_replay_) device(stream_.context).allocator().deallocate(data_, bytes_, stream_);
}

}  // namespace locus
