// TransferLog is a ledger of copies between contexts and of host waits, with the user's lines.
//
//   TransferLog log;
//   train();
//   std::cout << log.table();
//
// LOCUS_TRANSFERS=summary prints a program's table on stderr at its end. LOCUS_TRANSFERS=full also
// prints each record at once. For another value, the first op, copy or TransferLog throws Error.
// When off, each place costs one relaxed load.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <locus/core/caller.h>
#include <locus/core/context.h>
#include <locus/core/transfer_kind.h>

namespace locus {

// Totals of all records with one kind, pair of contexts and line.
struct TransferEntry {
  TransferKind kind = TransferKind::copy;
  Context from, to;    // for a wait: the context waited for, and the host
  uint64_t count = 0;  // copies, or waits
  uint64_t bytes = 0;  // copied; for a wait: copied meanwhile
  // For copies: measured by device events, without waiting. For waits: measured on the host.
  double seconds = 0;
  Caller caller;  // file is null if the line is unknown, as for ops
  // As in ContextInfo, for either context.
  bool emulated = false;
  bool modelled = false;
  std::string times = {};
};

// Records copies and waits of all threads during its lifetime. collective.h and cluster.h have
// exceptions. Several logs may live at once. Any thread may use a log.
class [[nodiscard]] TransferLog : NonCopyable {
 public:
  TransferLog();
  ~TransferLog();

  // The longest time first. Waits for copies in flight; throws DeviceError if a device has failed.
  std::vector<TransferEntry> entries() const;
  // The entries as text, and a line of advice for the costliest entry. In this comparison, copies
  // that the host did not wait for count a tenth, because other work may overlap them.
  std::string table() const;
  void clear();

  struct Records;  // internal

 private:
  std::shared_ptr<Records> records_;
};

// The text of table().
std::string format_transfers(const std::vector<TransferEntry>& entries);

}  // namespace locus
