// Tables, texts and charts of placements.
#pragma once

#include <string>
#include <vector>

#include "common/table.h"
#include "placement/lab.h"

namespace placement {

// Results must be sorted by step time, the fastest first.
examples::Table make_table(const std::vector<Trial>& results);
std::string explanation(const std::vector<Trial>& results);
// Among results with at least this many changes of context; null if there is none.
const Trial* fastest_compiled(const std::vector<Trial>& results, int least_changes = 0);
std::string timeline_csv(const Trial& result);

// An SVG page: bars of all results (of many: the first and the last), and timelines of the best and
// the worst.
std::string chart(const std::vector<Trial>& results, const Model& model);

}  // namespace placement
