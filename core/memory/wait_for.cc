#include <locus/core/wait_for.h>

#include <locus/core/base/recording_hooks.h>
#include <locus/core/memory/storage.h>
#include <locus/core/stream.h>

namespace locus {

void wait_for(const Tensor& x, Context c) {
  if (!is_host(c) && !capture::active()) x.impl().storage->before_read(current_stream(c));
}

}  // namespace locus
