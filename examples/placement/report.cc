#include "placement/report.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

using namespace locus;

namespace placement {
namespace {

std::string kib(size_t bytes) {
  return fmt::format("{:.1f} KiB", static_cast<double>(bytes) / 1024);
}
// In units of 2^bits bytes for people.
examples::Cell bytes_cell(size_t bytes, int bits, const char* as_people) {
  const double units = std::ldexp(static_cast<double>(bytes), -bits);
  return {fmt::format(fmt::runtime(as_people), units), fmt::format("{}", bytes)};
}

bool one_context(const Trial& r) { return changes(r.placement) == 0; }

// The first (fastest) result that holds, or null.
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
      "  {}: {:.3f} ms, {:.3f} ms more. Part by part its {} moves ({}) take {:.3f} ms, {:+.3f} ms "
      "against the best; its compute takes {:.3f} ms, {:+.3f} ms.\n",
      text(other.placement), other.step_ms, slower, other.moves(), kib(other.moved_bytes()),
      other.move_ms(), moves, other.compute_ms(), compute);
  if (moves + compute < slower / 2)
    return s +
           "  Part by part the two are closer than step by step: something else used the machine, "
           "or the order of the work matters. More --steps tell.\n";
  return s + (moves > compute ? "  The moves make the difference.\n"
                              : "  The compute makes the difference.\n");
}

}  // namespace

examples::Table make_table(const std::vector<Trial>& results) {
  std::vector<examples::Column> columns{{"rank", ""},
                                        "placement",
                                        {"step ms", "step_ms"},
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
    std::vector<examples::Cell> row{fmt::format("{}", ++rank),
                                    text(r.placement),
                                    examples::number_cell(r.step_ms, "{:.3f}"),
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
  std::string s = fmt::format("Best: {}, {:.3f} ms a step.\n", text(best.placement), best.step_ms);
  if (const Trial* r = first(results, [&](const Trial& x) {
        return &x != &best && one_context(x) != one_context(best);
      }))
    s += std::string(one_context(best) ? "The fastest that uses several contexts:\n"
                                       : "The fastest that uses one context:\n") +
         compare(best, *r);
  if (results.size() > 1 && &results.back() != &best)
    s += "The slowest:\n" + compare(best, results.back());
  s += "Layers one after the other never compute at the same time, so a second context is worth "
       "its moves only where it is faster, or where the memory of one is not enough.\n";
  return s;
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
