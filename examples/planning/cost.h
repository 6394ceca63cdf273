// Predicts the time and the memory of a training step under a plan (nn/plan.h), from times of
// layers and links. The passes of one pipeline are simulated; its replicas are equal, so thousands
// of GPUs cost no more. Formulas: "Details" at the end.
//
//   const ModelCost cost = measure_layers(model, contexts, what);  // measured_layers.h
//   const Prediction p = predict(layout, cost, MeasuredLinks(contexts), batch);
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <locus/nn/planned.h>

namespace planning {

inline size_t at(int i) { return static_cast<size_t>(i); }

// A value measured in several rounds. value() is the lower quartile, because other programs slow
// some rounds.
class Samples {
 public:
  void add(double value);
  double value() const { return sorted_.empty() ? 0 : sorted_[counts(sorted_.size())]; }
  static size_t counts(size_t n) { return (n - 1) / 4; }  // index among n sorted values

 private:
  std::vector<double> sorted_;
};

// A value measured at some sizes, e.g. seconds by bytes. Interpolates linearly. Beyond the largest
// size it continues the last line, but never falls; a single point is proportional to size. Below
// the smallest size it is constant.
class Curve {
 public:
  void add(double size, double value) { points_[size].add(value); }
  double at(double size) const;
  bool empty() const { return points_.empty(); }

 private:
  std::map<double, Samples> points_;
};

// Seconds of passes, by samples.
struct PassCost {
  Curve forward, backward;
  Curve again;  // a backward pass that adds to existing gradients
};

struct LayerCost : PassCost {  // device time
  std::string name;
  PassCost issue;  // host time to enqueue
  Curve held;      // bytes that autograd keeps
  Samples update, issue_update;
  double fixed = 0;                              // bytes of parameters, gradients and states
  std::vector<double> gradients;                 // bytes of each; summed over replicas
  double out = 0;                                // bytes of a sample's result
  locus::nn::CutAs as = locus::nn::CutAs::each;  // how it is cut
};

// Host time of a step: passes over all layers with copies between stages, the time before the first
// pass, and the time after the last (sums and update).
struct HostCost : PassCost {
  Curve before, after;
};

struct ModelCost {
  std::vector<LayerCost> layers;
  LayerCost loss;
  double in = 0;                                // bytes of a sample
  std::map<int, std::vector<LayerCost>> parts;  // by number of parts: layers from cut_from on
  int cut_from = -1;                            // the first layer that can be cut; -1: none
  bool serial = false;  // the host computes: stages of a replica share a thread

  PassCost whole;               // all layers and the loss in sequence; empty: their sum
  std::map<int, PassCost> cut;  // by number of parts: cut layers with their sums
  // On one device; by number of stages, of replicas, of parts.
  HostCost host;
  std::map<int, HostCost> stages, replicas, cut_host;

  // The factor from times of single layers to times in a sequence.
  double scale(Curve PassCost::*what, double samples) const;
  // The same factor for host times.
  double issue_scale(Curve PassCost::*what, double samples, int stages, int replicas) const;
  // HostCost's before or after. If nothing was measured, `sum`.
  double aside(Curve HostCost::*what, double samples, int stages, int replicas, double sum) const;
};

// Links between devices, which are numbered from 0, host by host. Times in seconds.
class Links {
 public:
  virtual ~Links() = default;
  virtual double copy(int from, int to, double bytes) const = 0;
  // The sum of several tensors over n devices: first, first + stride, ...
  virtual double sum(int first, int stride, int n, const std::vector<double>& bytes) const = 0;
  // The most bytes of working memory that such a sum needs on a device.
  virtual double sum_held(int n, const std::vector<double>& bytes) const = 0;
  // The slowdown of a device while `busy` devices, on average, compute passes of this many samples.
  virtual double pace(double busy, double samples) const = 0;
  // The time until the last of n replicas has its slice of the batch, and until one device has all
  // losses. `bytes`: of a slice.
  virtual double input(int n, double bytes) const = 0;
  virtual double losses(int n, double bytes) const = 0;
  // What a step on n devices takes longer if the program waits for it.
  virtual double waited(int n) const = 0;
};

// A plan without contexts. Device r * stages + s has stage s of replica r.
struct Layout {
  std::vector<int> begins;  // first layer of each stage, then the number of layers
  int replicas = 1, cut = 1, microbatches = 1;  // cut: parts of the last stage's layers
  locus::nn::Schedule schedule = locus::nn::Schedule::one_f1b;

  int stages() const { return static_cast<int>(begins.size()) - 1; }
  int devices() const { return cut > 1 ? cut : replicas * stages(); }
  const char* kind() const;  // one, data, pipeline, mixed, tensor
  // Uses the first devices() of the contexts.
  locus::nn::Plan plan(const std::vector<locus::Context>& contexts) const;
  std::string summary() const;  // Plan::summary()
};

struct Work {
  int row;  // stage
  double begin, end;
  char what;  // 'F', 'B', 'S' a sum, 'U' the update
  int microbatch = 0;
};

struct Prediction {
  Layout layout;
  double seconds = 0, compute = 0, bubble = 0, link = 0, host = 0;
  std::vector<double> held;    // bytes, by stage, or by part of cut layers
  std::vector<Work> timeline;  // of one replica
  double most_held() const;
  const char* bound() const;  // "compute", "bubble", "link", "host": the largest
};

Prediction predict(const Layout& layout, const ModelCost& model, const Links& links, int64_t batch);

// --- Details ---

// Passes of layers a to b over n samples
//   - The device computes for sum(forward_i(n)) or sum(backward_i(n)). The host enqueues for
//     sum(issue_i(n)).
//   - begin = max(free, arrival, told),  end = max(begin + pace * compute, told + issue)
//     free: the device's last work has ended; arrival: the operands have arrived; told: the host
//     starts to enqueue.
//   - A pipeline of p equal stages and m microbatches takes (m + p - 1) (f + b), and is idle for
//     (p - 1) / (m + p - 1) of that. Unequal stages and copies are simulated in nn::Pipeline's
//     order.
//   - Sums of gradients and the update follow.

// Sums over n devices, of B bytes, with latency l: the least of
//   ring      2 (n - 1) (l + B / n / rate)
//   one shot  l + (n - 1) B / rate             (each device reads the data of all others)
//   tree      2 ceil(log2 n) (l + B / rate)
// Over h hosts of q devices each: 2 (l + (q - 1) B / q / rate) within a host, where each device
// sums one part, and the least of the three for B / q between hosts. Cut layers have a sum of
// results after each row, and a sum of gradients in the backward pass.

// Memory of a device: parameters, gradients, optimizer states, and the larger of
//   - the working memory of sums of gradients
//   - for m microbatches of n samples, at most a of them in flight in this stage:
//       a n (kept + in) + min(a + 1, m) n in + n out
//     kept: by autograd; in: inputs from the stage before, one microbatch early, with gradients;
//     out: the gradient of the result. With replicas, the first stage has a n in instead of both
//     input terms.
// A host that runs ahead of its devices uses more if there is memory.

// Scaling
//   - Single layers take longer than layers in sequence. Their times are scaled to the measured
//     time of all layers; cut layers to the measured time of all parts with their sums.
//   - The host's times are scaled to measured steps on one context, over as many stages (enqueued
//     in turn), and over as many replicas (one thread each).

// predict() simulates a step three times:
//   - without links and host: `compute` is the busiest device's time, `bubble` the rest
//   - with links: `link` is the time they add
//   - with links and host: `host` is the time the host and the final wait add
// The largest of the four bounds the plan.

}  // namespace planning
