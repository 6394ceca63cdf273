#include "training/shapes.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <numbers>
#include <optional>

#include <locus/core/cluster.h>
#include <locus/ops/create.h>

#include "common/command.h"
#include "training/random.h"

namespace training {
namespace {

constexpr int kSide = kShapeSide;

bool in_star(double x, double y) {
  constexpr double kTip = .95, kInner = .4, kHalf = std::numbers::pi / 5;
  const double angle = std::atan2(x, -y) + 2 * std::numbers::pi;
  const double fold = std::abs(std::fmod(angle, 2 * kHalf) - kHalf);  // from an inner corner
  return std::hypot(x, y) * (kTip * std::sin(kHalf - fold) + kInner * std::sin(fold)) <
         kTip * kInner * std::sin(kHalf);
}

// Whether a point of the square from -1 to 1 belongs to the shape, y downwards.
using Inside = bool (*)(double x, double y);
struct Shape {
  const char* name;
  Inside inside;
};
constexpr Shape kShapes[] = {
    {"disc", [](double x, double y) { return std::hypot(x, y) < .8; }},
    {"ring", [](double x, double y) { return std::abs(std::hypot(x, y) - .68) < .2; }},
    {"square", [](double x, double y) { return std::max(std::abs(x), std::abs(y)) < .72; }},
    {"frame",
     [](double x, double y) { return std::abs(std::max(std::abs(x), std::abs(y)) - .62) < .18; }},
    {"triangle", [](double x, double y) { return y < .6 && y > 1.732 * std::abs(x) - .95; }},
    {"star", in_star},
    {"cross",
     [](double x, double y) {
       return std::min(std::abs(x), std::abs(y)) < .24 && std::max(std::abs(x), std::abs(y)) < .85;
     }},
    {"heart",
     [](double x, double y) {
       const double u = 1.25 * x, v = .2 - 1.25 * y, r = u * u + v * v - 1;
       return r * r * r < u * u * v * v * v;
     }},
    {"crescent",
     [](double x, double y) { return std::hypot(x, y) < .85 && std::hypot(x - .4, y) > .62; }},
    {"bars",
     [](double x, double y) { return std::abs(x) < .78 && std::abs(std::abs(y) - .42) < .22; }},
};
constexpr int kClasses = static_cast<int>(std::size(kShapes));

void draw(const Shape& shape, Random& random, float* image) {
  const double size = random.uniform(9, 13), turn = random.uniform(-.4, .4);
  const double cx = 15.5 + random.uniform(-3, 3), cy = 15.5 + random.uniform(-3, 3);
  const double cosine = std::cos(turn), sine = std::sin(turn);
  std::array<double, 3> ink{}, paper{}, slope{};
  for (size_t c = 0; c < 3; ++c) {  // bright on dark
    ink[c] = random.uniform(.5, 1);
    paper[c] = random.uniform(0, .4);
  }
  for (double& s : slope) s = random.uniform(-.15, .15);
  const double noise = random.uniform(.01, .06);
  for (int y = 0; y < kSide; ++y) {
    for (int x = 0; x < kSide; ++x) {
      double cover = 0;
      for (const double dy : {-.25, .25})
        for (const double dx : {-.25, .25}) {
          const double u = (x + dx - cx) / size, v = (y + dy - cy) / size;
          cover += shape.inside(cosine * u + sine * v, cosine * v - sine * u) ? .25 : 0;
        }
      for (size_t c = 0; c < 3; ++c) {
        const double ground = paper[c] + slope[c] * (x + y - kSide) / kSide;
        const double v = cover * ink[c] + (1 - cover) * ground + noise * random.normal();
        image[(static_cast<int>(c) * kSide + y) * kSide + x] =
            static_cast<float>(std::clamp(v, 0.0, 1.0));
      }
    }
  }
}

}  // namespace

const std::vector<std::string>& shape_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const Shape& s : kShapes) all.emplace_back(s.name);
    return all;
  }();
  return names;
}

locus::data::Dataset draw_shapes(int64_t count, uint64_t seed) {
  constexpr size_t kPixels = size_t{3} * kSide * kSide;
  std::vector<float> images(static_cast<size_t>(count) * kPixels);
  std::vector<int32_t> labels(static_cast<size_t>(count));
  for (size_t i = 0; i < labels.size(); ++i) {
    Random random(seed * 0x100000001b3u + i);
    labels[i] = static_cast<int32_t>(i % kClasses);
    draw(kShapes[labels[i]], random, images.data() + i * kPixels);
  }
  return {locus::array(images, {count, 3, kSide, kSide}, locus::cpu()),
          locus::array(labels, locus::cpu())};
}

namespace {

Images read_images(const std::string& folder, uint64_t seed) {
  constexpr const char* kDefault = "data/cifar-10-batches-bin";
  const bool there = std::filesystem::exists(std::filesystem::path(kDefault) / "test_batch.bin");
  const std::string from = folder.empty() && there ? kDefault : folder;
  using namespace locus;
  if (from.empty())
    return {draw_shapes(10000, seed), draw_shapes(2000, ~seed), "shapes drawn by this program",
            shape_names()};
  std::optional<Images> images;
  examples::of_option("--data", [&] {
    images.emplace(Images{data::cifar10(from, data::train),
                          data::cifar10(from, data::test),
                          "CIFAR-10 from " + from,
                          {"airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse",
                           "ship", "truck"}});
  });
  return *std::move(images);
}

}  // namespace

Images load_images(const std::string& folder, uint64_t seed) {
  std::optional<Images> images;
  locus::cluster::together([&] { images.emplace(read_images(folder, seed)); });
  return *std::move(images);
}

}  // namespace training
