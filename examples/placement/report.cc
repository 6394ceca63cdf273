#include "placement/report.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "common/measure.h"

using namespace locus;

namespace placement {
namespace {

std::string kib(size_t bytes) {
  return fmt::format("{:.1f} KiB", static_cast<double>(bytes) / 1024);
}
// In print, in units of 2^bits bytes.
examples::Cell bytes_cell(size_t bytes, int bits, const char* as_people) {
  const double units = std::ldexp(static_cast<double>(bytes), -bits);
  return {fmt::format(fmt::runtime(as_people), units), fmt::format("{}", bytes)};
}

bool one_context(const Trial& r) { return changes(r.placement) == 0; }

// The first (fastest) result for which `holds`, or null.
template <class F>
const Trial* first(const std::vector<Trial>& results, F&& holds) {
  const auto it = std::find_if(results.begin(), results.end(), holds);
  return it == results.end() ? nullptr : &*it;
}

std::string compare(const Trial& best, const Trial& other) {
  const double slower = other.step_ms - best.step_ms;
  const double moves = other.move_ms() - best.move_ms();
  const double compute = other.compute_ms() - best.compute_ms();
  std::string s = fmt::format(
      "  {}: {:.3f} ms, {:.3f} ms more. With parts timed alone, its {} ({}) take {:.3f} ms, "
      "{:+.3f} "
      "ms against the fastest; its compute takes {:.3f} ms, {:+.3f} ms.\n",
      text(other.placement), other.step_ms, slower, examples::counted(other.moves(), "move"),
      kib(other.moved_bytes()), other.move_ms(), moves, other.compute_ms(), compute);
  if (moves + compute < slower / 2)
    return s +
           "  The parts differ less than the whole steps: the machine was busy, or the order of "
           "the "
           "work matters. Try more --steps.\n";
  return s + (moves > compute ? "  The difference comes from the moves.\n"
                              : "  The difference comes from the compute.\n");
}

std::string nothing_compared(const Trial& only) {
  const bool choice = num_gpus() > 0;
  return fmt::format("One placement, {}, {:.3f} ms per step: nothing to compare. {}\n",
                     text(only.placement), only.step_ms,
                     choice
                         ? "Name several --contexts, or a larger --limit."
                         : "Give several --contexts. Without GPUs, LOCUS_EMULATED_GPUS=2 "
                           "LOCUS_EMULATED_LINK=\"h2d=55,d2h=55,peer=395,latency_us=8\" emulates "
                           "two with modelled times.");
}

// The fastest placement, and those within its spread.
std::string best_text(const std::vector<Trial>& results) {
  const Trial& best = results.front();
  std::string s = fmt::format("The fastest: {}, {:.3f} ± {:.3f} ms per step.\n",
                              text(best.placement), best.step_ms, best.spread_ms);
  int ties = 0;
  const Trial* simplest = &best;
  double spread = 0;
  for (const Trial& r : results) {
    if (!tied(r, best)) continue;
    ++ties;
    spread = std::max(spread, r.spread_ms);
    if (r.moves() < simplest->moves()) simplest = &r;
  }
  if (ties == 1) return s;
  return s + fmt::format(
                 "{} placements tie within their spreads, at most ± {:.3f} ms. The one with the "
                 "fewest moves is {}, {:.3f} ms with {}.\n",
                 ties, spread, text(simplest->placement), simplest->step_ms,
                 examples::counted(simplest->moves(), "move"));
}

// Compiled steps, and the placements that cannot be compiled.
std::string compiled_text(const std::vector<Trial>& results) {
  std::string s;
  if (const Trial* best = fastest_compiled(results))
    s = fmt::format(
        "Compiled, the fastest is {}: {:.3f} ms per step instead of {:.3f} ms{}, with the same "
        "bits in the losses.\n",
        text(best->placement), *best->compiled_ms, best->step_ms,
        std::abs(best->step_ms - *best->compiled_ms) <= best->spread_ms ? " (within its spread)"
                                                                        : "");
  const auto count =
      std::count_if(results.begin(), results.end(), [](const Trial& r) { return !r.compiled_ms; });
  if (const Trial* r = first(results, [](const Trial& x) { return !x.compiled_ms; }))
    s += fmt::format("{} cannot be compiled, such as {}: {}.\n",
                     examples::counted(static_cast<double>(count), "placement"), text(r->placement),
                     r->not_compiled);
  return s;
}

}  // namespace

const Trial* fastest_compiled(const std::vector<Trial>& results, int least_changes) {
  const Trial* best = nullptr;
  for (const Trial& r : results)
    if (r.compiled_ms && changes(r.placement) >= least_changes &&
        (!best || *r.compiled_ms < *best->compiled_ms))
      best = &r;
  return best;
}

examples::Table make_table(const std::vector<Trial>& results) {
  std::vector<examples::Column> columns{{"rank", ""},
                                        "placement",
                                        {"step ms", "step_ms"},
                                        {"± ms", "spread_ms"},
                                        {"compiled ms", "compiled_ms"},
                                        {"compute ms", "compute_ms"},
                                        {"moves ms", "moves_ms"},
                                        "moves",
                                        {"moved KiB", "moved_bytes"}};
  for (const Memory& m : results[0].memory) {
    const std::string c = to_string(m.context);
    columns.emplace_back(c + " MiB", "peak_bytes " + c);
  }
  examples::Table table(columns);
  int rank = 0;
  for (const Trial& r : results) {
    std::vector<examples::Cell> row{
        fmt::format("{}", ++rank),
        text(r.placement),
        examples::number_cell(r.step_ms, "{:.3f}"),
        examples::number_cell(r.spread_ms, "{:.3f}"),
        r.compiled_ms ? examples::number_cell(*r.compiled_ms, "{:.3f}") : examples::Cell("-", ""),
        examples::number_cell(r.compute_ms(), "{:.3f}"),
        examples::number_cell(r.move_ms(), "{:.3f}"),
        fmt::format("{}", r.moves()),
        bytes_cell(r.moved_bytes(), 10, "{:.1f}")};
    for (const Memory& m : r.memory) row.push_back(bytes_cell(m.bytes, 20, "{:.2f}"));
    table.add(row, r.placement);
  }
  return table;
}

std::string explanation(const std::vector<Trial>& results) {
  const Trial& best = results.front();
  if (results.size() == 1) return nothing_compared(best) + compiled_text(results);
  std::string s =
      "cpu(0) x2 > gpu(0): two layers on cpu(0), then one on gpu(0).\n" + best_text(results);
  const auto against = [&](const char* title, const Trial& r) {
    if (tied(r, best)) {
      s += fmt::format("{}: {}, {:.3f} ± {:.3f} ms, within the spread of the fastest.\n", title,
                       text(r.placement), r.step_ms, r.spread_ms);
    } else {
      s += std::string(title) + ":\n" + compare(best, r);
    }
  };
  if (const Trial* r = first(results, [&](const Trial& x) {
        return &x != &best && one_context(x) != one_context(best);
      }))
    against(one_context(best) ? "The fastest that uses several contexts"
                              : "The fastest that uses one context",
            *r);
  against("The slowest", results.back());
  s += compiled_text(results);
  return s +
         "The layers compute one after the other, so a second context is worth its moves only if "
         "it "
         "is faster, or if the memory of one is not enough.\n";
}

std::string timeline_csv(const Trial& result) {
  std::string s = "part,from,on,start_ms,ms,bytes\n";
  double at = 0;
  for (const Part& p : result.parts) {
    s += fmt::format("{},{},{},{:.6f},{:.6f},{}\n", p.name, to_string(p.from), to_string(p.where),
                     at, p.ms, p.bytes);
    at += p.ms;
  }
  return s;
}

}  // namespace placement
