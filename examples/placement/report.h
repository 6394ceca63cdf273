// What the laboratory shows and writes.
#pragma once

#include <string>
#include <vector>

#include "common/table.h"
#include "placement/lab.h"

namespace placement {

// Results come sorted by step time, the fastest first.
examples::Table make_table(const std::vector<Trial>& results);
std::string explanation(const std::vector<Trial>& results);
// Of those whose context changes so often from layer to layer, or more often. Null: there is none.
const Trial* fastest_compiled(const std::vector<Trial>& results, int least_changes = 0);
// Why the times of these contexts cannot be compared: some are modelled and others are not. Else
// empty.
std::string mixture(const std::vector<Memory>& contexts);
std::string timeline_csv(const Trial& result);

// Chart: bars of all results (of many: the first and the last), and the parts of the best and the
// worst in time. SVG.
std::string chart(const std::vector<Trial>& results, const Model& model);

}  // namespace placement
