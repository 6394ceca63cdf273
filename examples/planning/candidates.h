// Layouts worth a prediction (cost.h).
#pragma once

#include <cstdint>
#include <vector>

#include "planning/cost.h"

namespace planning {

// Splits the layers into stages whose longest takes the least. Returns Layout::begins. `samples`:
// of a microbatch.
std::vector<int> balanced(const ModelCost& model, int stages, double samples);

// Layouts for exactly this many devices, of all kinds that the model and the batch allow.
std::vector<Layout> candidates(const ModelCost& model, int devices, int64_t batch);
// 1, 2, 4, ..., n
std::vector<int> counts(int n);

}  // namespace planning
