// What this machine's links take, measured (cost.h).
#pragma once

#include <map>
#include <memory>
#include <vector>

#include <locus/core/context.h>

#include "planning/cost.h"
#include "planning/model.h"
#include "planning/sweep.h"

namespace planning {

// Between contexts of one kind, and how they slow each other down.
class MeasuredLinks : public Links {
 public:
  // Copies between the first two and sums over the first n of `contexts`, by bytes.
  MeasuredLinks(const std::vector<locus::Context>& contexts);
  // What waiting takes, anew.
  void sample_waits();

  // How long steps of `model`, of so many samples, take on n contexts at once, which share cores:
  // a few of them, which take the place of those before. Real GPUs share none, and neither do those
  // under a link model.
  void sample_pace(const Model& model, const std::vector<int64_t>& samples);
  // By what was sampled last, over that of one context.
  double pace(double busy, double samples) const override;

  double copy(int, int, double bytes) const override { return copy_.at(bytes); }
  double sum(int first, int stride, int n, const std::vector<double>& bytes) const override;
  double sum_held(int n, const std::vector<double>& bytes) const override;
  // The first context has the whole batch, and sends one slice after the other.
  double input(int n, double bytes) const override { return (n - 1) * copy_.at(bytes); }
  double losses(int n, double bytes) const override { return (n - 1) * copy_.at(bytes); }
  double waited(int n) const override { return waited_.at(n); }

 private:
  struct Sums {
    Curve first, more, held;  // of one tensor, of each that follows it, and bytes of each
  };
  const std::vector<locus::Context> contexts_;
  Curve copy_, waited_;
  std::map<int, Sums> sums_;
  std::map<int64_t, std::vector<std::unique_ptr<Sweep>>> sweeps_;  // by samples, of each context
  std::map<int64_t, Curve> steps_;  // by samples: seconds by how many contexts compute
};

}  // namespace planning
