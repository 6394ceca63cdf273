// One sample of every layer, for layer_walk_test.cc and layer_runs_test.cc. A layer without a
// sample fails LayerTable.HasEveryLayerOfTheHeaders.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <locus/nn/block.h>

namespace locus::test {

struct LayerSample {
  // A new layer, not initialized. Layers that span contexts use the given pair.
  std::function<std::shared_ptr<nn::Block>(const std::vector<Context>& pair)> make = {};
  std::function<std::shared_ptr<nn::Block>(const nn::Block&)> copy = {};  // by value
  std::function<std::shared_ptr<nn::Block>(const nn::Block&)> recomputed = {};
  std::function<void(nn::Block&, const std::vector<Context>& pair)> initialize = {};
  Shape input = {};
  bool input_on_each = false;     // one input on each of the two contexts
  bool training_differs = false;  // from prediction
  bool pipelined = false;         // over the two contexts
  std::string name = {};          // of the class

  bool spans() const {
    return pipelined || input_on_each || make({cpu(0), cpu(1)})->spans_contexts();
  }
};

const std::vector<LayerSample>& layer_samples();

inline void PrintTo(const LayerSample& s, std::ostream* os) { *os << s.name; }

}  // namespace locus::test
