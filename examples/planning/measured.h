// What a model's layers and this machine's links take, measured once: what predictions are made of
// (cost.h).
#pragma once

#include <map>
#include <memory>
#include <vector>

#include <locus/core/context.h>

#include "planning/cost.h"
#include "planning/model.h"
#include "planning/sweep.h"

namespace planning {

struct LayerMeasurements {
  std::vector<int64_t> samples;  // of a pass: the sizes that are measured
  std::vector<int> cuts;         // over how many contexts layers are cut
  int rounds = 9;                // of which the medians count
};
// On one context: each layer's passes by events around them, while the context has enough to do
// that the host's time to issue them does not show; and that time, apart. What is in `cost` already
// counts, too: where contexts share cores with other work, it is measured on while plans run.
void measure_layers(const Model& model, locus::Context c, const LayerMeasurements& what,
                    ModelCost& cost);

// Between contexts of one kind, and how they slow each other down.
class MeasuredLinks : public Links {
 public:
  // Copies between the first two and sums over the first n of `contexts`, by bytes.
  MeasuredLinks(const std::vector<locus::Context>& contexts);

  // How long steps of `model`, of so many samples, take on n contexts at once, which share cores:
  // a few more of them each time, so that they meet what else the machine does as the plans do that
  // run in between. Real GPUs share none.
  void watch_pace(const Model& model, const std::vector<int64_t>& samples);
  void sample_pace(int n);
  void forget_pace() { steps_.clear(); }
  // By what was sampled so far: medians, over that of one context.
  double pace(double busy, double samples) const override;

  double copy(int, int, double bytes) const override { return copy_.at(bytes); }
  double sum(int first, int stride, int n, const std::vector<double>& bytes) const override;
  // The first context has the whole batch, and sends one slice after the other.
  double input(int n, double bytes) const override { return (n - 1) * copy_.at(bytes); }
  double losses(int n, double bytes) const override { return (n - 1) * copy_.at(bytes); }

 private:
  struct Sums {
    Curve first, more;  // of one tensor, and of each that follows it
  };
  const std::vector<locus::Context> contexts_;
  Curve copy_;
  std::map<int, Sums> sums_;
  std::map<int64_t, std::vector<std::unique_ptr<Sweep>>> sweeps_;  // by samples, of each context
  std::map<int64_t, Curve> steps_;  // by samples: seconds by how many contexts compute
};

}  // namespace planning
