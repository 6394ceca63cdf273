// Machines that are not here, by their links: "8x8 h200, nvlink 395, ib 50".
#pragma once

#include <string>

#include "planning/cost.h"

namespace planning {

// HOSTSxGPUS NAME, and in any order, each once at most: "nvlink" GB/s of a device's links to others
// of its host, one direction; "ib" GB/s of its link to other hosts; "latency" µs of a message
// within a host and "ib_latency" µs of one between hosts; "memory" GB (10^9 bytes) of each device,
// which is known of h200, h100, a100, b200 and l40s; "compute": how many times as fast a device
// computes a layer as the context on which layers are timed.
struct Machine {
  int hosts = 1, gpus = 1;
  std::string name;
  double nvlink = 395, ib = 50, latency = 8, ib_latency = 15, memory = 0;
  double compute = 0;  // 0: not given

  // FormatError that names what is wrong with the text, and what was expected; also for a name
  // whose memory is neither known nor given.
  static Machine parse(const std::string& text);
  int devices() const { return hosts * gpus; }
  // FormatError for layers that are timed on `where` and say nothing of this machine: `where` is no
  // GPU, and `compute` is not given.
  void check_timed_on(locus::Context where) const;
};

// Its links, by the formulas of cost.h. Each device computes at the machine's pace, reads its part
// of the batch beside what it does, and keeps its losses; no step is waited for.
class FormulaLinks : public Links {
 public:
  explicit FormulaLinks(const Machine& machine) : machine_(machine) {}
  double copy(int from, int to, double bytes) const override;
  double sum(int first, int stride, int n, const std::vector<double>& bytes) const override;
  double sum_held(int, const std::vector<double>&) const override { return 0; }
  double pace(double, double) const override {
    return machine_.compute > 0 ? 1 / machine_.compute : 1;
  }
  double input(int, double) const override { return 0; }
  double losses(int, double) const override { return 0; }
  double waited(int) const override { return 0; }

 private:
  const Machine machine_;
};

// For 1, 2, 4, ... of the machine's devices, each with so many samples of a step, the best plan of
// each kind that they have memory for, the fastest first. Stages compute at the same time, also
// where the host timed the layers.
std::vector<Prediction> simulate(const ModelCost& model, const Machine& machine, int64_t batch);

// The least of a ring, of one shot and of a tree, over n devices.
double sum_seconds(int n, double bytes, double bytes_per_second, double latency);

}  // namespace planning
