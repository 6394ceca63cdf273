#include "placement/report.h"

#include <algorithm>

#include <fmt/format.h>

using namespace locus;

namespace placement {
namespace {

std::string kib(size_t bytes) {
  return fmt::format("{:.1f} KiB", static_cast<double>(bytes) / 1024);
}
double mib(size_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

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
           "or "
           "the order of the work matters. More --steps tell.\n";
  return s + (moves > compute ? "  The moves make the difference.\n"
                              : "  The compute makes the difference.\n");
}

}  // namespace

std::string describe(Context c) {
  const ContextInfo info = context_info(c);
  if (!info.emulated) return fmt::format("{}: {}", to_string(c), info.name);
  return fmt::format("{}: emulated on the CPU, {}", to_string(c),
                     info.modelled ? "its times modelled by LOCUS_EMULATED_LINK"
                                   : "no link model (set LOCUS_EMULATED_LINK)");
}

std::string table(const std::vector<Trial>& results) {
  size_t width = 9;
  for (const Trial& r : results) width = std::max(width, text(r.placement).size());
  std::string s = fmt::format("{:>4}  {:<{}}  {:>9} {:>11} {:>9} {:>6} {:>11}", "", "placement",
                              width, "step ms", "compute ms", "moves ms", "moves", "moved KiB");
  for (const Memory& m : results[0].memory)
    s += fmt::format(" {:>14}", to_string(m.context) + " MiB");
  s += "\n";
  int rank = 0;
  for (const Trial& r : results) {
    s += fmt::format("{:>4}  {:<{}}  {:>9.3f} {:>11.3f} {:>9.3f} {:>6} {:>11.1f}", ++rank,
                     text(r.placement), width, r.step_ms, r.compute_ms(), r.move_ms(), r.moves(),
                     static_cast<double>(r.moved_bytes()) / 1024);
    for (const Memory& m : r.memory) s += fmt::format(" {:>14.2f}", mib(m.bytes));
    s += "\n";
  }
  return s;
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

std::string csv(const std::vector<Trial>& results) {
  std::string s = "placement,step_ms,compute_ms,moves_ms,moves,moved_bytes";
  for (const Memory& m : results[0].memory) s += ",peak_bytes " + to_string(m.context);
  s += ",modelled\n";
  for (const Trial& r : results) {
    bool modelled = false;
    for (const Context& c : r.placement) modelled = modelled || context_info(c).modelled;
    s += fmt::format("{},{:.6f},{:.6f},{:.6f},{},{}", text(r.placement), r.step_ms, r.compute_ms(),
                     r.move_ms(), r.moves(), r.moved_bytes());
    for (const Memory& m : r.memory) s += fmt::format(",{}", m.bytes);
    s += modelled ? ",yes\n" : ",no\n";
  }
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
