#include "planning/measured.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <locus/locus.h>

#include "common/measure.h"
#include "planning/sweep.h"

namespace planning {

using namespace locus;

namespace {

double bytes_of(const Shape& sample) { return static_cast<double>(sample.size()) * sizeof(float); }

// Work for a context that lasts for as long as the host needs to issue a round.
class Ahead {
 public:
  explicit Ahead(Context c) : a_(random::uniform(-1, 1, {512, 512}, c)) {}
  void operator()() const {
    for (int i = 0; i < count_; ++i) dot(a_, a_);
  }
  void cover(double seconds) {
    if (is_host(a_.context())) return;
    const examples::Timing t = examples::measure([&] {
      for (int i = 0; i < 10; ++i) dot(a_, a_);
      wait_all();
    });
    count_ = static_cast<int>(std::clamp(std::ceil(1.5 * seconds / (t.median / 10)), 1., 1000.));
  }

 private:
  Tensor a_;
  int count_ = 0;
};

double issued(const Sweep::Round& r) {
  double all = r.update.issue;
  for (const auto* list : {&r.forward, &r.backward, &r.again})
    for (const Sweep::Times& t : *list) all += t.issue;
  return all;
}

// Rounds are samples of the layers and, behind them, of the loss.
void measure_at(Sweep& sweep, int64_t samples, Context c, int rounds,
                const std::vector<LayerCost*>& costs) {
  const auto n = static_cast<double>(samples);
  const bool host = is_host(c), again = costs[0]->forward.has(n);
  double trained = 0, tensors = 0;
  for (const LayerCost* l : costs) {
    trained += std::accumulate(l->gradients.begin(), l->gradients.end(), 0.);
    tensors += static_cast<double>(l->gradients.size());
  }
  Ahead ahead(c);
  // The pace of an emulated GPU's kernel is settled after a dozen runs.
  const int warm_up = again ? 1 : context_info(c).modelled ? 12 : 2;
  for (int i = 0; i < warm_up; ++i) {
    const Sweep::Round r = sweep.round([] {});
    if (i + 1 == warm_up) ahead.cover(issued(r));
  }
  for (int round = 0; round < rounds; ++round) {
    const Sweep::Round r = sweep.round(ahead);
    for (size_t i = 0; i < costs.size(); ++i) {
      LayerCost& l = *costs[i];
      l.forward.add(n, r.forward[i].compute);
      l.backward.add(n, r.backward[i].compute);
      l.again.add(n, r.again[i].compute);
      l.issue_forward.add(n, host ? 0 : r.forward[i].issue);
      l.issue_backward.add(n, host ? 0 : r.backward[i].issue);
      l.held.add(n, r.held[i]);
      if (l.gradients.empty()) continue;
      const double mine = std::accumulate(l.gradients.begin(), l.gradients.end(), 0.);
      l.update.add(r.update.compute * mine / trained);
      l.issue_update.add(host ? 0
                              : r.update.issue * static_cast<double>(l.gradients.size()) / tensors);
    }
  }
}

LayerCost described(const Sweep::Layer& layer) {
  LayerCost l;
  l.name = layer.block->repr();
  for (const auto& [name, p] : layer.block->parameters()) {
    const double bytes = static_cast<double>(p.shape().size() * size_of(p.dtype()));
    const bool trained = p.grad_req() != GradReq::null;
    l.fixed += (trained ? 3 : 1) * bytes;  // with its gradient and its momentum
    if (trained) l.gradients.push_back(bytes);
  }
  l.out = bytes_of(layer.out);
  return l;
}

// The first of several parts of a layer: with as many of its units, or of its inputs.
Sweep::Layer part_of(const Sweep::Layer& layer, nn::CutAs as, int64_t parts, bool cut_before) {
  const auto share = [&](int64_t n) { return (n + parts - 1) / parts; };
  const auto* const d = dynamic_cast<const nn::Dense*>(layer.block.get());
  Sweep::Layer part = layer;
  if (!d) {
    if (cut_before) part.in = part.out = {share(layer.in[-1])};
    return part;
  }
  const bool row = as == nn::CutAs::row || as == nn::CutAs::row_of_whole;
  const int64_t in = row ? share(layer.in.size()) : layer.in.size(),
                units = row ? d->units() : share(d->units());
  part.in = {as == nn::CutAs::row ? in : layer.in.size()};
  part.out = {units};
  nn::Sequential made;
  if (as == nn::CutAs::row_of_whole)
    made.add(nn::Lambda([in](const Tensor& x) { return slice_axis(x, -1, Slice(0, in)); }, "part"));
  // A row's activation comes behind its sum.
  made.add(nn::Dense(units, row ? nn::Activation{} : d->activation(), {.in_units = in}));
  if (row && d->activation().apply) made.add(nn::Activate(d->activation()));
  part.block = std::make_shared<nn::Sequential>(made);
  return part;
}

// The first layer from which on all can be cut, and how; else -1.
int cut_from(const nn::Sequential& net, std::vector<nn::CutAs>& as) {
  for (int i = 0; i < net.size(); ++i) try {
      as = nn::cut_as(net, i, net.size() - 1);
      return i;
    } catch (const Error&) {
    }
  return -1;
}

}  // namespace

void measure_layers(const Model& model, Context c, const LayerMeasurements& what, ModelCost& m) {
  m.in = bytes_of(model.sample);
  m.serial = is_host(c);
  const std::vector<Sweep::Layer> layers = Sweep::layers_of(model);
  const auto costs_of = [](std::vector<LayerCost>& list, const std::vector<Sweep::Layer>& of,
                           LayerCost& loss) {
    if (list.empty())
      for (const Sweep::Layer& l : of) list.push_back(described(l));
    std::vector<LayerCost*> costs;
    for (LayerCost& l : list) costs.push_back(&l);
    costs.push_back(&loss);
    return costs;
  };
  m.loss.name = "loss";
  const std::vector<LayerCost*> costs = costs_of(m.layers, layers, m.loss);
  for (const int64_t n : what.samples) {
    Sweep sweep(layers, model.classes, c, n);
    measure_at(sweep, n, c, what.rounds, costs);
  }
  std::vector<nn::CutAs> as;
  m.cut_from = cut_from(model.make(), as);
  for (const int parts : what.cuts) {
    if (m.cut_from < 0) break;
    std::vector<Sweep::Layer> cut;
    bool open = false;
    for (size_t k = 0; k < as.size(); ++k) {
      cut.push_back(part_of(layers[static_cast<size_t>(m.cut_from) + k], as[k], parts, open));
      open = as[k] == nn::CutAs::column || (open && as[k] == nn::CutAs::each);
    }
    std::vector<LayerCost>& list = m.parts[parts];
    LayerCost loss;
    Sweep sweep(cut, model.classes, c, what.samples[0]);
    measure_at(sweep, what.samples[0], c, what.rounds, costs_of(list, cut, loss));
    for (size_t k = 0; k < as.size(); ++k) list[k].as = as[k];
  }
}

namespace {

// Seconds of f, of which so many are enqueued one behind the other.
double each(int times, const std::function<void()>& f) {
  return examples::measure(
             [&] {
               for (int i = 0; i < times; ++i) f();
               wait_all();
             },
             {.seconds = .05})
             .median /
         times;
}

// Of emulated GPUs no more than their memory is quick for: what is beyond follows.
std::vector<double> sizes(Context c) {
  std::vector<double> all{4096, 65536, 1 << 20, 4 << 20};
  if (examples::real_gpu(c)) all.push_back(64 << 20);
  return all;
}

Curve measure_copies(Context a, Context b) {
  Curve curve;
  for (const double bytes : sizes(a)) {
    const Tensor start = zeros({static_cast<int64_t>(bytes) / 4}, a);
    Tensor there = start;
    // There and back, each waiting for the one before.
    curve.add(bytes, each(8, [&] { there = there.copyto(there.context() == a ? b : a); }));
  }
  return curve;
}

Tensors replicas(const std::vector<Context>& where, double bytes) {
  Tensors all;
  for (const Context c : where) all.push_back(zeros({static_cast<int64_t>(bytes) / 4}, c));
  return all;
}

}  // namespace

MeasuredLinks::MeasuredLinks(const std::vector<Context>& contexts) : contexts_(contexts) {
  if (contexts.size() < 2) return;
  copy_ = measure_copies(contexts[0], contexts[1]);
  for (size_t n = 2; n <= contexts.size(); ++n) {
    const std::vector<Context> some(contexts.begin(), contexts.begin() + static_cast<ptrdiff_t>(n));
    const Group group(some);
    Sums& sums = sums_[static_cast<int>(n)];
    // Where sums need memory, one at a time does.
    const int times = examples::real_gpu(contexts[0]) ? 8 : 1;
    for (const double bytes : sizes(contexts[0])) {
      std::vector<Tensors> tensors(4);
      for (Tensors& t : tensors) t = replicas(some, bytes);
      const double one = each(times, [&] { all_reduce_many(group, std::span(tensors).first(1)); }),
                   four = each(times, [&] { all_reduce_many(group, tensors); });
      sums.first.add(bytes, one);
      sums.more.add(bytes, std::max(0., (four - one) / 3));
    }
  }
}

void MeasuredLinks::watch_pace(const Model& model, const std::vector<int64_t>& samples) {
  if (examples::real_gpu(contexts_[0])) return;
  for (const int64_t n : samples)
    for (const Context c : contexts_)
      sweeps_[n].push_back(std::make_unique<Sweep>(Sweep::layers_of(model), model.classes, c, n));
}

void MeasuredLinks::sample_pace(int n) {
  const std::vector<Context> some(contexts_.begin(), contexts_.begin() + n);
  for (const auto& [samples, sweeps] : sweeps_)
    for (int i = -1; i < 3; ++i) {
      const double start = examples::now();
      parallel(some, [&](int k) { sweeps[static_cast<size_t>(k)]->run(); });
      wait_all();
      if (i >= 0) steps_[samples].add(n, examples::now() - start);
    }
}

double MeasuredLinks::pace(double busy, double samples) const {
  if (steps_.empty()) return 1;
  Curve slower;
  for (const auto& [n, steps] : steps_)
    slower.add(static_cast<double>(n), steps.at(std::max(1., busy)) / steps.at(1));
  return slower.at(std::min(samples, static_cast<double>(steps_.rbegin()->first)));
}

double MeasuredLinks::sum(int, int, int n, const std::vector<double>& bytes) const {
  if (n < 2 || bytes.empty()) return 0;
  const Sums& sums = sums_.at(n);
  const double largest = *std::ranges::max_element(bytes);
  double all = sums.first.at(largest) - sums.more.at(largest);
  for (const double b : bytes) all += sums.more.at(b);
  return all;
}

}  // namespace planning
