// Draws coloured shapes of ten classes, a small stand-in for photographs. Position, size, turn,
// color, background and noise are random. The same seed gives the same images on every machine.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <locus/nn/data.h>

namespace training {

inline constexpr int kShapeSide = 32;
const std::vector<std::string>& shape_names();

// `count` images (count, 3, 32, 32) f32 in [0, 1] and labels (count,) i32, on cpu(0), classes in
// turn.
locus::data::Dataset draw_shapes(int64_t count, uint64_t seed);

// CIFAR-10 from `folder`. If `folder` is empty: from data/cifar-10-batches-bin if it exists, else
// drawn shapes. All ranks call it; they wait for each other.
struct Images {
  locus::data::Dataset train, test;
  std::string name;
  std::vector<std::string> classes;
};
Images load_images(const std::string& folder, uint64_t seed);

}  // namespace training
