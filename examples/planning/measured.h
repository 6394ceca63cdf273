// What a model's layers and this machine's links take, measured once: what predictions are made of
// (cost.h).
#pragma once

#include <map>
#include <vector>

#include <locus/core/context.h>

#include "planning/cost.h"
#include "planning/model.h"

namespace planning {

struct LayerMeasurements {
  std::vector<int64_t> samples;  // of a pass: the sizes that are measured
  std::vector<int> cuts;         // over how many contexts layers are cut
  int rounds = 9;                // of which the medians count
};
// On one context: each layer's passes by events around them, while the context has enough to do
// that the host's time to issue them does not show; and that time, apart.
ModelCost measure_layers(const Model& model, locus::Context c, const LayerMeasurements& what);

// Between contexts of one kind, and how they slow each other down.
class MeasuredLinks : public Links {
 public:
  // Copies between the first two and sums over the first n of `contexts`, by bytes.
  MeasuredLinks(const std::vector<locus::Context>& contexts);

  // Steps of `model` on one context, and on n at once, where they share cores: what `cost` says
  // that one takes is the measure. What is learned counts together with what was before, so that it
  // can be asked again from time to time while plans run.
  void measure_pace(const Model& model, const ModelCost& cost, int64_t batch);

  double copy(int, int, double bytes) const override { return copy_.at(bytes); }
  double sum(int first, int stride, int n, const std::vector<double>& bytes) const override;
  double pace(double busy) const override { return pace_.empty() ? 1 : pace_.at(busy); }
  // The first context has the whole batch, and sends one slice after the other.
  double input(int n, double bytes) const override { return (n - 1) * copy_.at(bytes / n); }

 private:
  struct Sums {
    Curve first, more;  // of one tensor, and of each that follows it
  };
  const std::vector<locus::Context> contexts_;
  Curve copy_, pace_;
  std::map<int, Sums> sums_;
  std::map<int, std::vector<double>> steps_;  // seconds, on so many contexts
};

}  // namespace planning
