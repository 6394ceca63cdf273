#include "train_mlp/chart.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace train_mlp {
namespace {

constexpr const char* kInk = "#1f2937";
constexpr const char* kMuted = "#6b7280";
constexpr const char* kGrid = "#e5e7eb";
constexpr const char* kTrain = "#93b4e8";
constexpr const char* kTest = "#1d4ed8";
constexpr const char* kRight = "#047857";
constexpr const char* kWrong = "#dc2626";

constexpr double kWidth = 960, kPanelTop = 92, kPanelHeight = 250, kPanelWidth = 372;

std::string escaped(const std::string& s) {
  std::string out;
  for (const char c : s) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else
      out += c;
  }
  return out;
}

std::string label(double x, double y, const std::string& s, const char* color, int size,
                  const char* anchor = "start", const char* weight = "400") {
  return fmt::format(
      "<text x=\"{:.1f}\" y=\"{:.1f}\" fill=\"{}\" font-size=\"{}\" text-anchor=\"{}\" "
      "font-weight=\"{}\">{}</text>\n",
      x, y, color, size, anchor, weight, escaped(s));
}

// One pair of axes: epochs to the right, a value upwards, logarithmic when asked.
class Panel {
 public:
  Panel(double left, double epochs, double low, double high, bool logarithmic)
      : left_(left), epochs_(epochs), low_(low), high_(high), logarithmic_(logarithmic) {}

  double x(double epoch) const { return left_ + kPanelWidth * epoch / epochs_; }
  double y(double v) const {
    const double t =
        logarithmic_ ? std::log(v / low_) / std::log(high_ / low_) : (v - low_) / (high_ - low_);
    return kPanelTop + kPanelHeight * (1 - std::clamp(t, 0.0, 1.0));
  }

  std::string line_at(double v, const std::string& text) const {
    return fmt::format(
               "<line x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\"/>\n",
               left_, left_ + kPanelWidth, y(v), y(v), kGrid) +
           label(left_ - 8, y(v) + 4, text, kMuted, 12, "end");
  }
  std::string epoch_ticks() const {
    const double step = std::max(1.0, std::ceil(epochs_ / 10));
    std::string s;
    for (double e = 0; e <= epochs_; e += step) {
      s += label(x(e), kPanelTop + kPanelHeight + 20, fmt::format("{:.0f}", e), kMuted, 12,
                 "middle");
    }
    return s + label(left_ + kPanelWidth / 2, kPanelTop + kPanelHeight + 40, "epochs", kMuted, 12,
                     "middle");
  }

  std::string curve(const std::vector<std::pair<double, double>>& points, const char* color,
                    double width, bool dots) const {
    if (points.empty()) return "";
    std::string s = "<polyline fill=\"none\" stroke-linejoin=\"round\" points=\"";
    for (const auto& [e, v] : points) s += fmt::format("{:.1f},{:.1f} ", x(e), y(v));
    s += fmt::format("\" stroke=\"{}\" stroke-width=\"{}\"/>\n", color, width);
    if (!dots) return s;
    for (const auto& [e, v] : points) {
      s += fmt::format(
          "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\" fill=\"{}\" stroke=\"#fff\" "
          "stroke-width=\"1.5\"/>\n",
          x(e), y(v), color);
    }
    return s;
  }

 private:
  double left_, epochs_, low_, high_;
  bool logarithmic_;
};

std::string loss_panel(const History& h, double epochs) {
  double low = 1e9, high = 1e-9;
  std::vector<std::pair<double, double>> train, test;
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
  const Panel panel(64, epochs, low, high, true);
  std::string s = label(64, kPanelTop - 16, "Loss", kInk, 15, "start", "600");
  s += label(64 + kPanelWidth - 54, kPanelTop - 16, "training", "#5f8fdc", 12, "end", "600");
  s += label(64 + kPanelWidth, kPanelTop - 16, "test", kTest, 12, "end", "600");
  const bool few = high / low > 300;  // a decade a line is enough
  for (double decade = 1e-6; decade < 1e6; decade *= 10) {
    for (const double m : {1.0, 2.0, 5.0}) {
      const double v = decade * m;
      if (v >= low && v <= high && !(few && m != 1)) s += panel.line_at(v, fmt::format("{:g}", v));
    }
  }
  return s + panel.epoch_ticks() + panel.curve(train, kTrain, 1.6, false) +
         panel.curve(test, kTest, 2.4, true);
}

std::string accuracy_panel(const History& h, double epochs) {
  constexpr double kLeft = 548;
  double lowest = 1, best = 0;
  std::vector<std::pair<double, double>> points;
  for (const Epoch& e : h.epochs) {
    points.emplace_back(e.number, 100 * e.accuracy);
    lowest = std::min(lowest, e.accuracy);
    best = std::max(best, e.accuracy);
  }
  // From a round number below the first epoch, never a sliver: at least two points tall.
  const double span = std::max(2.0, 100 - 100 * lowest);
  const double step = span > 40 ? 20 : span > 20 ? 10 : span > 8 ? 5 : span > 4 ? 2 : 1;
  const double low = std::max(0.0, std::floor((100 - span - step / 4) / step) * step);
  const Panel panel(kLeft, epochs, low, 100, false);
  std::string s = label(kLeft, kPanelTop - 16, "Test accuracy", kInk, 15, "start", "600");
  for (double v = low; v <= 100; v += step) s += panel.line_at(v, fmt::format("{:g} %", v));
  s += panel.epoch_ticks() + panel.curve(points, kTest, 2.4, true);
  if (!points.empty()) {
    const auto [e, v] = points.back();
    const double y = panel.y(v) > kPanelTop + 30 ? panel.y(v) - 14 : panel.y(v) + 26;
    s += label(panel.x(e), y, fmt::format("{:.2f} %", v), kTest, 15, "end", "700");
  }
  return s;
}

// Ink in five levels, each one path of horizontal runs: small files, sharp at any size.
std::string digit(const std::vector<float>& image, double x, double y, double size) {
  std::string s = fmt::format(
      "<g transform=\"translate({:.1f} {:.1f}) scale({:.4f})\">"
      "<rect width=\"28\" height=\"28\" fill=\"#f3f4f6\" rx=\"2\"/>",
      x, y, size / 28);
  for (int level = 1; level <= 5; ++level) {
    std::string path;
    const auto at = [&](int r, int c) {
      return static_cast<int>(image[static_cast<size_t>(r * 28 + c)] * 5.49f) == level;
    };
    for (int r = 0; r < 28; ++r) {
      for (int c = 0; c < 28; ++c) {
        if (!at(r, c)) continue;
        const int start = c;
        while (c + 1 < 28 && at(r, c + 1)) ++c;
        path += fmt::format("M{} {}h{}v1h-{}z", start, r, c + 1 - start, c + 1 - start);
      }
    }
    if (!path.empty()) {
      s += fmt::format("<path fill=\"{}\" fill-opacity=\"{:.1f}\" d=\"{}\"/>", kInk, level / 5.0,
                       path);
    }
  }
  return s + "</g>\n";
}

std::string digit_strip(const History& h, double top) {
  constexpr double kSize = 58, kGap = 21.8;
  std::string s =
      label(64, top, "Test digits, and what the network says", kInk, 15, "start", "600");
  double x = 64;
  for (const Prediction& p : h.predictions) {
    const bool right = p.label == p.guess;
    s += digit(p.image, x, top + 14, kSize);
    s += label(x + kSize / 2, top + 14 + kSize + 18,
               right ? fmt::format("{}", p.guess) : fmt::format("{}, not {}", p.guess, p.label),
               right ? kRight : kWrong, 13, "middle", "700");
    s += label(x + kSize / 2, top + 14 + kSize + 34, fmt::format("{:.0f} %", 100 * p.confidence),
               kMuted, 11, "middle");
    x += kSize + kGap;
  }
  return s;
}

}  // namespace

std::string chart(const History& h) {
  const double height = h.predictions.empty() ? 410 : 540;
  const double epochs = std::max<double>(1, static_cast<double>(h.epochs.size()));
  std::string s = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" "
      "height=\"{1}\" font-family=\"Inter, 'Segoe UI', Helvetica, Arial, sans-serif\">\n"
      "<rect width=\"{0}\" height=\"{1}\" fill=\"#ffffff\"/>\n",
      kWidth, height);
  s += label(64, 38, fmt::format("{} on {}", h.network, h.context), kInk, 19, "start", "700");
  s += label(kWidth - 40, 38, h.data, kMuted, 13, "end");
  s += loss_panel(h, epochs) + accuracy_panel(h, epochs);
  if (!h.predictions.empty()) s += digit_strip(h, 420);
  return s + "</svg>\n";
}

}  // namespace train_mlp
