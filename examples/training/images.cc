#include "training/images.h"

#include <algorithm>

#include <fmt/format.h>

#include "common/svg.h"

namespace training {

namespace {

// Opens a group of `width` x `height` units with a pale ground.
std::string ground(int height, int width, double x, double y, double size) {
  return fmt::format(
      "<g transform=\"translate({:.1f} {:.1f}) scale({:.4f})\">"
      "<rect width=\"{}\" height=\"{}\" fill=\"#f3f4f6\" rx=\"{:.2g}\"/>",
      x, y, size / width, width, height, width / 14.0);
}

// Small files: ink in five levels, each one path of horizontal runs.
std::string ink(const std::vector<float>& pixels, int height, int width, const char* color) {
  std::string s;
  for (int level = 1; level <= 5; ++level) {
    std::string path;
    const auto at = [&](int r, int c) {
      const float v = std::clamp(pixels[static_cast<size_t>(r * width + c)], 0.f, 1.f);
      return static_cast<int>(v * 5.49f) == level;
    };
    for (int r = 0; r < height; ++r) {
      for (int c = 0; c < width; ++c) {
        if (!at(r, c)) continue;
        const int start = c;
        while (c + 1 < width && at(r, c + 1)) ++c;
        path += fmt::format("M{} {}h{}v1h-{}z", start, r, c + 1 - start, c + 1 - start);
      }
    }
    if (!path.empty())
      s += fmt::format("<path fill=\"{}\" fill-opacity=\"{:.1f}\" d=\"{}\"/>", color, level / 5.0,
                       path);
  }
  return s;
}

}  // namespace

std::string gray_image(const std::vector<float>& pixels, int height, int width, double x, double y,
                       double size) {
  return ground(height, width, x, y, size) + ink(pixels, height, width, examples::svg::kInk) +
         "</g>\n";
}

std::string signed_image(const std::vector<float>& values, int height, int width, double x,
                         double y, double size) {
  std::vector<float> negative = values;
  for (float& v : negative) v = -v;
  return ground(height, width, x, y, size) + ink(values, height, width, examples::svg::kBlue) +
         ink(negative, height, width, examples::svg::kRed) + "</g>\n";
}

}  // namespace training
