// Layouts that are worth a prediction (cost.h).
#pragma once

#include <cstdint>
#include <vector>

#include "planning/cost.h"

namespace planning {

// Stages of consecutive layers whose longest takes the least: the first layer of each, and the
// number of layers. `samples`: of a microbatch.
std::vector<int> balanced(const ModelCost& model, int stages, double samples);

// Plans for exactly so many devices, of all kinds that the model and the batch have.
std::vector<Layout> candidates(const ModelCost& model, int devices, int64_t batch);
// 1, 2, 4, ..., n.
std::vector<int> counts(int n);

}  // namespace planning
