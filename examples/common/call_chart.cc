#include "common/call_chart.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "common/measure.h"
#include "common/svg.h"
#include "common/wrap.h"

namespace examples {

using namespace locus;

namespace {

constexpr double kWidth = 1200, kLeft = 40, kRight = 40;
constexpr double kBox = 34, kRow = 58;
constexpr double kLine = 19;     // of the list
constexpr size_t kListed = 100;  // the most calls listed
constexpr size_t kWrapped = 160,
                 kOperands = 38;  // characters of a line across the page, of operands

size_t at(int i) { return static_cast<size_t>(i); }
double seconds(double us) { return us * 1e-6; }

class Chart {
 public:
  explicit Chart(const Calls& calls)
      : calls_(calls), rows_(rows_of(calls)), when_(schedule(calls)), critical_(calls.size()) {
    for (const int i : when_.critical) critical_[at(i)] = true;
    for (size_t r = 0; r < rows_.size(); ++r)
      names_ = std::max(names_, 24 + 7 * static_cast<double>(row_name(rows_, r).size()));
    for (const CallRow& r : rows_)
      if (std::find(contexts_.begin(), contexts_.end(), r.context) == contexts_.end())
        contexts_.push_back(r.context);
    std::ranges::sort(contexts_, {}, [](Context c) { return to_string(c); });
  }

  std::string page(const std::string& title, const std::string& where) const {
    constexpr double kAxis = 46;
    std::string s = svg::text(kLeft, 38, title, {.size = 19, .weight = 700});
    const auto [about, height] =
        svg::paragraph(kLeft, 61, where + "\n" + summary(), kWrapped, svg::kMuted);
    s += about + legend(kLeft, 70 + height);
    const double top = height + 92, bottom = top + kRow * static_cast<double>(rows_.size());
    s += axis().grid(top, bottom);
    for (size_t r = 0; r < rows_.size(); ++r)
      s += svg::text(kLeft + names_ - 14, top + kRow * static_cast<double>(r) + kRow / 2 + 4,
                     row_name(rows_, r), {.anchor = "end"});
    for (const auto& [from, to] : needed_waits(calls_)) s += arrow(top, at(from), at(to));
    for (size_t i = 0; i < calls_.size(); ++i) s += box(top, i);
    const auto [listed, length] = list(bottom + kAxis);
    return svg::page(kWidth, bottom + kAxis + length + 12, s + listed);
  }

 private:
  svg::TimeAxis axis() const {
    return {kLeft + names_, kWidth - kRight - kLeft - names_, seconds(std::max(when_.end, 1.0))};
  }
  double top(double chart, size_t i) const {
    return chart + kRow * static_cast<double>(row_of(rows_, calls_[i])) + (kRow - kBox) / 2;
  }
  double end(size_t i) const { return when_.begin[i] + calls_[i].us; }

  // Calls off the critical path are paler.
  std::string color(size_t i) const {
    const auto c = std::find(contexts_.begin(), contexts_.end(), calls_[i].context);
    const std::string full =
        is_copy(calls_[i]) ? svg::kAmber : svg::palette(static_cast<size_t>(c - contexts_.begin()));
    return critical_[i] ? full : svg::paler(full);
  }

  std::string summary() const {
    const std::string calls = counted(static_cast<double>(calls_.size()), "call");
    const auto chain = when_.critical.size();
    const std::string sum = time_text(seconds(when_.sum));
    if (chain == calls_.size())
      return fmt::format("{}, {}: each waits for the one before. Each call was timed alone.", calls,
                         sum);
    return fmt::format(
        "{}, {} one after the other, {} in parallel. The {} calls on the critical path have full "
        "color. Each call was timed alone.",
        calls, sum, time_text(seconds(when_.end)), chain);
  }

  std::string legend(double x, double y) const {
    std::string s;
    const auto add = [&](const std::string& name, const std::string& color) {
      s += svg::key(x, y, name, color);
      x += svg::key_width(name);
    };
    for (size_t i = 0; i < contexts_.size(); ++i) add(to_string(contexts_[i]), svg::palette(i));
    if (std::any_of(calls_.begin(), calls_.end(), is_copy)) add("copies", svg::kAmber);
    return s;
  }

  std::string hint(size_t i) const {
    const CompiledCall& c = calls_[i];
    return fmt::format("{} {}: {}\n{}\n{} read and written{}", i, c.op, time_text(seconds(c.us)),
                       c.operands, si_text(static_cast<double>(c.bytes), "B"),
                       c.graph ? "\none CUDA graph with the rest of its part" : "");
  }

  // The number, the name and the time, as far as they fit.
  std::string box(double chart, size_t i) const {
    const double x = axis().x(seconds(when_.begin[i])), y = top(chart, i);
    const double length = axis().x(seconds(end(i))) - x;
    const double gap = length > 3 ? 1 : 0;  // separates neighbours
    const std::string fill = color(i), number = fmt::format("{}", i);
    std::string s = svg::rectangle({x, y, std::max(1.5, length - gap), kBox, fill, hint(i)});
    const auto fits = [&](const std::string& t, double margin) {
      return 7.3 * static_cast<double>(t.size()) + margin < length;
    };
    const double middle = x + (length - gap) / 2;
    const svg::TextStyle style{
        .color = svg::ink_on(fill), .size = 11, .anchor = "middle", .weight = 600};
    const std::string named = number + " " + calls_[i].op, time = time_text(seconds(calls_[i].us));
    if (!fits(number, 2)) return s;
    if (!fits(time, 2)) return s + svg::text(middle, y + 21, number, style);
    svg::TextStyle light = style;
    light.weight = 400;
    return s + svg::text(middle, y + 15, fits(named, 12) ? named : number, style) +
           svg::text(middle, y + 28, time, light);
  }

  std::string arrow(double chart, size_t from, size_t to) const {
    const double y1 = top(chart, from), y2 = top(chart, to);
    const double x1 = axis().x(seconds(end(from))), x2 = axis().x(seconds(when_.begin[to]));
    const double in = 3;  // from the boxes' corners
    const double left = axis().x(seconds(when_.begin[from])), right = axis().x(seconds(end(to)));
    const bool both = critical_[from] && critical_[to];
    return svg::arrow(std::max(x1 - in, (left + x1) / 2), y2 > y1 ? y1 + kBox : y1,
                      std::min(x2 + in, (x2 + right) / 2), y2 > y1 ? y2 : y2 + kBox,
                      both ? svg::kInk : svg::kMuted, both ? 1.6 : 1.1);
  }

  // Two columns of calls in order, with all operands. Lists the longest kListed calls.
  std::pair<std::string, double> list(double top) const {
    std::vector<size_t> shown(calls_.size());
    std::iota(shown.begin(), shown.end(), size_t{0});
    if (shown.size() > kListed) {
      std::stable_sort(shown.begin(), shown.end(),
                       [&](size_t a, size_t b) { return calls_[a].us > calls_[b].us; });
      shown.resize(kListed);
      std::sort(shown.begin(), shown.end());
    }
    std::vector<std::vector<std::string>> operands;
    size_t all = 0;  // lines
    for (const size_t i : shown)
      all += operands.emplace_back(wrapped(calls_[i].operands, kOperands)).size();
    constexpr double kColumn = (kWidth - kLeft - kRight + 40) / 2;
    std::string s;
    size_t line = 0, longest = 0;
    double x = kLeft;
    for (size_t k = 0; k < shown.size(); ++k) {
      if (x == kLeft && 2 * line >= all) x += kColumn, line = 0;
      s += entry(x, top + kLine * static_cast<double>(line) + 14, shown[k], operands[k]);
      longest = std::max(longest, line += operands[k].size());
    }
    const double below = top + kLine * static_cast<double>(longest) + 28;
    std::string note =
        "Each call: its time, the tensors it reads > the tensors it writes. f32(64,10)x2: two "
        "tensors of 64 x 10 numbers in f32. Calls of a row run one after the other. An arrow is a "
        "wait for another "
        "row.";
    if (shown.size() < calls_.size())
      note = fmt::format("The list shows the {} longest calls. ", kListed) + note;
    const auto [text, height] = svg::paragraph(kLeft, below, note, kWrapped, svg::kMuted);
    return {s + text, below - top + height};
  }

  std::string entry(double x, double y, size_t i, const std::vector<std::string>& operands) const {
    const CompiledCall& c = calls_[i];
    std::string s = svg::text(x + 24, y, fmt::format("{}", i),
                              {.color = svg::kMuted, .size = 12, .anchor = "end"}) +
                    svg::rectangle({x + 32, y - 9, 10, 10, color(i), hint(i)}) +
                    svg::text(x + 50, y, c.op, {.size = 12}) +
                    svg::text(x + 310, y, time_text(seconds(c.us)), {.size = 12, .anchor = "end"});
    for (const std::string& line : operands) {
      s += svg::text(x + 322, y, line, {.color = svg::kMuted, .size = 11});
      y += kLine;
    }
    return s;
  }

  const Calls& calls_;
  const std::vector<CallRow> rows_;
  const Schedule when_;
  std::vector<bool> critical_;
  std::vector<Context> contexts_;
  double names_ = 0;
};

}  // namespace

std::string call_chart(const std::string& title, const std::string& where, const Calls& calls) {
  return Chart(calls).page(title, where);
}

}  // namespace examples
