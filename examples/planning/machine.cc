#include "planning/machine.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <locus/core/error.h>

#include "common/measure.h"
#include "planning/candidates.h"

namespace planning {

using namespace locus;

namespace {

struct Known {
  const char* name;
  double memory;  // GB
};
constexpr Known kKnown[] = {{"h200", 141}, {"h100", 80}, {"a100", 80}, {"b200", 180}, {"l40s", 48}};

}  // namespace

Machine Machine::parse(const std::string& text) {
  const auto refuse = [&](const auto&... what) {
    throw FormatError("machine \"", text, "\": ", what...);
  };
  Machine m;
  const size_t comma = std::min(text.find(','), text.size());
  const std::string head(trimmed(std::string_view(text).substr(0, comma)));
  const size_t cross = head.find('x'), space = head.find(' ');
  const auto hosts = number_in<int>(head.substr(0, cross));
  const auto each = cross < space && space != head.npos
                        ? number_in<int>(head.substr(cross + 1, space - cross - 1))
                        : std::nullopt;
  constexpr int kMost = 1 << 20;
  if (!hosts || !each || *hosts < 1 || *each < 1 || *hosts > kMost || *each > kMost / *hosts)
    refuse("\"", head,
           "\"; expected hosts x GPUs of each and their name, as in \"8x8 h200\", up to ", kMost,
           " GPUs");
  m.hosts = *hosts;
  m.gpus = *each;
  m.name = trimmed(std::string_view(head).substr(space));
  for (const Known& k : kKnown)
    if (m.name == k.name) m.memory = k.memory;
  std::vector<std::string> given;
  for (size_t at = comma; at < text.size();) {
    const size_t end = std::min(text.find(',', at + 1), text.size());
    const std::string entry(trimmed(std::string_view(text).substr(at + 1, end - at - 1)));
    at = end;
    const std::string key = entry.substr(0, entry.find(' '));
    double* const field = key == "nvlink"       ? &m.nvlink
                          : key == "ib"         ? &m.ib
                          : key == "latency"    ? &m.latency
                          : key == "ib_latency" ? &m.ib_latency
                          : key == "memory"     ? &m.memory
                          : key == "compute"    ? &m.compute
                                                : nullptr;
    if (!field)
      refuse("\"", entry,
             "\"; expected nvlink or ib (GB/s), latency or ib_latency (µs), memory (GB) or "
             "compute (times as fast as here), and a number");
    if (std::ranges::find(given, key) != given.end())
      refuse("\"", entry, "\": ", key, " is given twice; expected each once");
    given.push_back(key);
    const std::string number(trimmed(std::string_view(entry).substr(key.size())));
    const auto v = number_in<double>(number);
    const bool time = field == &m.latency || field == &m.ib_latency;
    if (!v || !(*v >= (time ? 0 : 1e-3) && *v <= 1e6))
      refuse(key, " \"", number, "\"; expected a number from ", time ? "0" : "0.001", " to 1e6");
    *field = *v;
  }
  if (m.memory == 0)
    refuse("the memory of \"", m.name,
           "\" is not known; expected it behind a comma, as in \"memory "
           "141\" (GB), or h200, h100, a100, b200 or l40s");
  return m;
}

std::string Machine::compute_text(Context where) const {
  return text_of("computed with layer times of ", where) +
         (compute > 0 ? text_of(", ", compute, " times as fast") : "");
}

void Machine::check_timed_on(Context where) const {
  if (compute > 0 || examples::real_gpu(where)) return;
  throw FormatError("layers are timed on ", where, ", which computes at another rate than ", name,
                    "; expected \", compute N\" at the end: how many times as fast as ", where,
                    " one ", name, " computes a layer");
}

double sum_seconds(int n, double bytes, double rate, double latency) {
  if (n < 2) return 0;
  return std::min({2 * (n - 1) * (latency + bytes / n / rate), latency + (n - 1) * bytes / rate,
                   2 * std::ceil(std::log2(n)) * (latency + bytes / rate)});
}

double FormulaLinks::copy(int from, int to, double bytes) const {
  const bool within = from / machine_.gpus == to / machine_.gpus;
  return within ? machine_.latency * 1e-6 + bytes / (machine_.nvlink * 1e9)
                : machine_.ib_latency * 1e-6 + bytes / (machine_.ib * 1e9);
}

double FormulaLinks::sum(int first, int stride, int n, const std::vector<double>& tensors) const {
  const double bytes = std::accumulate(tensors.begin(), tensors.end(), 0.);
  // How many of the n are on the first one's host.
  const int here = std::clamp((machine_.gpus - first % machine_.gpus + stride - 1) / stride, 1, n);
  const int hosts = (n + here - 1) / here;
  const double within = machine_.nvlink * 1e9, latency = machine_.latency * 1e-6;
  if (hosts == 1) return sum_seconds(n, bytes, within, latency);
  return (here > 1 ? 2 * (latency + (here - 1) * bytes / here / within) : 0) +
         sum_seconds(hosts, bytes / here, machine_.ib * 1e9, machine_.ib_latency * 1e-6);
}

std::vector<Prediction> simulate(const ModelCost& model, const Machine& machine, int64_t batch) {
  const FormulaLinks links(machine);
  ModelCost apart = model;
  apart.serial = false;  // each device computes by itself
  std::vector<Prediction> all;
  for (const int n : counts(machine.devices())) {
    std::vector<Prediction> best;  // of each kind
    for (const Layout& l : candidates(apart, n, batch * n)) {
      Prediction p = predict(l, apart, links, batch * n);
      if (p.most_held() > machine.memory * 1e9) continue;
      const auto same = [&](const Prediction& b) {
        return std::string(b.layout.kind()) == p.layout.kind();
      };
      const auto it = std::ranges::find_if(best, same);
      if (it == best.end())
        best.push_back(std::move(p));
      else if (p.seconds < it->seconds)
        *it = std::move(p);
    }
    std::ranges::sort(best, {}, &Prediction::seconds);
    std::ranges::move(best, std::back_inserter(all));
  }
  return all;
}

}  // namespace planning
