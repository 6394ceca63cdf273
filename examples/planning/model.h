// Networks for placement: those of the training programs, or a text file.
//
//   model-1                    # version of the format
//   input 1 28 28              # a sample's shape
//   Conv2D 20 5 relu           # channels, kernel, activation; strides 2, padding 1 may follow
//   MaxPool2D 2                # window; strides, padding
//   Flatten
//   Dense 500 relu             # units, activation
//   Dense 10
//
// One layer per line, with Gluon's names. Other layers: AvgPool2D, GlobalAvgPool2D, BatchNorm,
// Dropout RATE, Activate NAME. A # begins a comment. The last layer gives (N, classes).
#pragma once

#include <functional>
#include <string>

#include <locus/nn/containers.h>

namespace planning {

struct Model {
  std::string name;
  std::function<locus::nn::Sequential()> make;
  locus::Shape sample;  // of one input
  int64_t classes = 10;
};

// Whether a sample's loss depends on the rest of its batch or on chance: BatchNorm or Dropout.
bool depends_on_batch(const Model& model);

// mlp (784, these widths, 10), lenet, resnet (20 layers), or a file. FormatError names the file and
// the line, also if layers do not fit together.
Model load_model(const std::string& name, const std::vector<int64_t>& hidden);
Model parse_model(const std::string& text, const std::string& name);

}  // namespace planning
