// A ledger of what crosses contexts and of where the host waits, with the user's lines.
//
//   TransferLog log;
//   train();
//   std::cout << log.table();
//
// LOCUS_TRANSFERS=summary prints the table of any program at its end, on stderr; full also prints
// each record as it happens; the first op, copy or TransferLog throws Error when it is anything
// else. Off, it costs one relaxed load at each place.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <locus/core/caller.h>
#include <locus/core/context.h>
#include <locus/core/transfer_kind.h>

namespace locus {

// All records of one kind, pair of contexts and line.
struct TransferEntry {
  TransferKind kind = TransferKind::copy;
  Context from, to;    // of a wait: the context waited for, and the host
  uint64_t count = 0;  // copies, or waits
  uint64_t bytes = 0;  // copied; of a wait: copied meanwhile
  // Of copies: by the device's events, so without what they waited for. Of waits: of the host.
  double seconds = 0;
  Caller caller;  // file is null where the line is not known: ops take none
  // Of either context, as in ContextInfo.
  bool emulated = false;
  bool modelled = false;
  std::string times = {};
};

// Records everything in the process, on all threads, from its construction on. Several may be
// alive; each has what happened in its life. Threads: any.
class [[nodiscard]] TransferLog : NonCopyable {
 public:
  TransferLog();
  ~TransferLog();

  // The dearest first. Waits for copies still under way; throws DeviceError when a device has
  // failed.
  std::vector<TransferEntry> entries() const;
  // The entries as text, and a line of advice for the dearest. For that, copies that the host did
  // not wait for count a tenth: they may run beside everything.
  std::string table() const;
  void clear();

  struct Records;  // internal

 private:
  std::shared_ptr<Records> records_;
};

// table()'s text.
std::string format_transfers(const std::vector<TransferEntry>& entries);

}  // namespace locus
