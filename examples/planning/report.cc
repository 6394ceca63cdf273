#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "common/measure.h"
#include "planning/study.h"

namespace planning {

using namespace locus;
using namespace examples;

namespace {

Cell mebibytes(double bytes) {
  return {fmt::format("{:.2f}", bytes / (1 << 20)), fmt::format("{:.0f}", bytes)};
}
double most(const std::vector<double>& v) { return v.empty() ? 0 : *std::ranges::max_element(v); }
std::string ms(double s) { return fmt::format("{:.3f} ms", s * 1e3); }
Cell ms_cell(double s) {
  return s > 0 ? Cell(fmt::format("{:.3f}", s * 1e3), fmt::format("{:.6g}", s)) : Cell("-", "");
}
Cell share(double part, double whole) {
  return {fmt::format("{:.0f}", 100 * part / whole), fmt::format("{:.6g}", part)};
}

// Explains the largest part of a step.
std::string why(const Prediction& p) {
  const std::string bound = p.bound();
  const double part = bound == "compute"  ? p.compute
                      : bound == "bubble" ? p.bubble
                      : bound == "link"   ? p.link
                                          : p.host;
  const char* meaning =
      bound == "compute" ? "the busiest context computes during this time"
      : bound == "bubble"
          ? "stages wait for each other; more microbatches or more equal stages help"
      : bound == "link" ? "contexts wait for copies between them"
                        : "contexts wait for the host to enqueue work; a compiled step helps";
  return fmt::format("Bound by {}, {:.0f} % of the predicted step: {}.", bound,
                     100 * part / p.seconds, meaning);
}

}  // namespace

Table table_of(const std::vector<Result>& results) {
  Table table({"kind",
               "plan",
               {"predicted ms", "predicted_seconds"},
               {"measured ms", "measured_seconds"},
               {"± ms", "spread_seconds"},
               {"error %", "error"},
               {"compute %", "compute_seconds"},
               {"bubble %", "bubble_seconds"},
               {"link %", "link_seconds"},
               {"host %", "host_seconds"},
               {"MiB", "held_bytes"},
               {"measured MiB", "measured_held_bytes"}});
  for (const Result& r : results) {
    const Prediction& p = r.predicted;
    const bool ran = r.measured > 0;
    table.add({p.layout.kind(), r.plan.summary(), ms_cell(p.seconds), ms_cell(r.measured),
               ms_cell(r.spread),
               ran ? Cell(fmt::format("{:+.1f}", std::round(1000 * r.error()) / 10 + 0.),
                          fmt::format("{:.5f}", r.error()))
                   : Cell(r.not_run, ""),
               share(p.compute, p.seconds), share(p.bubble, p.seconds), share(p.link, p.seconds),
               share(p.host, p.seconds), mebibytes(p.most_held()),
               ran ? mebibytes(most(r.held)) : Cell("-", "")},
              r.plan.contexts());
  }
  return table;
}

std::string explanation(const std::vector<Result>& results) {
  const Result& best = results[0];
  const Result* predicted = &best;
  const Result* one = nullptr;
  std::vector<double> errors;
  const Result* worst = nullptr;
  for (const Result& r : results) {
    if (r.predicted.seconds < predicted->predicted.seconds) predicted = &r;
    // Compares measured with measured.
    if (!one && r.plan.contexts().size() == 1 && (r.measured > 0) == (best.measured > 0)) one = &r;
    if (r.measured <= 0) continue;
    errors.push_back(std::abs(r.error()));
    if (!worst || errors.back() > std::abs(worst->error())) worst = &r;
  }
  std::string s =
      fmt::format("Best plan: {}, {} per step", best.plan.summary(), ms(best.seconds()));
  if (best.measured > 0)
    s += fmt::format(" ± {}, predicted {}", ms(best.spread), ms(best.predicted.seconds));
  if (one && one != &best)
    s += fmt::format("; {:.2f} times as fast as {}", one->seconds() / best.seconds(),
                     one->plan.summary());
  s += ".\n" + why(best.predicted) + "\n";
  if (!worst) return s + "No plan was run.\n";
  if (predicted == &best)
    s += "The prediction ranked this plan first, too.\n";
  else if (predicted->measured > 0)
    s += fmt::format("The prediction ranked {} first: {}, {:.1f} % slower than the best.\n",
                     predicted->plan.summary(), ms(predicted->measured),
                     100 * (predicted->measured / best.measured - 1));
  s += fmt::format("Error of the predictions: {:.1f} % in the median, at most {:.1f} % ({}).\n",
                   100 * median(errors), 100 * std::abs(worst->error()), worst->plan.summary());
  if (results.size() == errors.size()) return s;
  return s + fmt::format("{} not run.\n",
                         counted(static_cast<double>(results.size() - errors.size()), "plan"));
}

const Prediction* base_of(const std::vector<Prediction>& all) {
  const Prediction* base = nullptr;
  for (const Prediction& p : all)
    if (p.layout.devices() == 1 && (!base || p.seconds < base->seconds)) base = &p;
  return base;
}

Table table_of(const std::vector<Prediction>& all, int64_t batch, Context where) {
  const Prediction* const base = base_of(all);
  Table table({{"GPUs", "devices"},
               "kind",
               "plan",
               {"step ms", "seconds"},
               {"samples/s", "samples_per_second"},
               {"speed-up", "speed_up"},
               {"compute %", "compute_seconds"},
               {"bubble %", "bubble_seconds"},
               {"link %", "link_seconds"},
               {"host %", "host_seconds"},
               {"MiB per GPU", "held_bytes"}});
  for (const Prediction& p : all) {
    const double n = p.layout.devices();
    table.add({fmt::format("{:.0f}", n), p.layout.kind(), p.layout.summary(), ms_cell(p.seconds),
               count_cell(n * static_cast<double>(batch) / p.seconds),
               base ? number_cell(n * base->seconds / p.seconds, "{:.2f}") : Cell("-", ""),
               share(p.compute, p.seconds), share(p.bubble, p.seconds), share(p.link, p.seconds),
               share(p.host, p.seconds), mebibytes(p.most_held())},
              where);
  }
  return table;
}

std::string explanation(const std::vector<Prediction>& all, const Machine& machine, int64_t batch,
                        Context where) {
  const Prediction* best = nullptr;
  for (const Prediction& p : all)
    if (!best || p.layout.devices() > best->layout.devices()) best = &p;
  const double n = best->layout.devices();
  std::string s = fmt::format("On {}{}, with {} each: the best plan is {}, {} per step",
                              n == machine.devices() && n > 1 ? "all " : "", counted(n, "GPU"),
                              counted(static_cast<double>(batch), "sample"), best->layout.summary(),
                              ms(best->seconds));
  if (const Prediction* const base = base_of(all); base == best) {
    s += ". ";
  } else if (!base) {
    s += ". One GPU cannot hold the model, so there is no speed-up. ";
  } else {
    s += fmt::format(", {:.2f} times the samples per second of one GPU",
                     n * base->seconds / best->seconds);
    if (base->layout.microbatches > 1)
      s += fmt::format(", whose best plan is {} ({})", base->layout.summary(), ms(base->seconds));
    s += ". ";
    if (base->layout.microbatches > 1 && best->layout.stages() == 1 && best->layout.cut == 1)
      s += fmt::format("The whole batch in one piece computes for {}. ", ms(best->compute));
    if (std::ranges::any_of(all, [&](const Prediction& p) { return p.seconds < base->seconds; }))
      s +=
          "Some speed-ups exceed n: parts of layers on the samples of all GPUs take less time than "
          "whole layers on the samples of one. ";
  }
  s += why(*best);
  s += fmt::format(" The layers were timed on {}; a GPU of the machine computes them {}",
                   describe(where),
                   machine.compute > 0 ? fmt::format("{:g} times as fast", machine.compute)
                                       : std::string("as fast"));
  if (!real_gpu(where)) s += ". The time of its host to enqueue them is left out";
  if (n == 1) return s + ".";
  s += fmt::format(". Links have {:g} GB/s within a host", machine.nvlink);
  if (machine.hosts > 1) s += fmt::format(" and {:g} GB/s between hosts", machine.ib);
  return s + ", with the formulas of planning/cost.h.";
}

}  // namespace planning
