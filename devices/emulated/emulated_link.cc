#include <locus/devices/emulated_link.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <string>
#include <thread>

#include <locus/core/base/mutex.h>
#include <locus/core/context.h>
#include <locus/core/error.h>

namespace locus::emulated {
namespace {

constexpr double kMemory = 8;  // GB/s assumed, to find when to begin moving the bytes
constexpr double kLate = 1.5;  // times the modelled duration: more than scatter
constexpr size_t kLarge = size_t{1} << 20;

struct Ports {
  Clock::time_point from_host, to_host, from_peer, to_peer;  // busy until then
};
Mutex mutex;
Ports ports[kMaxDevices] LOCUS_GUARDED_BY(mutex);
std::optional<LinkModel> model;

[[noreturn]] void refuse(std::string_view text, const auto&... what) {
  throw Error("LOCUS_EMULATED_LINK=", text, ": ", what...);
}

double number(std::string_view text, std::string_view key, std::string_view value, bool zero) {
  const auto v = number_in<double>(value);
  if (!v || !(*v >= (zero ? 0 : 1e-3) && *v <= 1e9))
    refuse(text, key, "=", value, "; expected ",
           zero ? "microseconds, from 0 to 1e9" : "GB/s, from 0.001 to 1e9");
  return *v;
}

// Reserves the copy's ports. Returns when it ends.
Clock::time_point reserve(Context from, Context to, size_t bytes, Clock::time_point start) {
  const MutexLock lock(mutex);
  Clock::time_point dummy;
  Clock::time_point *out = &dummy, *in = &dummy;
  if (is_host(from)) {
    in = &ports[to.index].from_host;
  } else if (is_host(to)) {
    out = &ports[from.index].to_host;
  } else {
    out = &ports[from.index].to_peer;
    in = &ports[to.index].from_peer;
  }
  const Clock::time_point end = std::max({start, *out, *in}) + model->duration(from, to, bytes);
  *out = *in = end;
  return end;
}

void say_late(Context from, Context to, size_t bytes, std::chrono::duration<double> moved) {
  static std::atomic_flag said;
  if (said.test_and_set()) return;
  std::fprintf(
      stderr,
      "locus: a copy of %.0f MB from %s to %s takes longer than LOCUS_EMULATED_LINK says: "
      "this machine's memory moved it at %.1f GB/s. Smaller copies show the model better\n",
      static_cast<double>(bytes) / 1e6, to_string(from).c_str(), to_string(to).c_str(),
      static_cast<double>(bytes) / 1e9 / moved.count());
}

}  // namespace

LinkModel LinkModel::parse(std::string_view text) {
  LinkModel m;
  std::string seen = ",";
  for (size_t at = 0; at <= text.size();) {
    const size_t comma = std::min(text.find(',', at), text.size());
    const std::string_view entry = text.substr(at, comma - at);
    at = comma + 1;
    const size_t equals = entry.find('=');
    const std::string_view key = entry.substr(0, equals);
    double* const field = key == "h2d"          ? &m.h2d
                          : key == "d2h"        ? &m.d2h
                          : key == "peer"       ? &m.peer
                          : key == "latency_us" ? &m.latency_us
                                                : nullptr;
    if (field == nullptr || equals == std::string_view::npos)
      refuse(text, "\"", entry,
             "\"; expected key=number, with the keys h2d, d2h, peer (GB/s) and latency_us, "
             "separated by commas");
    if (seen.find("," + std::string(key) + ",") != std::string::npos)
      refuse(text, key, " is given twice; expected it once");
    seen += std::string(key) + ",";
    *field = number(text, key, entry.substr(equals + 1), field == &m.latency_us);
  }
  return m;
}

std::chrono::nanoseconds LinkModel::duration(Context from, Context to, size_t bytes) const {
  if (from == to) return std::chrono::nanoseconds(0);
  const double rate = is_host(from) ? h2d : is_host(to) ? d2h : peer;  // bytes per ns
  return std::chrono::nanoseconds(
      std::llround(latency_us * 1e3 + static_cast<double>(bytes) / rate));
}

void set_link_model(const std::optional<LinkModel>& m) { model = m; }
const std::optional<LinkModel>& link_model() { return model; }

Clock::time_point copy_over_link(void* dst, Context to, const void* src, Context from, size_t bytes,
                                 Clock::time_point start) {
  if (!model || from == to) {
    std::memcpy(dst, src, bytes);
    return start;
  }
  std::this_thread::sleep_until(start);  // ports are reserved in the order of modelled time
  const Clock::time_point end = reserve(from, to, bytes, start);
  const auto moving = std::chrono::nanoseconds(std::llround(static_cast<double>(bytes) / kMemory));
  std::this_thread::sleep_until(end - moving);
  const std::chrono::nanoseconds before = core_time();
  std::memcpy(dst, src, bytes);
  const std::chrono::nanoseconds moved = core_time() - before;
  if (bytes >= kLarge && moved > kLate * model->duration(from, to, bytes))
    say_late(from, to, bytes, moved);
  return std::max(end, start + moved);
}

}  // namespace locus::emulated
