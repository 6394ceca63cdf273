// Draws digits like handwriting: strokes with random slant, size, position, thickness, wobble and
// noise. The same seed gives the same digits on every machine.
#pragma once

#include <cstdint>
#include <string>

#include <locus/nn/data.h>

namespace training {

// The help of --data.
inline constexpr const char* kDigitsHelp =
    "folder with the four MNIST files (default: data/mnist when it is there, else digits drawn by "
    "this program)";

// MNIST from `folder`. If `folder` is empty: from data/mnist if all its files exist, else drawn
// digits. Images are (N, 784), labels (N,), on cpu(0). All ranks call it; they wait for each other.
struct Digits {
  locus::data::Dataset train, test;
  std::string name;
};
Digits load_digits(const std::string& folder, uint64_t seed);

// `count` images (count, 784) f32 in [0, 1] and labels (count,) i32, on cpu(0), classes in turn.
locus::data::Dataset draw_digits(int64_t count, uint64_t seed);

}  // namespace training
