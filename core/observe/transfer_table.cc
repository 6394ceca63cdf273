// The text of a transfer log: the table and its advice.
#include <algorithm>
#include <string_view>

#include <locus/core/base/table.h>
#include <locus/core/base/text.h>
#include <locus/core/transfer_log.h>

namespace locus {
namespace {

constexpr uint64_t kMany = 8;                    // from one line: a loop
constexpr uint64_t kSmall = uint64_t{64} << 10;  // bytes below which a copy is mostly latency
constexpr uint64_t kLarge = uint64_t{1} << 20;   // bytes from which page-locked memory pays

std::string bytes_text(uint64_t n) {
  if (n < 1000) return std::to_string(n) + " B";
  return scaled_text(static_cast<double>(n), {{1e9, "GB"}, {1e6, "MB"}, {1e3, "kB"}});
}

// The file with its folder, and the line.
std::string line_text(Caller c) {
  const std::string_view file = c.file ? c.file : "";
  const size_t slash = file.rfind('/');
  if (slash != std::string_view::npos && slash > 0) c.file += file.rfind('/', slash - 1) + 1;
  return to_string(c);
}

std::string rate_text(const TransferEntry& e) {
  if (e.kind != TransferKind::copy || e.seconds <= 0) return "-";
  const double rate = static_cast<double>(e.bytes) / e.seconds / 1e9;
  return rate < 0.095 ? formatted("%.1g", rate) : formatted("%.2f", rate);
}

std::string advice_for_copy(const TransferEntry& e) {
  const std::string place = to_string(is_host(e.to) ? e.from : e.to);
  const uint64_t each = e.bytes / e.count;
  const std::string many = std::to_string(e.count) + " copies of " + bytes_text(each) + " each";
  if (e.count >= kMany && each < kSmall)
    return many + ": mostly latency; gather them and copy once";
  if (is_host(e.from) && is_host(e.to))
    return "both are the host's memory; create the tensor where it is used";
  const bool up = e.from.type == DeviceType::cpu;
  if ((up || e.to.type == DeviceType::cpu) && each >= kLarge)
    return text_of(
        "the ", up ? "source is pageable memory; from" : "target is pageable memory; into",
        " a cpu_pinned() tensor the copy runs at the link's speed, and with {.blocking = "
        "false} the host goes on");
  if (e.count >= kMany)
    return many + ": keep the data on " + place + " if it is the same each time";
  if (!is_host(e.from) && !is_host(e.to))
    return "place what makes and what uses this tensor on one context, or let other work run "
           "meanwhile";
  return "copied " + std::to_string(e.count) + (e.count == 1 ? " time" : " times") +
         "; keep the data on " + place + " if it is used again there";
}

std::string advice_for(const TransferEntry& e) {
  const std::string from = to_string(e.from), n = std::to_string(e.count);
  switch (e.kind) {
    case TransferKind::copy:
      return advice_for_copy(e);
    case TransferKind::item:
      if (e.count >= kMany)
        return n +
               " scalars read one at a time; keep it on the device, read once: collect them on " +
               from + " and call to_vector after the loop";
      return "the host waits here for everything before it on " + from +
             "; read the value later, when it is needed";
    case TransferKind::to_vector:
      if (e.count >= kMany)
        return n + " reads; keep the values on " + from + " and read them once, after the loop";
      return "the host waits here for everything before it on " + from +
             "; read later, or copy to cpu_pinned() with {.blocking = false}";
    case TransferKind::print:
      return "printing waits for " + from + "; print less often, or after the timed part";
    case TransferKind::copyto:
      return "the host is blocked until the copy is done; with a cpu_pinned() tensor on the host's "
             "side and {.blocking = false} it goes on";
    case TransferKind::wait_to_read:
    case TransferKind::wait_all:
      return "reading waits by itself; an explicit wait is needed only around a clock";
    case TransferKind::event:
    case TransferKind::stream:
      return "Stream::wait orders two streams and leaves the host free";
    case TransferKind::op:
      return "an op on the host used memory that " + from +
             " was still copying; let other work come between";
  }
  return "";
}

// The costliest entry. Waits, and copies on a line that waits, cost their time. Other copies may
// overlap, and count for a tenth.
const TransferEntry& dearest(const std::vector<TransferEntry>& entries) {
  const auto cost = [&](const TransferEntry& e) {
    const bool held_up = std::any_of(entries.begin(), entries.end(), [&](const TransferEntry& w) {
      return w.kind != TransferKind::copy && w.caller.line == e.caller.line &&
             line_text(w.caller) == line_text(e.caller);
    });
    return held_up ? e.seconds : e.seconds / 10;
  };
  return *std::max_element(entries.begin(), entries.end(),
                           [&](const auto& a, const auto& b) { return cost(a) < cost(b); });
}

}  // namespace

const char* name(TransferKind kind) {
  constexpr const char* kNames[] = {"copy",        "item",         "to_vector", "print",
                                    "copyto",      "wait_to_read", "wait_all",  "event wait",
                                    "synchronize", "an op"};
  return kNames[static_cast<int>(kind)];
}

std::string format_transfers(const std::vector<TransferEntry>& entries) {
  if (entries.empty()) return "No copies between contexts, and no waits of the host.\n";
  std::vector<std::vector<std::string>> rows{
      {"what", "from", "to", "count", "bytes", "time", "GB/s", "line"}};
  std::string times;
  for (const TransferEntry& e : entries) {
    const std::string what =
        e.kind == TransferKind::copy ? "copy" : std::string("wait: ") + name(e.kind);
    if (times.empty()) times = e.times;
    rows.push_back({what, to_string(e.from), to_string(e.to), std::to_string(e.count),
                    bytes_text(e.bytes), time_text(e.seconds) + (e.emulated ? "*" : ""),
                    rate_text(e), line_text(e.caller)});
  }
  std::string text;
  for (const std::string& line : table_lines(rows, "lllrrrrl")) text += line + "\n";
  if (!times.empty()) text += "* emulated GPU: " + times + "\n";
  const TransferEntry& worst = dearest(entries);
  return text + "Costliest, " + line_text(worst.caller) + ": " + advice_for(worst) + ".\n";
}

}  // namespace locus
