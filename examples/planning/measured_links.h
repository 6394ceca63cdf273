// Measures this machine's links (cost.h).
#pragma once

#include <map>
#include <memory>
#include <vector>

#include <locus/core/context.h>

#include "planning/cost.h"
#include "planning/model.h"
#include "planning/sweep.h"

namespace planning {

// Links between contexts of one kind, and how the contexts slow each other down.
class MeasuredLinks : public Links {
 public:
  // Measures copies between the first two contexts and sums over the first n, by bytes.
  MeasuredLinks(const std::vector<locus::Context>& contexts);
  // Measures waits again.
  void sample_waits();

  // Replaces the samples for pace(): times steps of `model` on n contexts at once. Does nothing on
  // real GPUs and with a link model, because those share no cores.
  void sample_pace(const Model& model, const std::vector<int64_t>& samples);
  // Relative to one context, from the last samples.
  double pace(double busy, double samples) const override;

  double copy(int, int, double bytes) const override { return copy_.at(bytes); }
  double sum(int first, int stride, int n, const std::vector<double>& bytes) const override;
  double sum_held(int n, const std::vector<double>& bytes) const override;
  // The first context has the whole batch and sends the slices one after the other.
  double input(int n, double bytes) const override { return (n - 1) * copy_.at(bytes); }
  double losses(int n, double bytes) const override { return (n - 1) * copy_.at(bytes); }
  double waited(int n) const override { return waited_.at(n); }

 private:
  struct Sums {
    Curve first, more, held;  // of the largest tensor, of each further one; bytes of each
  };
  const std::vector<locus::Context> contexts_;
  Curve copy_, waited_;
  std::map<int, Sums> sums_;
  std::map<int64_t, std::vector<std::unique_ptr<Sweep>>> sweeps_;  // by samples, of each context
  std::map<int64_t, Curve> steps_;  // by samples: seconds by number of contexts
};

}  // namespace planning
