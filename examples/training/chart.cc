#include "training/chart.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "common/svg.h"

namespace training {
namespace {

using namespace examples::svg;

constexpr double kWidth = 960, kPanelTop = 112, kPanelHeight = 250, kPanelWidth = 372;

// Epochs to the right, a value upwards.
Plot panel(double left, double width, double epochs, const Axis& y) {
  return Plot({left, kPanelTop, width, kPanelHeight}, {0, epochs}, y);
}

std::string epoch_ticks(const Plot& plot, double epochs) {
  const double step = std::max(1.0, std::ceil(epochs / 10));
  std::string s;
  for (double e = 0; e <= epochs; e += step) s += plot.tick_at(e, fmt::format("{:.0f}", e));
  return s + plot.title_below("epochs");
}

std::string heading(double x, double y, const std::string& s) {
  return text(x, y, s, {.size = 15, .weight = 600});
}

std::string loss_panel(const History& h, double epochs, double width) {
  double low = 1e9, high = 1e-9;
  Points train, test;
  const auto add = [&](auto& points, double epoch, double loss) {
    if (!(loss > 0) || !std::isfinite(loss)) return;
    points.emplace_back(epoch, loss);
    low = std::min(low, loss);
    high = std::max(high, loss);
  };
  for (const LossPoint& p : h.losses) add(train, p.epoch, p.loss);
  for (const Epoch& e : h.epochs) add(test, e.number, e.test_loss);
  if (low > high) low = 0.1, high = 1;
  low = std::max(low / 1.3, high * 1e-5);
  high *= 1.15;
  const Plot plot = panel(64, width, epochs, {low, high, true});
  const TextStyle named{.color = kBlue, .size = 12, .anchor = "end", .weight = 600};
  TextStyle pale = named;
  pale.color = "#5f8fdc";
  std::string s = heading(64, kPanelTop - 16, "Loss");
  s += text(64 + width - 54, kPanelTop - 16, "training", pale);
  s += text(64 + width, kPanelTop - 16, "test", named);
  const bool few = high / low > 300;  // one line per decade is enough
  for (double decade = 1e-6; decade < 1e6; decade *= 10) {
    for (const double m : {1.0, 2.0, 5.0}) {
      const double v = decade * m;
      if (v >= low && v <= high && !(few && m != 1)) s += plot.line_at(v, fmt::format("{:g}", v));
    }
  }
  return s + epoch_ticks(plot, epochs) +
         plot.curve(train, {.color = kPaleBlue, .width = 1.6, .dots = false}) +
         plot.curve(test, {});
}

std::string accuracy_panel(const History& h, double epochs) {
  constexpr double kLeft = 548;
  double lowest = 1, best = 0;
  Points points;
  for (const Epoch& e : h.epochs) {
    points.emplace_back(e.number, 100 * e.accuracy);
    lowest = std::min(lowest, e.accuracy);
    best = std::max(best, e.accuracy);
  }
  // Begins at a round number below the first epoch. Spans at least two points.
  const double span = std::max(2.0, 100 - 100 * lowest);
  const double step = span > 40 ? 20 : span > 20 ? 10 : span > 8 ? 5 : span > 4 ? 2 : 1;
  const double low = std::max(0.0, std::floor((100 - span - step / 4) / step) * step);
  const Plot plot = panel(kLeft, kPanelWidth, epochs, {low, 100});
  std::string s = heading(kLeft, kPanelTop - 16, "Test accuracy");
  for (double v = low; v <= 100; v += step) s += plot.line_at(v, fmt::format("{:g} %", v));
  s += epoch_ticks(plot, epochs) + plot.curve(points, {});
  if (!points.empty()) {
    const auto [e, v] = points.back();
    s += text(plot.x(e), plot.y(v) - 14, fmt::format("{:.2f} %", v),
              {.color = kBlue, .size = 15, .anchor = "end", .weight = 700, .halo = true});
  }
  return s;
}

}  // namespace

std::string chart(const History& h, const Strip& strip) {
  const double epochs = std::max<double>(1, static_cast<double>(h.epochs.size()));
  const bool accuracy = h.epochs.empty() || !std::isnan(h.epochs[0].accuracy);
  std::string s =
      text(64, 38, fmt::format("{} on {}", h.network, h.context), {.size = 19, .weight = 700});
  s += text(64, 58, h.data, {.color = kMuted});
  s += loss_panel(h, epochs, accuracy ? kPanelWidth : kWidth - 104);
  if (accuracy) s += accuracy_panel(h, epochs);
  constexpr double kBelow = kPanelTop + kPanelHeight + 68;
  if (strip.height == 0) return page(kWidth, kBelow, s);
  s += heading(64, kBelow + 10, strip.title);
  return page(kWidth, kBelow + 24 + strip.height,
              s + fmt::format("<g transform=\"translate(64 {})\">{}</g>", kBelow + 24, strip.body));
}

}  // namespace training
