// What the entries of a TransferLog are.
#pragma once

#include <cstdint>

namespace locus {

// A copy between contexts, or what the host waited in. A blocking copy is both: its own time, and
// the time the host was blocked, which includes the work before it.
enum class TransferKind : uint8_t {
  copy,
  item,
  to_vector,  // and to_host
  print,
  copyto,  // and as_in_context: blocking copies
  wait_to_read,
  wait_all,
  event,   // Event::wait, elapsed_ms
  stream,  // Stream::synchronize, and a Stream that closes
  op,      // an op on the host, for memory that a device still used
};
const char* name(TransferKind kind);

}  // namespace locus
