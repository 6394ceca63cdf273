// Pieces of SVG pictures: text, plots with axes, bars, timelines, and the page around them. Every
// function returns a fragment; page() makes a document of them.
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
// Colors for things of one kind: contexts, say. Beyond these they repeat.
inline constexpr const char* kPalette[] = {"#64748b", "#0f766e", "#7c3aed", "#be185d",
                                           "#4d7c0f", "#0e7490", "#9a3412", "#334155"};
const char* palette(size_t i);

struct TextStyle {
  const char* color = kInk;
  int size = 13;
  const char* anchor = "start";  // start, middle, end
  int weight = 400;
  bool halo = false;  // a white edge, for text that stands on lines
};
std::string text(double x, double y, const std::string& s, const TextStyle& style = {});
std::string line(double x1, double y1, double x2, double y2, const std::string& color,
                 double width = 1);

// From one point to another, leaving and arriving upright.
std::string arrow(double x1, double y1, double x2, double y2, const std::string& color,
                  double width = 1);

struct Rectangle {
  double x = 0, y = 0, width = 0, height = 0;
  std::string color;
  std::string hint = {};  // shown where the pointer rests on it
};
std::string rectangle(const Rectangle& r);

// The same hue, nearer to white: for what belongs to `color` and is less. Colors are "#rrggbb".
std::string paler(const std::string& color);
// White or kInk: which of them can be read on `color`.
const char* ink_on(const std::string& color);

// One direction of a plot.
struct Axis {
  double low = 0, high = 1;
  bool logarithmic = false;

  double position(double v) const;  // 0 at low, 1 at high, cut off beyond
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

  std::string line_at(double v, const std::string& label) const;  // a grid line, named at its left
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

// A curve's name beside a short piece of it.
std::string key(double x, double y, const std::string& name, const Plot::CurveStyle& style);
// What a color stands for: a square of it and the name. The width it takes, with a gap behind it.
std::string key(double x, double y, const std::string& name, const std::string& color);
double key_width(const std::string& name);

// Horizontal bars, one a row, each with its name at the left and its value behind it.
struct Bar {
  std::string name;
  double value = 0;
  std::string label;
  const char* color = kBlue;
};
inline constexpr double kBarRow = 34, kBarTicks = 24;
// `names`: the room for the names, of `width`. Logarithmic: the values are seconds above zero, the
// bars start at a power of ten below the least of them, and powers of ten stand below in kBarTicks.
std::string bars(double left, double top, double width, double names, const std::vector<Bar>& list,
                 bool logarithmic = false);

// Seconds to the right, from 0 at the left edge.
class TimeAxis {
 public:
  TimeAxis(double left, double width, double seconds)
      : left_(left), width_(width), seconds_(seconds) {}
  double x(double t) const;                           // cut off beyond
  std::string grid(double top, double bottom) const;  // lines, with their times below

 private:
  double left_, width_, seconds_;
};

// What happened when: a row each. A label is drawn in its span, where that is wide enough, else
// behind it, where nothing follows so soon.
struct Span {
  int row = 0;
  double begin = 0, end = 0;
  std::string label;
  std::string color = kBlue;
  std::string hint = {};  // shown where the pointer rests on it
};
std::string timeline(double left, double top, double width, double names,
                     const std::vector<std::string>& rows, const std::vector<Span>& spans,
                     double seconds);

// Lines of explanation, wrapped at about `columns` characters, and the height they take.
std::pair<std::string, double> paragraph(double left, double top, const std::string& s,
                                         size_t columns = 120, const char* color = kInk);

std::string page(double width, double height, const std::string& body);

// A page of one part: title, subtitle (at most two lines), the part of this height, and the
// explanation below it.
struct Figure {
  std::string title, subtitle, body, explanation;
  double width = 960, top = 84, height = 300;
};
std::string figure(const Figure& f);

}  // namespace examples::svg
