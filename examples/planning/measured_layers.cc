#include "planning/measured_layers.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <numeric>

#include <fmt/format.h>
#include <locus/locus.h>

#include "common/measure.h"
#include "planning/candidates.h"
#include "planning/sweep.h"
#include "planning/trial.h"

namespace planning {

using namespace locus;

namespace {

double bytes_of(const Shape& sample) { return static_cast<double>(sample.size()) * sizeof(float); }

// Keeps a context busy while the host enqueues a round. Few long products, so that enqueuing them
// is cheap.
class Ahead {
 public:
  explicit Ahead(Context c) {
    const int64_t n = examples::real_gpu(c) ? 2048 : 512;
    a_ = random::uniform(-1, 1, {n, n}, c);
  }
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

// An emulated GPU's modelled pace settles after a dozen runs.
int warm_up(Context c, bool warm) { return warm ? 1 : context_info(c).modelled ? 12 : 2; }

// Adds rounds as samples of the layers and of the loss (last).
void measure_at(Sweep& sweep, int64_t samples, Context c, const LayerMeasurements& what,
                const std::vector<LayerCost*>& costs) {
  const auto n = static_cast<double>(samples);
  const bool host = is_host(c);
  double trained = 0, tensors = 0;
  for (const LayerCost* l : costs) {
    trained += std::accumulate(l->gradients.begin(), l->gradients.end(), 0.);
    tensors += static_cast<double>(l->gradients.size());
  }
  Ahead ahead(c);
  const int runs = warm_up(c, what.warm);
  for (int i = 0; i < runs; ++i) {
    const Sweep::Round r = sweep.round([] {});
    if (i + 1 == runs) ahead.cover(issued(r));
  }
  for (int round = 0; round < what.rounds; ++round) {
    const Sweep::Round r = sweep.round(ahead);
    for (size_t i = 0; i < costs.size(); ++i) {
      LayerCost& l = *costs[i];
      l.forward.add(n, r.forward[i].compute);
      l.backward.add(n, r.backward[i].compute);
      l.again.add(n, r.again[i].compute);
      l.issue.forward.add(n, host ? 0 : r.forward[i].issue);
      l.issue.backward.add(n, host ? 0 : r.backward[i].issue);
      l.issue.again.add(n, host ? 0 : r.again[i].issue);
      l.held.add(n, r.held[i]);
      if (l.gradients.empty()) continue;
      const double mine = std::accumulate(l.gradients.begin(), l.gradients.end(), 0.);
      l.update.add(r.update.compute * mine / trained);
      l.issue_update.add(host ? 0
                              : r.update.issue * static_cast<double>(l.gradients.size()) / tensors);
    }
  }
}

// Two microbatches through all layers, as a pipeline of one stage.
void measure_whole(const Model& model, Context c, int64_t samples, const LayerMeasurements& what,
                   PassCost& whole) {
  const auto n = static_cast<double>(samples);
  nn::Plan plan;
  plan.microbatches = 2;
  plan.stages.push_back({.first = 0, .last = model.make().size() - 1, .contexts = {c}});
  Trial trial(model, plan, 2 * samples);
  trial.times(warm_up(c, what.warm));
  Ahead ahead(c);
  for (int round = -1; round < what.rounds; ++round) {
    const double start = examples::now();
    const std::vector<Ran> ran = trial.trace(ahead);
    if (round < 0) ahead.cover(examples::now() - start);  // includes the callbacks
    for (const Ran& r : ran) {
      if (round < 0 || r.what == 'U') continue;
      const bool forward = r.what == 'F', again = r.microbatch > 0;
      (forward ? whole.forward : again ? whole.again : whole.backward).add(n, r.end - r.begin);
    }
  }
}

// The host's time for steps of a trial, recorded for each of `samples`.
void measure_host(Trial& trial, std::span<const int64_t> samples, HostCost& host) {
  const std::vector<Issued> all = trial.issued(10);
  const auto add = [&](Curve& curve, double Issued::*what) {
    std::vector<double> values;
    for (const Issued& i : all) values.push_back(i.*what);
    for (const int64_t n : samples) curve.add(static_cast<double>(n), examples::median(values));
  };
  add(host.forward, &Issued::forward);
  add(host.backward, &Issued::backward);
  add(host.again, &Issued::again);
  add(host.before, &Issued::before);
  add(host.after, &Issued::after);
}

// With two microbatches: on one context, over stages, over replicas.
void measure_host(const Model& model, std::span<const Context> contexts,
                  std::span<const int64_t> samples, ModelCost& m) {
  const std::vector<Context> where(contexts.begin(), contexts.end());
  const auto layers = static_cast<int>(m.layers.size());
  const auto measure = [&](std::vector<int> begins, int replicas, HostCost& host) {
    const Layout l{.begins = std::move(begins), .replicas = replicas, .microbatches = 2};
    Trial trial(model, l.plan(where), 2 * samples.back() * replicas);
    measure_host(trial, samples, host);
  };
  for (int k = 1; k <= static_cast<int>(where.size()); ++k) {
    if (k <= layers)
      measure(balanced(m, k, static_cast<double>(samples.back())), 1,
              k == 1 ? m.host : m.stages[k]);
    if (k > 1) measure({0, layers}, k, m.replicas[k]);
  }
}

// The layers from m.cut_from on, with their sums.
void measure_cut(const Model& model, const Shape& in, std::span<const Context> contexts,
                 int64_t samples, const LayerMeasurements& what, ModelCost& m) {
  const auto n = static_cast<double>(samples);
  const int first = m.cut_from;
  const auto make = [&] { return nn::Sequential(model.make()).slice(first, model.make().size()); };
  nn::Plan plan;
  plan.stages.push_back({.first = 0, .last = make().size() - 1, .cut = true});
  plan.stages[0].contexts.assign(contexts.begin(), contexts.end());
  PassCost& cut = m.cut[static_cast<int>(contexts.size())];
  Trial trial({model.name, make, in, model.classes}, plan, samples);
  trial.times(warm_up(contexts[0], what.warm));
  if (!m.serial) measure_host(trial, {&samples, 1}, m.cut_host[static_cast<int>(contexts.size())]);
  Ahead ahead(contexts[0]);  // the other contexts wait for its results
  for (int round = -1; round < what.rounds; ++round) {
    const double start = examples::now();
    const std::vector<Ran> ran = trial.trace(ahead);
    if (round < 0) {
      ahead.cover(examples::now() - start);
      continue;
    }
    double begin = 0, middle = 0, end = 0;
    for (const Ran& r : ran) {
      if (r.what == 'F' && r.where == contexts[0]) begin = r.begin, middle = r.end;
      if (r.what == 'B') end = std::max(end, r.end);
    }
    cut.forward.add(n, middle - begin - m.loss.forward.at(n));
    cut.backward.add(n, end - middle - m.loss.backward.at(n));
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

// The first part of a layer, with its share of the units or inputs.
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
  // A row layer's activation follows its sum.
  made.add(nn::Dense(units, row ? nn::Activation{} : d->activation(), {.in_units = in}));
  if (row && d->activation().apply) made.add(nn::Activate(d->activation()));
  part.block = std::make_shared<nn::Sequential>(made);
  return part;
}

// The first layer from which all layers can be cut, and how; else -1.
int cut_from(const nn::Sequential& net, std::vector<nn::CutAs>& as) {
  for (int i = 0; i < net.size(); ++i) try {
      as = nn::cut_as(net, i, net.size() - 1);
      return i;
    } catch (const Error&) {
    }
  return -1;
}

// Whether each Dense has enough units, or inputs, for so many parts.
bool has_parts(std::span<const Sweep::Layer> layers, const std::vector<nn::CutAs>& as, int parts) {
  for (size_t k = 0; k < as.size(); ++k) {
    const bool row = as[k] == nn::CutAs::row || as[k] == nn::CutAs::row_of_whole;
    if (as[k] != nn::CutAs::each && (row ? layers[k].in : layers[k].out).size() < parts)
      return false;
  }
  return true;
}

}  // namespace

ModelCost measure_layers(const Model& model, std::span<const Context> contexts,
                         const LayerMeasurements& what) try {
  const Context c = contexts[0];
  ModelCost m;
  m.in = bytes_of(model.sample);
  m.serial = is_host(c);
  const std::vector<Sweep::Layer> layers = Sweep::layers_of(model);
  const auto costs_of = [](std::vector<LayerCost>& list, const std::vector<Sweep::Layer>& of,
                           LayerCost& loss) {
    for (const Sweep::Layer& l : of) list.push_back(described(l));
    std::vector<LayerCost*> costs;
    for (LayerCost& l : list) costs.push_back(&l);
    costs.push_back(&loss);
    return costs;
  };
  m.loss.name = "loss";
  const std::vector<LayerCost*> costs = costs_of(m.layers, layers, m.loss);
  for (const int64_t n : what.samples) {
    what.begins(fmt::format("timing {} for {}", examples::counted(layers.size(), "layer"),
                            examples::counted(n, "sample")));
    Sweep sweep(layers, model.classes, c, n);
    measure_at(sweep, n, c, what, costs);
    measure_whole(model, c, n, what, m.whole);
  }
  // An emulated GPU computes so slowly that the host's time does not depend on the size.
  const std::span<const int64_t> all(what.samples);
  if (!m.serial) what.begins("timing what the host takes for a step");
  for (size_t i = 0; !m.serial && i < (examples::real_gpu(c) ? all.size() : 1); ++i)
    measure_host(model, contexts, examples::real_gpu(c) ? all.subspan(i, 1) : all, m);
  std::vector<nn::CutAs> as;
  m.cut_from = cut_from(model.make(), as);
  for (const int parts : what.cuts) {
    if (m.cut_from < 0) break;
    if (!has_parts(std::span(layers).subspan(static_cast<size_t>(m.cut_from)), as, parts)) continue;
    what.begins(fmt::format("timing layers cut over {}", examples::counted(parts, "context")));
    std::vector<Sweep::Layer> cut;
    bool open = false;
    for (size_t k = 0; k < as.size(); ++k) {
      cut.push_back(part_of(layers[static_cast<size_t>(m.cut_from) + k], as[k], parts, open));
      open = as[k] == nn::CutAs::column || (open && as[k] == nn::CutAs::each);
    }
    std::vector<LayerCost>& list = m.parts[parts];
    LayerCost loss;
    const int64_t n = what.samples[0] * (what.each ? parts : 1);
    Sweep sweep(cut, model.classes, c, n);
    measure_at(sweep, n, c, what, costs_of(list, cut, loss));
    for (size_t k = 0; k < as.size(); ++k) list[k].as = as[k];
    if (static_cast<size_t>(parts) <= contexts.size())
      measure_cut(model, layers[static_cast<size_t>(m.cut_from)].in,
                  contexts.first(static_cast<size_t>(parts)), n, what, m);
  }
  return m;
} catch (const OutOfMemory&) {
  std::rethrow_exception(locus::reworded([&](const std::string& text) {
    return fmt::format(
        "{}; layers are measured on {}, which must hold the whole network and two microbatches of "
        "{} samples: a smaller --batch-size needs less{}",
        text, to_string(contexts[0]), std::ranges::max(what.samples),
        examples::more_memory(contexts[0]));
  }));
}

}  // namespace planning
