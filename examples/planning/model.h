// The networks that placement plans for: those of the training programs, and a text of one's own.
//
//   model-1                    # the form's version
//   input 1 28 28              # a sample's shape
//   Conv2D 20 5 relu           # channels, kernel; an activation; strides 2, padding 1 may follow
//   MaxPool2D 2                # window; strides, padding
//   Flatten
//   Dense 500 relu             # units; an activation
//   Dense 10
//
// One layer a line, with Gluon's names; the others are AvgPool2D, GlobalAvgPool2D, BatchNorm,
// Dropout RATE and Activate NAME. A # begins a comment. The last layer gives (N, classes).
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

// Whether the loss of a sample depends on which others are in its batch, or on chance: where there
// is a BatchNorm or a Dropout.
bool depends_on_batch(const Model& model);

// mlp (784, these widths, 10), lenet, resnet (20 layers), or a file. FormatError with the file's
// name and line, also for layers that do not fit together.
Model load_model(const std::string& name, const std::vector<int64_t>& hidden);
Model parse_model(const std::string& text, const std::string& name);

}  // namespace planning
