#include "common/measure.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include <fmt/format.h>
#include <locus/locus.h>
#ifdef LOCUS_WITH_CUDA
#include <locus/devices/cuda.h>
#endif

namespace examples {

const char* const kModelled =
    "Times of emulated GPUs are modelled: CPU kernels on this machine's cores. They show the order "
    "of things, not the speed of a GPU.";

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
  return t;
}

std::optional<double> crossover(const std::vector<double>& sizes, const std::vector<double>& a,
                                const std::vector<double>& b) {
  size_t first = sizes.size();  // of the sizes at the end where b is faster
  while (first > 0 && b[first - 1] < a[first - 1]) --first;
  if (first == sizes.size()) return {};
  if (first == 0) return sizes[0];
  const double before = std::log(b[first - 1] / a[first - 1]),
               after = std::log(b[first] / a[first]);
  const double part = before / (before - after);
  return sizes[first - 1] * std::pow(sizes[first] / sizes[first - 1], part);
}

namespace {

// A number from 1 (as three digits show it) to 1000, and its unit.
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

double relative_error(const locus::Tensor& x, const locus::Tensor& reference) {
  const auto host = [](const locus::Tensor& t) {
    return t.as_in_context(locus::cpu()).astype(locus::f64);
  };
  const locus::Tensor r = host(reference);
  const double largest = max(abs(r)).item<double>();
  return max(abs(host(x) - r)).item<double>() / (largest > 0 ? largest : 1);
}

void check_error(const std::string& what, double error, double limit) {
  if (error <= limit) return;
  throw std::runtime_error(fmt::format(
      "{}: the largest relative error against f64 on the CPU is {:.1e}; expected at most {:.1e}",
      what, error, limit));
}

bool emulated(locus::Context c) { return locus::context_info(c).emulated; }

bool any_emulated(const std::vector<locus::Context>& list) {
  return std::any_of(list.begin(), list.end(), emulated);
}

std::string describe(locus::Context c) {
  return fmt::format("{}: {}{}", to_string(c), locus::context_info(c).name,
                     emulated(c) ? ", times modelled" : "");
}

#ifdef LOCUS_WITH_CUDA
bool tf32() { return locus::cuda::tf32(); }
void turn_on_tf32() { locus::cuda::set_tf32(true); }
#else
bool tf32() { return false; }
void turn_on_tf32() {
  throw std::runtime_error("--tf32 needs a build with CUDA (-DLOCUS_CUDA=ON)");
}
#endif

std::string precision() { return tf32() ? "f32, TF32 on" : "f32, TF32 off"; }

void Table::add(std::vector<std::string> row) {
  if (row.size() != header_.size())
    throw std::invalid_argument(
        fmt::format("a row of {} cells in a table of {}", row.size(), header_.size()));
  rows_.push_back(std::move(row));
}

namespace {

// Characters on the screen: bytes that do not continue a UTF-8 sequence.
size_t columns(const std::string& s) {
  return static_cast<size_t>(std::count_if(
      s.begin(), s.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

}  // namespace

std::string Table::aligned() const {
  std::vector<size_t> widths(header_.size(), 0);
  const auto widen = [&](const std::vector<std::string>& row) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], columns(row[i]));
  };
  widen(header_);
  for (const auto& row : rows_) widen(row);
  std::string s;
  const auto number = [&](size_t column) {
    return std::any_of(rows_.begin(), rows_.end(), [column](const std::vector<std::string>& row) {
      return !row[column].empty() && row[column][0] >= '0' && row[column][0] <= '9';
    });
  };
  const auto add_row = [&](const std::vector<std::string>& row) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string space(widths[i] - columns(row[i]), ' ');
      line += (i == 0 ? "" : "  ") + (number(i) ? space + row[i] : row[i] + space);
    }
    s += line.substr(0, line.find_last_not_of(' ') + 1) + '\n';
  };
  add_row(header_);
  for (size_t i = 0; i < widths.size(); ++i)
    s += (i == 0 ? "" : "  ") + std::string(widths[i], '-');
  s += '\n';
  for (const auto& row : rows_) add_row(row);
  return s;
}

std::string Table::csv() const {
  std::string s;
  const auto add_row = [&s](const std::vector<std::string>& row) {
    for (size_t i = 0; i < row.size(); ++i) {
      const bool quote = row[i].find_first_of(",\"\n") != std::string::npos;
      std::string cell = row[i];
      for (size_t at = 0; quote && (at = cell.find('"', at)) != std::string::npos; at += 2) {
        cell.insert(at, 1, '"');
      }
      s += (i == 0 ? "" : ",") + (quote ? '"' + cell + '"' : cell);
    }
    s += '\n';
  };
  add_row(header_);
  for (const auto& row : rows_) add_row(row);
  return s;
}

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
