// What a step of training takes and holds by a plan (nn/plan.h), from what each layer and each link
// take: formulas, and for a pipeline a walk over its passes, so that thousands of GPUs cost no more
// than one pipeline of them.
//
// A pass of layers a to b over n samples computes for sum(forward_i(n)), or sum(backward_i(n)), and
// costs the host sum(issue_i(n)); a device begins what it is told when it is free, has what it
// needs, and was told:
//   begin = max(free, arrival, told),  end = max(begin + pace computing, told + issue)
// A pipeline of p equal stages and m microbatches so takes (m + p - 1) (f + b), of which it is idle
// for (p - 1) / (m + p - 1); unequal stages and what crosses between them come out of the same
// walk, in the order of nn::Pipeline. Then come the sums of gradients and the update. Sums over n
// devices, of B bytes and latency l:
//   ring      2 (n - 1) (l + B / n / rate)
//   one shot  l + (n - 1) B / rate             (each reads what all others have)
//   tree      2 ceil(log2 n) (l + B / rate)
// whichever is least; over h hosts of q devices each, 2 (l + (q - 1) B / q / rate) within a host,
// where each sums a part that it reads from all, and the least of the three for B / q between them.
// Layers that are cut over n devices have such a sum of n samples' results behind each row, and one
// of their gradients on the way back.
//
// A device holds parameters, gradients and the optimizer's states and, where m microbatches of n
// samples go through stages and at most a of them are under way in this one,
//   a n (kept + in) + min(a + 1, m) n in + n out
// bytes: what autograd keeps of a sample, what comes from the stage before, one microbatch early,
// with a place for its gradient, and the gradient of a result that comes back from the stage
// behind. Replicas of a first stage have a n in, their part of the batch, in place of both. Sums of
// gradients work in memory of their own when all that is free again: the larger of the two counts.
// That is what a step needs: a host that runs ahead of its devices holds more of what crosses,
// where there is room for it.
//
// Layers by themselves take longer than one behind the other: their times count in proportion, and
// together take what was measured of passes over all layers. So do layers that are cut, where they
// were measured on contexts that meet in their sums. The host's times are in proportion to what it
// took in steps on one context, over as many stages, which it tells by turns, and over as many
// replicas, each told by a thread of its own.
//
// A step is taken apart by walking three times: with neither links nor issuing, computing of the
// busiest device is `compute` and the rest `bubble`; what links add is `link`, what issuing adds
// after that, and a program that waits for each step, `host`. The largest bounds the plan.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <locus/nn/planned.h>

namespace planning {

inline size_t at(int i) { return static_cast<size_t>(i); }

// A value that was measured in several rounds. A machine that others use, too, is slower in some:
// it counts by the lower quartile, what it takes where it is left alone.
class Samples {
 public:
  void add(double value);
  double value() const { return sorted_.empty() ? 0 : sorted_[counts(sorted_.size())]; }
  static size_t counts(size_t n) { return (n - 1) / 4; }  // which of n sorted ones

 private:
  std::vector<double> sorted_;
};

// One that was measured at some sizes, seconds for bytes, say: straight lines between them, on
// beyond the largest as from the one before, but never down, and below the smallest as there.
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
  Curve again;  // of a backward pass that adds to gradients that are there
};

struct LayerCost : PassCost {  // of the device
  std::string name;
  PassCost issue;  // of the host, which tells it to
  Curve held;      // bytes that autograd keeps of a forward pass
  Samples update, issue_update;
  double fixed = 0;                              // bytes of parameters, gradients and states
  std::vector<double> gradients;                 // bytes of each, to be summed over replicas
  double out = 0;                                // bytes of a sample's result
  locus::nn::CutAs as = locus::nn::CutAs::each;  // where it is cut
};

// Of the host, for a step: passes over all layers with what crosses between stages, and what comes
// before the first and behind the last, sums and update.
struct HostCost : PassCost {
  Curve before, after;
};

struct ModelCost {
  std::vector<LayerCost> layers;
  LayerCost loss;
  double in = 0;                                // bytes of a sample
  std::map<int, std::vector<LayerCost>> parts;  // of layers cut over so many: from cut_from on
  int cut_from = -1;                            // the first layer that can be cut; -1: none
  bool serial = false;  // the host computes: stages of a replica take turns on its thread

  PassCost whole;               // all layers and the loss, one behind the other; empty: their sum
  std::map<int, PassCost> cut;  // parts of so many on contexts of their own, with their sums
  // On one device, over so many stages, over so many replicas, and of parts of so many.
  HostCost host;
  std::map<int, HostCost> stages, replicas, cut_host;

  // What times of layers by themselves are to be multiplied with, for passes of so many samples.
  double scale(Curve PassCost::*what, double samples) const;
  // The same of the host's, where it tells so many stages and replicas.
  double issue_scale(Curve PassCost::*what, double samples, int stages, int replicas) const;
  // Of the host, HostCost's before or after; `sum` is of one device, where nothing was measured.
  double aside(Curve HostCost::*what, double samples, int stages, int replicas, double sum) const;
};

// What lies between devices, numbered from 0 host by host.
class Links {
 public:
  virtual ~Links() = default;
  virtual double copy(int from, int to, double bytes) const = 0;
  // Of several tensors over n devices, from `first` on, each `stride` behind the one before.
  virtual double sum(int first, int stride, int n, const std::vector<double>& bytes) const = 0;
  // Bytes that such a sum needs for itself on the device that needs the most.
  virtual double sum_held(int n, const std::vector<double>& bytes) const = 0;
  // How many times longer a device computes while so many of them do, on the average, passes of so
  // many samples.
  virtual double pace(double busy, double samples) const = 0;
  // Seconds until the last of n replicas has its slice of the batch, and until one device has the
  // losses of all, slices of so many bytes: of a program that feeds them all.
  virtual double input(int n, double bytes) const = 0;
  virtual double losses(int n, double bytes) const = 0;
  // How much longer a step takes a program that waits for it on n devices: until they begin, and
  // until it knows that they are done.
  virtual double waited(int n) const = 0;
};

// A plan without its contexts: device r * stages + s has stage s of replica r.
struct Layout {
  std::vector<int> begins;  // the first layer of each stage, and the number of layers
  int replicas = 1, cut = 1, microbatches = 1;  // cut: over so many, from the last stage's first on
  locus::nn::Schedule schedule = locus::nn::Schedule::one_f1b;

  int stages() const { return static_cast<int>(begins.size()) - 1; }
  int devices() const { return cut > 1 ? cut : replicas * stages(); }
  const char* kind() const;  // one, data, pipeline, mixed, tensor
  // On the first of these contexts.
  locus::nn::Plan plan(const std::vector<locus::Context>& contexts) const;
  std::string summary() const;  // the plan's
};

struct Work {
  int row;  // stage, or device of those that a layer is cut over
  double begin, end;
  char what;  // 'F', 'B', 'S' a sum, 'U' the update
  int microbatch = 0;
};

struct Prediction {
  Layout layout;
  double seconds = 0, compute = 0, bubble = 0, link = 0, host = 0;
  std::vector<double> held;    // bytes, of each stage's devices, or of those it is cut over
  std::vector<Work> timeline;  // of one replica
  double most_held() const;
  const char* bound() const;  // "compute", "bubble", "link", "host": the largest
};

Prediction predict(const Layout& layout, const ModelCost& model, const Links& links, int64_t batch);

}  // namespace planning
