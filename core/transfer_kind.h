// The kinds of TransferLog entries.
#pragma once

#include <cstdint>

namespace locus {

// `copy` is a copy between contexts. The others name the call in which the host waited. A blocking
// copy has two records: its own time, and the host's wait, which includes earlier work.
enum class TransferKind : uint8_t {
  copy,
  item,
  to_vector,  // and to_host
  print,
  copyto,  // and as_in_context: blocking copies
  wait_to_read,
  wait_all,
  event,   // Event::wait, elapsed_ms
  stream,  // Stream::synchronize, ~Stream
  op,      // an op on the host, for memory that a device still used
};
const char* name(TransferKind kind);

}  // namespace locus
