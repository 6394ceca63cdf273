#include "training/digits.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <numbers>
#include <optional>
#include <vector>

#include <locus/core/cluster.h>
#include <locus/ops/create.h>

#include "common/command.h"
#include "training/random.h"

namespace training {
namespace {

constexpr int kSide = 28;

struct Point {
  double x, y;
};
using Stroke = std::vector<Point>;

// Control points of smooth curves in a box of width and height 2, y downwards. Digits such as 1, 4
// and 7 have several shapes.
const std::vector<std::vector<std::vector<Stroke>>> kDigits = {
    {{{{0.1, -1}, {-.6, -.6}, {-.7, .2}, {-.3, .9}, {.3, .9}, {.7, .2}, {.6, -.6}, {0.05, -1}}}},
    {{{{0, -1}, {0, 0}, {0, 1}}}, {{{-.4, -.55}, {0, -1}}, {{0, -1}, {.02, 0}, {0, 1}}}},
    {{{{-.6, -.5}, {-.2, -1}, {.5, -.8}, {.4, -.1}, {-.2, .5}, {-.65, .95}},
      {{-.65, .95}, {0, .9}, {.7, .95}}},
     {{{-.55, -.6}, {0, -1}, {.5, -.5}, {.1, .2}, {-.5, .8}, {-.3, .95}, {-.1, .7}, {.7, .95}}}},
    {{{{-.55, -.75}, {0, -1}, {.5, -.6}, {.1, -.1}, {-.15, -.05}},
      {{-.15, -.05}, {.45, .1}, {.55, .6}, {0, 1}, {-.6, .7}}}},
    {{{{-.1, -1}, {-.6, .2}}, {{-.6, .2}, {0, .22}, {.7, .15}}, {{.35, -.5}, {.3, .3}, {.28, 1}}},
     {{{.3, -1}, {-.2, -.4}, {-.65, .3}}, {{-.65, .3}, {.7, .3}}, {{.3, -1}, {.3, 1}}}},
    {{{{.55, -.95}, {-.4, -.95}},
      {{-.4, -.95}, {-.5, -.2}},
      {{-.5, -.2}, {.1, -.3}, {.6, .2}, {.3, .9}, {-.2, 1}, {-.6, .75}}}},
    {{{{.4, -1}, {-.2, -.5}, {-.6, .3}, {-.3, .95}, {.3, .9}, {.5, .4}, {.1, .05}, {-.5, .4}}}},
    {{{{-.6, -.9}, {.6, -.95}}, {{.6, -.95}, {.1, 0}, {-.15, 1}}},
     {{{-.6, -.7}, {-.5, -.9}, {.6, -.95}}, {{.6, -.95}, {0, 1}}, {{-.3, 0}, {.45, -.05}}}},
    {{{{.4, -.75},
       {-.1, -1},
       {-.5, -.6},
       {0, -.1},
       {.5, .5},
       {0, 1},
       {-.5, .55},
       {0, -.05},
       {.45, -.5},
       {.35, -.8}}}},
    {{{{.45, -.5}, {.1, -1}, {-.45, -.7}, {-.35, -.15}, {.2, -.15}, {.45, -.6}},
      {{.45, -.6}, {.45, .2}, {.25, 1}}},
     {{{.45, -.5}, {.1, -1}, {-.45, -.7}, {-.35, -.15}, {.2, -.15}, {.45, -.6}},
      {{.45, -.6}, {.5, .3}, {.1, 1}, {-.4, .8}}}},
};

// A Catmull-Rom curve through the points, as short segments.
Stroke smooth(const Stroke& p) {
  Stroke out;
  const int n = static_cast<int>(p.size());
  const auto at = [&](int i) { return p[static_cast<size_t>(std::clamp(i, 0, n - 1))]; };
  constexpr int kSteps = 5;
  for (int i = 0; i + 1 < n; ++i) {
    for (int k = 0; k < kSteps; ++k) {
      const double t = static_cast<double>(k) / kSteps;
      const auto mix = [t](double a, double b, double c, double d) {
        return b + 0.5 * t * (c - a + t * (2 * a - 5 * b + 4 * c - d + t * (3 * (b - c) + d - a)));
      };
      const Point a = at(i - 1), b = at(i), c = at(i + 1), d = at(i + 2);
      out.push_back({mix(a.x, b.x, c.x, d.x), mix(a.y, b.y, c.y, d.y)});
    }
  }
  out.push_back(p.back());
  return out;
}

void draw_segment(Point a, Point b, double radius, float* image) {
  const double reach = radius + 1;
  const int x0 = std::max(0, static_cast<int>(std::min(a.x, b.x) - reach));
  const int x1 = std::min(kSide - 1, static_cast<int>(std::max(a.x, b.x) + reach) + 1);
  const int y0 = std::max(0, static_cast<int>(std::min(a.y, b.y) - reach));
  const int y1 = std::min(kSide - 1, static_cast<int>(std::max(a.y, b.y) + reach) + 1);
  const double dx = b.x - a.x, dy = b.y - a.y, length2 = std::max(dx * dx + dy * dy, 1e-12);
  for (int y = y0; y <= y1; ++y) {
    for (int x = x0; x <= x1; ++x) {
      const double t = std::clamp(((x - a.x) * dx + (y - a.y) * dy) / length2, 0.0, 1.0);
      const double ex = x - a.x - t * dx, ey = y - a.y - t * dy;
      const double ink = std::clamp(radius + 0.5 - std::sqrt(ex * ex + ey * ey), 0.0, 1.0);
      float& pixel = image[y * kSide + x];
      pixel = std::max(pixel, static_cast<float>(ink));
    }
  }
}

void draw(int digit, Random& random, float* image) {
  const auto& shapes = kDigits[static_cast<size_t>(digit)];
  const auto& strokes =
      shapes[static_cast<size_t>(random.uniform(0, static_cast<double>(shapes.size())))];
  const double height = random.uniform(7, 10.2), width = height * random.uniform(0.6, 1.0);
  const double slant = random.uniform(-0.15, 0.45), turn = random.uniform(-0.2, 0.2);
  const double cx = 13.5 + random.uniform(-2, 2), cy = 13.5 + random.uniform(-2, 2);
  const double radius = random.uniform(0.6, 1.7), wobble = random.uniform(0.03, 0.13);
  const double cosine = std::cos(turn), sine = std::sin(turn);
  for (const Stroke& stroke : strokes) {
    Stroke moved;
    for (const Point p : stroke) {
      const double x = (p.x + wobble * random.normal() - slant * p.y) * width;
      const double y = (p.y + wobble * random.normal()) * height;
      moved.push_back({cx + cosine * x - sine * y, cy + sine * x + cosine * y});
    }
    const Stroke curve = smooth(moved);
    for (size_t i = 0; i + 1 < curve.size(); ++i)
      draw_segment(curve[i], curve[i + 1], radius, image);
  }
  const double ink = random.uniform(0.75, 1), noise = random.uniform(0, 0.1);
  for (int i = 0; i < kSide * kSide; ++i) {
    const double v = image[i] * ink + noise * random.normal();
    image[i] = static_cast<float>(std::clamp(v, 0.0, 1.0));
  }
}

}  // namespace

locus::data::Dataset draw_digits(int64_t count, uint64_t seed) {
  std::vector<float> images(static_cast<size_t>(count) * kSide * kSide);
  std::vector<int32_t> labels(static_cast<size_t>(count));
  for (size_t i = 0; i < labels.size(); ++i) {
    Random random(seed * 0x100000001b3u + i);
    labels[i] = static_cast<int32_t>(i % 10);
    draw(labels[i], random, images.data() + i * kSide * kSide);
  }
  return {locus::array(images, {count, kSide * kSide}, locus::cpu()),
          locus::array(labels, locus::cpu())};
}

namespace {

Digits read_digits(const std::string& folder, uint64_t seed) {
  namespace fs = std::filesystem;
  const auto is_whole = [](const fs::path& f) {  // ignores an unfinished download
    return std::ranges::all_of(std::array{"train-images-idx3-ubyte", "train-labels-idx1-ubyte",
                                          "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"},
                               [&](const std::string& name) {
                                 return fs::exists(f / name) || fs::exists(f / (name + ".gz"));
                               });
  };
  constexpr const char* kDefault = "data/mnist";
  const std::string from = folder.empty() && is_whole(kDefault) ? kDefault : folder;
  using namespace locus;
  if (from.empty())
    return {draw_digits(20000, seed), draw_digits(4000, ~seed), "digits drawn by this program"};
  std::optional<Digits> digits;
  examples::of_option("--data", [&] {
    digits.emplace(Digits{data::mnist(from, data::train), data::mnist(from, data::test),
                          "MNIST from " + from});
  });
  return *std::move(digits);
}

}  // namespace

Digits load_digits(const std::string& folder, uint64_t seed) {
  std::optional<Digits> digits;
  locus::cluster::together([&] { digits.emplace(read_digits(folder, seed)); });
  return *std::move(digits);
}

}  // namespace training
