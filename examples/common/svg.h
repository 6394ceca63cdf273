// SVG fragments: text, plots with axes, bars, timelines. page() makes a document of fragments.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace examples::svg {

inline constexpr const char* kInk = "#1f2937";
inline constexpr const char* kMuted = "#6b7280";
inline constexpr const char* kGrid = "#e5e7eb";
inline constexpr const char* kBlue = "#1d4ed8";
inline constexpr const char* kPaleBlue = "#93b4e8";
inline constexpr const char* kGreen = "#047857";
inline constexpr const char* kRed = "#dc2626";
inline constexpr const char* kAmber = "#b45309";
// Colors for items of one kind, such as contexts. palette() repeats them.
inline constexpr const char* kPalette[] = {"#64748b", "#0f766e", "#7c3aed", "#be185d",
                                           "#4d7c0f", "#0e7490", "#9a3412", "#334155"};
const char* palette(size_t i);

struct TextStyle {
  const char* color = kInk;
  int size = 13;
  const char* anchor = "start";  // start, middle, end
  int weight = 400;
  bool halo = false;  // a white edge, for text on lines
};
std::string text(double x, double y, const std::string& s, const TextStyle& style = {});
std::string line(double x1, double y1, double x2, double y2, const std::string& color,
                 double width = 1);

// A curve with vertical ends.
std::string arrow(double x1, double y1, double x2, double y2, const std::string& color,
                  double width = 1);

struct Rectangle {
  double x = 0, y = 0, width = 0, height = 0;
  std::string color;
  std::string hint = {};  // tooltip
};
std::string rectangle(const Rectangle& r);

// A lighter shade of `color`, which is "#rrggbb".
std::string paler(const std::string& color);
// White or kInk: the readable one on `color`.
const char* ink_on(const std::string& color);

struct Axis {
  double low = 0, high = 1;
  bool logarithmic = false;

  double position(double v) const;  // 0 at low, 1 at high, clamped
};

using Points = std::vector<std::pair<double, double>>;

// A pair of axes in a box of the page.
class Plot {
 public:
  struct Box {
    double left = 0, top = 0, width = 0, height = 0;
  };
  Plot(const Box& box, const Axis& x, const Axis& y) : box_(box), x_(x), y_(y) {}

  double x(double v) const { return box_.left + box_.width * x_.position(v); }
  double y(double v) const { return box_.top + box_.height * (1 - y_.position(v)); }

  std::string line_at(double v, const std::string& label) const;  // a grid line, label at left
  std::string tick_at(double v, const std::string& label) const;  // below the box
  std::string title_below(const std::string& s) const;
  struct CurveStyle {
    const char* color = kBlue;
    double width = 2.4;
    bool dots = true;
    bool dashed = false;
  };
  std::string curve(const Points& points, const CurveStyle& style) const;

 private:
  Box box_;
  Axis x_, y_;
};

// A legend entry: a short piece of a curve and its name.
std::string key(double x, double y, const std::string& name, const Plot::CurveStyle& style);
// A legend entry: a square of the color and its name. key_width() includes a gap after the entry.
std::string key(double x, double y, const std::string& name, const std::string& color);
double key_width(const std::string& name);

// Horizontal bars, one per row, each with its name at the left and its label at the right.
struct Bar {
  std::string name;
  double value = 0;
  std::string label;
  const char* color = kBlue;
};
inline constexpr double kBarRow = 34, kBarTicks = 24;
// `names`: the part of `width` for names. If logarithmic, values are seconds above 0, bars start at
// a power of ten below the least value, and ticks are drawn below in kBarTicks.
std::string bars(double left, double top, double width, double names, const std::vector<Bar>& list,
                 bool logarithmic = false);

// Seconds to the right, from 0 at the left edge.
class TimeAxis {
 public:
  TimeAxis(double left, double width, double seconds)
      : left_(left), width_(width), seconds_(seconds) {}
  double x(double t) const;  // clamped
  bool clips(double t) const { return t > seconds_; }
  std::string grid(double top, double bottom) const;  // lines and their times below

 private:
  double left_, width_, seconds_;
};

// A line from low to high. If `high` is beyond the axis, an arrowhead ends the line there. Also
// returns where it ends.
std::pair<std::string, double> spread(const TimeAxis& axis, double low, double high, double y);
// The end of an axis for times of up to `longest`. Spreads lengthen it by at most 30 %, so that one
// wide spread does not squeeze all bars.
double end_with_spreads(double longest, double longest_with_spread);

// A row of spans per name. A label is drawn in its span if it fits, else after the span if there is
// space.
struct Span {
  int row = 0;
  double begin = 0, end = 0;
  std::string label;
  std::string color = kBlue;
  std::string hint = {};  // tooltip
};
std::string timeline(double left, double top, double width, double names,
                     const std::vector<std::string>& rows, const std::vector<Span>& spans,
                     double seconds);

// Text wrapped at about `columns` characters, and its height.
std::pair<std::string, double> paragraph(double left, double top, const std::string& s,
                                         size_t columns = 120, const char* color = kInk);

std::string page(double width, double height, const std::string& body);

// A page with a title, a subtitle of at most two lines, a body of the given height, and an
// explanation below.
struct Figure {
  std::string title, subtitle, body, explanation;
  double width = 960, top = 84, height = 300;
};
std::string figure(const Figure& f);

}  // namespace examples::svg
