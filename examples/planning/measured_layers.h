// What a model's layers take on this machine, measured: what predictions are made of (cost.h).
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
  std::vector<int64_t> samples;  // of a pass: the sizes that are measured
  std::vector<int> cuts;  // over how many contexts layers are cut: passes of the most samples
  bool each = false;      // which are each context's; else they are those of all
  int rounds = 9;         // of passes; each value counts as Samples do
  bool warm = false;      // the contexts ran the same before
  std::function<void(const std::string&)> begins = [](const std::string&) {};  // told what
};
// On the first of these contexts, which holds the whole network (else OutOfMemory): passes of each
// layer, and of all, by events around them, while the context has enough to do that the host's time
// to issue them does not show. Layers that are cut over no more than these contexts are also
// measured on them together, and what a step costs the host on one, over stages and over replicas.
ModelCost measure_layers(const Model& model, std::span<const locus::Context> contexts,
                         const LayerMeasurements& what);

}  // namespace planning
