#include "common/measure.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <thread>

#include <fmt/format.h>
#include <locus/core/op.h>
#include <locus/locus.h>

namespace examples {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double median(std::vector<double> values) {
  if (values.empty()) throw std::invalid_argument("median: of no values");
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

Timing measure(const std::function<void()>& f, const MeasureOptions& options) {
  const auto timed = [&f] {
    const double start = now();
    f();
    return now() - start;
  };
  Timing t;
  t.first = timed();
  std::vector<double> times;
  double total = 0;
  while (t.runs < options.at_least || (total < options.seconds && t.runs < options.at_most)) {
    times.push_back(timed());
    total += times.back();
    ++t.runs;
  }
  t.median = median(times);
  std::sort(times.begin(), times.end());
  t.spread = (times[times.size() * 3 / 4] - times[times.size() / 4]) / 2;
  return t;
}

bool differ(const Timing& a, const Timing& b) {
  return std::abs(a.median - b.median) > a.spread + b.spread;
}

std::string unsteady_note(const std::string& what, const Timing& t) {
  if (t.spread <= 0.3 * t.median) return "";
  return fmt::format("The machine is busy: the spread of {} is {:.0f} % of its time.", what,
                     100 * t.spread / t.median);
}

std::string busy_note(double load, unsigned cores) {
  if (cores == 0 || load <= cores) return "";
  return fmt::format(
      "The machine is busy: its load average is {:.1f} on {}. Times may be too long.", load,
      counted(cores, "core"));
}

std::string busy_note() {
  double load = 0;
  return ::getloadavg(&load, 1) == 1 ? busy_note(load, std::thread::hardware_concurrency()) : "";
}

std::optional<double> crossover(const std::vector<double>& sizes, const std::vector<double>& a,
                                const std::vector<double>& b) {
  size_t first = sizes.size();  // first of the sizes from which b stays faster
  while (first > 0 && b[first - 1] < a[first - 1]) --first;
  if (first == sizes.size()) return {};
  if (first == 0) return sizes[0];
  const double before = std::log(b[first - 1] / a[first - 1]),
               after = std::log(b[first] / a[first]);
  const double part = before / (before - after);
  return sizes[first - 1] * std::pow(sizes[first] / sizes[first - 1], part);
}

namespace {

// A number from 1, rounded to three digits, to 1000, and its unit.
std::pair<double, const char*> in_unit(double seconds) {
  static const char* const kUnits[] = {"s", "ms", "µs", "ns"};
  int unit = 0;
  while (unit < 3 && seconds < 0.9995) {
    seconds *= 1000;
    ++unit;
  }
  return {seconds, kUnits[unit]};
}

}  // namespace

std::string time_text(double seconds) {
  if (seconds <= 0) return "0 s";
  const auto [number, unit] = in_unit(seconds);
  return fmt::format("{:.{}f} {}", number, number < 9.995 ? 2 : number < 99.95 ? 1 : 0, unit);
}

std::string tick_text(double seconds) {
  const auto [number, unit] = in_unit(seconds);
  return fmt::format("{:.4g} {}", number, unit);
}

std::string count_text(double n) {
  std::string s = fmt::format("{:.0f}", n);
  for (size_t i = s.size(); i > 3 && s[i - 4] != '-';) s.insert(i -= 3, ",");
  return s;
}

std::string si_text(double value, const std::string& unit) {
  static const char* const kPrefixes[] = {"", "k", "M", "G", "T", "P"};
  int prefix = 0;
  while (prefix < 5 && value >= 999.5) {
    value /= 1000;
    ++prefix;
  }
  const int decimals = prefix == 0 && value == std::floor(value) ? 0
                       : value < 9.995                           ? 2
                       : value < 99.95                           ? 1
                                                                 : 0;
  return fmt::format("{:.{}f} {}{}", value, decimals, kPrefixes[prefix], unit);
}

std::string counted(double n, const std::string& what) {
  return count_text(n) + " " + what + (n == 1 ? "" : "s");
}

locus::Tensor exactly(const locus::Tensor& x) {
  return x.as_in_context(locus::cpu()).astype(locus::f64);
}

double relative_error(const locus::Tensor& x, const locus::Tensor& reference) {
  const locus::Tensor r = exactly(reference);
  const double largest = max(abs(r)).item<double>();
  return max(abs(exactly(x) - r)).item<double>() / (largest > 0 ? largest : 1);
}

void check_error(const std::string& what, double error, double limit) {
  if (error <= limit) return;
  throw std::runtime_error(fmt::format(
      "{}: the largest relative error against f64 on the CPU is {:.1e}; expected at most {:.1e}",
      what, error, limit));
}

double check_product(const std::string& what, const locus::Tensor& a, const locus::Tensor& b,
                     const locus::Tensor& product) {
  const int64_t n = a.shape()[0];
  const locus::Slice rows(0, n, std::max<int64_t>(1, n / 8)), all;
  const double error = relative_error(product(rows, all), dot(exactly(a(rows, all)), exactly(b)));
  check_error(what, error, tf32() ? 5e-3 : 2e-5);
  return error;
}

bool emulated(locus::Context c) { return locus::context_info(c).emulated; }
bool real_gpu(locus::Context c) { return !is_host(c) && !emulated(c); }

std::string times_note(locus::Context c) {
  const locus::ContextInfo info = locus::context_info(c);
  return info.modelled ? "times modelled" : info.emulated ? "times of this machine's cores" : "";
}

std::string emulation_note(const std::vector<locus::Context>& list) {
  if (std::ranges::none_of(list, emulated)) return "";
  std::string modelled, others;
  bool unmodelled = false;
  for (const locus::Context c : list) {
    const bool is_modelled = locus::context_info(c).modelled;
    unmodelled = unmodelled || (emulated(c) && !is_modelled);
    std::string& names = is_modelled ? modelled : others;
    names += (names.empty() ? "" : ", ") + to_string(c);
  }
  std::string s = "Emulated GPUs show the order of work, not its speed.";
  if (unmodelled) return s + " LOCUS_EMULATED_LINK gives them modelled times.";
  if (others.empty()) return s;
  return s +
         fmt::format(" Times on {} are modelled, times on {} are measured: they do not compare.",
                     modelled, others);
}

std::string more_memory(locus::Context c) {
  return emulated(c) ? "; LOCUS_EMULATED_MEMORY sets how much an emulated GPU has" : "";
}

std::string describe(locus::Context c) {
  const std::string note = times_note(c);
  return to_string(c) + ": " + locus::context_info(c).name + (note.empty() ? "" : ", ") + note;
}

std::string describe(const std::vector<locus::Context>& list) {
  std::string s;
  for (size_t i = 0; i < list.size(); ++i) {
    const bool last = i + 1 == list.size();
    const bool again =
        !last && locus::context_info(list[i]).name == locus::context_info(list[i + 1]).name;
    s += again ? to_string(list[i]) + ", " : describe(list[i]) + (last ? "" : "; ");
  }
  return s;
}

bool tf32() { return locus::matmul_precision() == locus::Precision::tf32; }
void turn_on_tf32() {
  if (locus::get_op("matmul").kernel(locus::DeviceType::gpu, locus::f32) == nullptr)
    throw std::runtime_error("--tf32 needs a build with CUDA (-DLOCUS_CUDA=ON)");
  locus::set_matmul_precision(locus::Precision::tf32);
}

std::string precision() { return tf32() ? "f32, TF32 on" : "f32, TF32 off"; }

void write_file(const std::string& path, const std::string& content) {
  const std::string temporary = path + ".part";
  {
    std::ofstream file(temporary, std::ios::binary);
    file << content;
    file.close();
    if (!file) {
      throw std::runtime_error(fmt::format("{}: cannot write: {}", path, std::strerror(errno)));
    }
  }
  std::filesystem::rename(temporary, path);
}

}  // namespace examples
