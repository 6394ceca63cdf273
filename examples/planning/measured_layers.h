// Measures a model's layers on this machine, for predictions (cost.h).
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include <locus/core/context.h>

#include "planning/cost.h"
#include "planning/model.h"

namespace planning {

struct LayerMeasurements {
  std::vector<int64_t> samples;  // sizes of passes
  std::vector<int> cuts;         // numbers of parts to cut layers over, measured with samples[0]
  bool each = false;             // whether `samples` are per context; else of all contexts
  int rounds = 9;                // of passes; counted as Samples
  bool warm = false;             // whether the contexts ran the same before
  std::function<void(const std::string&)> begins = [](const std::string&) {};  // gets each task
};
// Times passes of each layer and of all on the first context, by events, while the context has
// earlier work. Cut layers are also timed on the contexts together, if there are enough. Times the
// host's steps on one context, over stages and over replicas. OutOfMemory if the first context
// cannot hold the network.
ModelCost measure_layers(const Model& model, std::span<const locus::Context> contexts,
                         const LayerMeasurements& what);

}  // namespace planning
