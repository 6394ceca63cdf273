#include "training/images.h"

#include <algorithm>

#include <fmt/format.h>

#include "common/svg.h"

namespace training {

// Small files: ink in five levels, each one path of horizontal runs.
std::string gray_image(const std::vector<float>& pixels, int height, int width, double x, double y,
                       double size) {
  std::string s = fmt::format(
      "<g transform=\"translate({:.1f} {:.1f}) scale({:.4f})\">"
      "<rect width=\"{}\" height=\"{}\" fill=\"#f3f4f6\" rx=\"{:.2g}\"/>",
      x, y, size / width, width, height, width / 14.0);
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
      s += fmt::format("<path fill=\"{}\" fill-opacity=\"{:.1f}\" d=\"{}\"/>", examples::svg::kInk,
                       level / 5.0, path);
  }
  return s + "</g>\n";
}

}  // namespace training
