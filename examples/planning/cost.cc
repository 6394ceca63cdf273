#include "planning/cost.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

namespace planning {

using namespace locus;

namespace {

// Simulates a step of a layout, with or without links and host.
class Walk {
 public:
  Walk(const Layout& layout, const ModelCost& model, const Links& links, double batch, double pace,
       bool with_links, bool with_host, std::vector<Work>* timeline = nullptr)
      : l_(layout),
        m_(model),
        links_(links),
        batch_(batch),
        pace_(pace),
        crosses_(with_links),
        issues_(with_host),
        timeline_(timeline),
        free_(at(l_.stages())),
        busy_(at(l_.stages())) {}

  double seconds() { return l_.cut > 1 ? cut() : pipelines(); }
  double busiest() const { return *std::ranges::max_element(busy_); }
  double busy() const { return std::accumulate(busy_.begin(), busy_.end(), 0.); }  // of a replica

 private:
  struct Pass {
    double compute = 0, issue = 0;
  };
  // The layers of a stage and, after the last stage, the loss.
  Pass pass(int stage, bool backward, double n, bool again) const {
    const auto what = again      ? &PassCost::again
                      : backward ? &PassCost::backward
                                 : &PassCost::forward;
    Pass p;
    const auto add = [&](const LayerCost& c) {
      p.compute += (c.*what).at(n);
      p.issue += (c.issue.*what).at(n);
    };
    for (int i = l_.begins[at(stage)]; i < l_.begins[at(stage + 1)]; ++i) add(m_.layers[at(i)]);
    if (stage + 1 == l_.stages()) add(m_.loss);
    p.compute *= m_.scale(what, n);
    p.issue *= m_.issue_scale(what, n, l_.stages(), l_.replicas);
    return p;
  }
  double out_bytes(int layer) const { return layer < 0 ? m_.in : m_.layers[at(layer)].out; }

  // Enqueues work on a row; its operands arrive at `arrival`.
  double run(int row, double arrival, const Pass& p, char what, int microbatch = 0) {
    double& free = free_[at(m_.serial ? 0 : row)];
    const double told = clock_, compute = p.compute * pace_;
    if (issues_) clock_ += p.issue;
    const double begin = std::max({free, arrival, told});
    free = std::max(begin + compute, clock_);
    busy_[at(row)] += compute;
    if (timeline_) timeline_->push_back({row, begin, free, what, microbatch});
    return free;
  }
  double copy(int from, int to, double bytes) const {
    return crosses_ ? links_.copy(from, to, bytes) : 0;
  }

  double pipelines() {
    const int p = l_.stages(), m = l_.microbatches;
    const double n = batch_ / l_.replicas / m;
    const double input = l_.replicas > 1 && crosses_ ? links_.input(l_.replicas, n * m_.in) : 0;
    if (issues_) clock_ += m_.aside(&HostCost::before, n, p, l_.replicas, 0);
    // By [backward]: when operands of a pass arrive, and when a link is free.
    std::array<std::vector<std::vector<double>>, 2> arrivals;
    std::array<std::vector<double>, 2> link;
    for (auto& a : arrivals) a.assign(at(p), std::vector<double>(at(m)));
    for (auto& a : link) a.assign(at(p), 0);
    for (int k = 0; k < m; ++k) arrivals[0][0][at(k)] = input * (k + 1);
    for (const nn::Pipeline::Pass& pass : nn::Pipeline::order(l_.schedule, p, m)) {
      const int s = pass.stage, k = pass.microbatch, to = s + (pass.backward ? -1 : 1);
      const double end = run(s, arrivals[pass.backward][at(s)][at(k)],
                             this->pass(s, pass.backward, n, pass.backward && k > 0),
                             pass.backward ? 'B' : 'F', k);
      if (to < 0 || to >= p) continue;
      double& busy = link[pass.backward][at(s)];
      const int crossed = l_.begins[at(pass.backward ? s : to)] - 1;
      busy = std::max(end, busy) + copy(s, to, n * out_bytes(crossed));
      arrivals[pass.backward][at(to)][at(k)] = busy;
    }
    // The losses of all replicas are gathered.
    if (l_.replicas > 1 && crosses_)
      free_[at(p - 1)] += links_.losses(l_.replicas, n * m * sizeof(float));
    double end = 0;
    for (int s = 0; s < p; ++s) end = std::max(end, finish(s));
    return std::max(end, clock_);
  }

  // Sums and update of a stage's parameters.
  double finish(int stage) {
    std::vector<double> gradients;
    Pass update;
    double issued = 0, all = 0;
    for (int i = 0; i < l_.begins.back(); ++i) {
      const LayerCost& c = m_.layers[at(i)];
      all += c.issue_update.value();
      if (i < l_.begins[at(stage)] || i >= l_.begins[at(stage + 1)]) continue;
      gradients.insert(gradients.end(), c.gradients.begin(), c.gradients.end());
      update.compute += c.update.value();
      issued += c.issue_update.value();
    }
    const double n = batch_ / l_.replicas / l_.microbatches,
                 after = m_.aside(&HostCost::after, n, l_.stages(), l_.replicas, all);
    // The update is enqueued last.
    const double share = all > 0 ? issued / all : 0;
    update.issue = std::min(issued, share * after);
    if (issues_) clock_ += share * after - update.issue;
    if (l_.replicas > 1 && crosses_ && !gradients.empty()) {
      double& free = free_[at(stage)];
      const double begin = std::max(free, clock_);
      free = begin + links_.sum(stage, l_.stages(), l_.replicas, gradients);
      if (timeline_) timeline_->push_back({stage, begin, free, 'S'});
    }
    return run(stage, 0, update, 'U');
  }

  // One thread enqueues on one device after the other. Devices synchronize in each sum.
  double cut() {
    const int first = l_.begins[at(l_.stages() - 1)], layers = l_.begins.back();
    const std::vector<LayerCost>& parts = m_.parts.at(l_.cut);
    const auto cost = [&](int i) -> const LayerCost& {
      return i < first ? m_.layers[at(i)] : i < layers ? parts[at(i - m_.cut_from)] : m_.loss;
    };
    free_.assign(1, 0);
    busy_.assign(1, 0);
    const double hops = std::ceil(std::log2(l_.cut));
    // After a cut layer.
    const auto crossing = [&](int i) -> double {
      const nn::CutAs as = cost(i).as;
      const double bytes = batch_ * m_.layers[at(i)].out;
      if (as == nn::CutAs::row || as == nn::CutAs::row_of_whole)
        return links_.sum(0, 1, l_.cut, {bytes});
      return as == nn::CutAs::gathered ? (l_.cut - 1) * links_.copy(0, 1, bytes / l_.cut) : 0;
    };
    // The measured time of cut layers, over the time of the single layers with their sums.
    const auto together = [&](Curve PassCost::*what) {
      const auto measured = m_.cut.find(l_.cut);
      if (measured == m_.cut.end()) return 1.;
      double apart = 0;
      for (int i = first; i < layers; ++i)
        apart += (cost(i).*what).at(batch_) * pace_ + crossing(i);
      const double scale = apart > 0 ? (measured->second.*what).at(batch_) / apart : 1;
      return crosses_ ? scale : std::min(scale, 1.);
    };
    // The same ratio for the host, loss included.
    const auto host = m_.cut_host.find(l_.cut);
    const auto issue_scale = [&](Curve PassCost::*what, int i) {
      if (i < first || host == m_.cut_host.end())
        return (i < first || i == layers ? 1 : l_.cut) * m_.issue_scale(what, batch_, 1, 1);
      double apart = 0;
      for (int k = first; k <= layers; ++k) apart += (cost(k).issue.*what).at(batch_);
      return apart > 0 ? (host->second.*what).at(batch_) / apart : 1;
    };
    const auto layer = [&](int i, bool backward) {
      const auto what = backward ? &PassCost::backward : &PassCost::forward;
      const bool is_cut = i >= first && i < layers;
      const double scale = is_cut ? together(what) : m_.scale(what, batch_);
      run(0, 0,
          {scale * (cost(i).*what).at(batch_),
           issue_scale(what, i) * (cost(i).issue.*what).at(batch_)},
          backward ? 'B' : 'F', i);
      const double sum = is_cut && crosses_ ? scale * crossing(i) : 0, begin = free_[0];
      if (sum == 0) return;
      free_[0] += sum;
      if (timeline_) timeline_->push_back({0, begin, free_[0], 'S'});
    };
    for (int i = 0; i <= layers; ++i) {
      if (i == first) free_[0] += hops * copy(0, 1, batch_ * out_bytes(i - 1));
      layer(i, false);
    }
    for (int i = layers; i >= 0; --i) {
      layer(i, true);
      if (i == first && i > 0 && crosses_)
        free_[0] += links_.sum(0, 1, l_.cut, {batch_ * out_bytes(i - 1)});
    }
    Pass update;
    for (int i = 0; i < layers; ++i) {
      update.compute += cost(i).update.value();
      if (i < first || host == m_.cut_host.end())
        update.issue += (i >= first ? l_.cut : 1) * cost(i).issue_update.value();
    }
    if (host != m_.cut_host.end()) update.issue += host->second.after.at(batch_);
    return std::max(run(0, 0, update, 'U'), clock_);
  }

  const Layout& l_;
  const ModelCost& m_;
  const Links& links_;
  const double batch_, pace_;
  const bool crosses_, issues_;
  std::vector<Work>* const timeline_;
  double clock_ = 0;
  std::vector<double> free_, busy_;  // by stage
};

// Bytes on the devices of each stage.
std::vector<double> held(const Layout& l, const ModelCost& m, const Links& links, double batch) {
  std::vector<double> all;
  if (l.cut > 1) {
    const int first = l.begins[at(l.stages() - 1)];
    double shared = 0, own = m.loss.held.at(batch);
    for (int i = 0; i < l.begins.back(); ++i) {
      const LayerCost& c = i < first ? m.layers[at(i)] : m.parts.at(l.cut)[at(i - m.cut_from)];
      (i < first ? own : shared) += c.fixed + c.held.at(batch);
    }
    // A copy of the input, unless the first device computed the input.
    const double in = batch * (first > 0 ? m.layers[at(first - 1)].out : m.in);
    all.assign(at(l.cut), shared + in);
    all[0] = shared + own + (first > 0 ? 0 : in);
    return all;
  }
  const int p = l.stages();
  const double n = batch / l.replicas / l.microbatches;
  for (int s = 0; s < p; ++s) {
    const int ahead =
        l.schedule == nn::Schedule::gpipe ? l.microbatches : std::min(p - s, l.microbatches);
    double fixed = 0, flight = 0;
    std::vector<double> gradients;
    for (int i = l.begins[at(s)]; i < l.begins[at(s + 1)]; ++i) {
      const LayerCost& c = m.layers[at(i)];
      fixed += c.fixed;
      gradients.insert(gradients.end(), c.gradients.begin(), c.gradients.end());
      flight += c.held.at(n);
    }
    if (s + 1 == p) flight += m.loss.held.at(n);
    // Inputs, one microbatch early, with their gradients; then the gradient of the result.
    double between = 0;
    if (s > 0)
      between +=
          (ahead + std::min(ahead + 1, l.microbatches)) * n * m.layers[at(l.begins[at(s)] - 1)].out;
    else if (l.replicas > 1)
      between += ahead * n * m.in;
    if (s + 1 < p) between += n * m.layers[at(l.begins[at(s + 1)] - 1)].out;
    const double sums = l.replicas > 1 ? links.sum_held(l.replicas, gradients) : 0;
    all.push_back(fixed + std::max(ahead * flight + between, sums));
  }
  return all;
}

}  // namespace

void Samples::add(double value) { sorted_.insert(std::ranges::upper_bound(sorted_, value), value); }

double Curve::at(double size) const {
  if (points_.empty()) return 0;
  const auto above = points_.lower_bound(size);
  if (above == points_.begin()) return above->second.value();
  auto low = std::prev(above), high = above;
  double least = 0;
  if (above == points_.end()) {
    if (points_.size() == 1) return low->second.value() * size / low->first;
    high = low--;
    least = high->second.value();
  }
  const double share = (size - low->first) / (high->first - low->first), from = low->second.value(),
               to = high->second.value();
  return std::max(least, from + share * (to - from));
}

double ModelCost::scale(Curve PassCost::*what, double samples) const {
  double apart = (loss.*what).at(samples);
  for (const LayerCost& l : layers) apart += (l.*what).at(samples);
  return apart > 0 && !(whole.*what).empty() ? (whole.*what).at(samples) / apart : 1;
}

double ModelCost::issue_scale(Curve PassCost::*what, double samples, int s, int r) const {
  double apart = (loss.issue.*what).at(samples);
  for (const LayerCost& l : layers) apart += (l.issue.*what).at(samples);
  const double one = (host.*what).at(samples);
  if (apart <= 0 || one <= 0) return 1;
  double scale = one / apart;
  for (const auto& [measured, n] : {std::pair(&stages, s), std::pair(&replicas, r)})
    if (const auto found = measured->find(n); found != measured->end())
      scale *= (found->second.*what).at(samples) / one;
  return scale;
}

double ModelCost::aside(Curve HostCost::*what, double samples, int s, int r, double sum) const {
  if ((host.*what).empty()) return sum;
  const double one = (host.*what).at(samples);
  double all = one;
  for (const auto& [measured, n] : {std::pair(&stages, s), std::pair(&replicas, r)})
    if (const auto found = measured->find(n); found != measured->end())
      all += (found->second.*what).at(samples) - one;
  return std::max(0., all);
}

const char* Layout::kind() const {
  return cut > 1                        ? "tensor"
         : stages() > 1 && replicas > 1 ? "mixed"
         : stages() > 1                 ? "pipeline"
         : replicas > 1                 ? "data"
                                        : "one";
}

nn::Plan Layout::plan(const std::vector<Context>& contexts) const {
  nn::Plan p;
  p.microbatches = microbatches;
  p.schedule = schedule;
  for (int s = 0; s < stages(); ++s) {
    nn::Plan::Stage stage{.first = begins[at(s)], .last = begins[at(s + 1)] - 1};
    stage.cut = cut > 1 && s + 1 == stages();
    const int n = stage.cut ? cut : cut > 1 ? 1 : replicas, stride = cut > 1 ? 1 : stages();
    for (int r = 0; r < n; ++r)
      stage.contexts.push_back(contexts.at(at(r * stride + (cut > 1 ? 0 : s))));
    p.stages.push_back(stage);
  }
  return p;
}

std::string Layout::summary() const { return plan(gpus(devices())).summary(); }

double Prediction::most_held() const { return *std::ranges::max_element(held); }

const char* Prediction::bound() const {
  const double most = std::max({compute, bubble, link, host});
  return most == compute ? "compute" : most == bubble ? "bubble" : most == link ? "link" : "host";
}

Prediction predict(const Layout& layout, const ModelCost& model, const Links& links,
                   int64_t batch) {
  const auto n = static_cast<double>(batch);
  Prediction p;
  p.layout = layout;
  // The average number of busy devices determines how they slow each other down.
  Walk quiet(layout, model, links, n, 1, true, true);
  const double share = quiet.seconds() > 0 ? quiet.busy() / quiet.seconds() : 1,
               samples = n / (layout.replicas * layout.microbatches);
  const double pace = links.pace(
      model.serial ? layout.replicas : std::max(layout.replicas, layout.cut) * share, samples);
  Walk alone(layout, model, links, n, pace, false, false),
      linked(layout, model, links, n, pace, true, false);
  const double ideal = alone.seconds(), crossing = linked.seconds();
  p.compute = alone.busiest();
  p.seconds = Walk(layout, model, links, n, pace, true, true, &p.timeline).seconds() +
              links.waited(layout.devices());
  p.bubble = std::max(0., ideal - p.compute);
  p.link = std::max(0., crossing - ideal);
  p.host = std::max(0., p.seconds - crossing);
  p.held = held(layout, model, links, n);
  return p;
}

}  // namespace planning
