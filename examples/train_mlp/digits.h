// Handwritten-looking digits without a download: strokes with random slant, size, position,
// thickness, wobble and noise. The same seed draws the same digits on every machine.
#pragma once

#include <cstdint>

#include <locus/nn/data.h>

namespace train_mlp {

// `count` images (count, 784) f32 in [0, 1] and labels (count,) i32, on cpu(0), classes in turn.
locus::data::Dataset draw_digits(int64_t count, uint64_t seed);

}  // namespace train_mlp
