// The picture of a run: loss and accuracy curves, and digits with the network's answers.
#pragma once

#include <string>

#include "train_mlp/history.h"

namespace train_mlp {

std::string chart(const History& history);  // an SVG document

}  // namespace train_mlp
