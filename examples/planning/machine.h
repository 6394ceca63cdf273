// Machines described by their links: "8x8 h200, nvlink 395, ib 50".
#pragma once

#include <string>

#include "planning/cost.h"

namespace planning {

// HOSTSxGPUS NAME, then in any order, each once at most:
//   nvlink      GB/s of a device within its host, one direction
//   ib          GB/s of a device to other hosts
//   latency     µs of a message within a host
//   ib_latency  µs of a message between hosts
//   memory      GB (10^9 bytes) of a device; known for h200, h100, a100, b200 and l40s
//   compute     speed of a device relative to the context that times the layers
struct Machine {
  int hosts = 1, gpus = 1;
  std::string name;
  double nvlink = 395, ib = 50, latency = 8, ib_latency = 15, memory = 0;
  double compute = 0;  // 0: not given

  // FormatError names the wrong part and what was expected. Also for a name without known or given
  // memory.
  static Machine parse(const std::string& text);
  int devices() const { return hosts * gpus; }
  // "computed with layer times of cpu(0), 300 times as fast"
  std::string compute_text(locus::Context where) const;
  // FormatError if `where` is no real GPU and `compute` is not given: its times do not apply to
  // this machine.
  void check_timed_on(locus::Context where) const;
};

// Links by the formulas of cost.h. Each device reads its part of the batch while it computes and
// keeps its losses. The program does not wait for steps.
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

// For 1, 2, 4, ... of the machine's devices, the best plan of each kind that fits into memory, the
// fastest first. `batch`: samples per device. Stages compute in parallel, even if the host timed
// the layers.
std::vector<Prediction> simulate(const ModelCost& model, const Machine& machine, int64_t batch);

// The least of ring, one shot and tree (cost.h).
double sum_seconds(int n, double bytes, double bytes_per_second, double latency);

}  // namespace planning
