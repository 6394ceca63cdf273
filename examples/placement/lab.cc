#include "placement/lab.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <tuple>

#include <fmt/format.h>

#include "common/measure.h"

using namespace locus;

namespace placement {
namespace {

constexpr int kWarmUp = 3;

double now_ms() { return examples::now() * 1000; }

// Every placement with exactly `left` more changes after `p`, in the contexts' order.
void extend(const std::vector<Context>& contexts, size_t layers, int left, size_t limit,
            Placement& p, std::vector<Placement>& out) {
  if (out.size() == limit) return;
  if (p.size() == layers) {
    if (left == 0) out.push_back(p);
    return;
  }
  for (const Context& c : contexts) {
    const int cost = !p.empty() && p.back() != c ? 1 : 0;
    if (cost > left || left - cost > static_cast<int>(layers - p.size()) - 1) continue;
    p.push_back(c);
    extend(contexts, layers, left - cost, limit, p, out);
    p.pop_back();
  }
}

// The network as one Sequential, with a To wherever the context changes.
struct Net {
  Net(const Model& m, const Placement& p) : first(p.front()) {
    random::seed(7);
    Context at = cpu(0);
    for (int i = 0; i < m.layers(); ++i) {
      const Context c = p[static_cast<size_t>(i)];
      nn::Dense layer(m.units(i), i + 1 == m.layers() ? nn::Activation{} : nn::relu,
                      {.in_units = m.width(i)});
      layer.initialize(init::Xavier(), c);
      if (c != at) whole.add(nn::To(c));
      whole.add(layer);
      layers.push_back(layer);
      at = c;
    }
    trainer = std::make_unique<nn::Trainer>(whole.parameters(),
                                            optim::SGD({.learning_rate = 0.01, .momentum = 0.9}));
    image = random::uniform(0, 1, {m.batch, m.inputs}, cpu(0));
    label = random::randint(0, m.classes, {m.batch}, cpu(0)).as_in_context(at);
    compiled = std::make_unique<nn::TrainStep>(whole, loss_fn, *trainer);
  }
  Tensor step() {
    Tensor loss;
    {
      const autograd::Record record;
      loss = loss_fn(whole(image), label);
    }
    loss.backward();
    trainer->step(image.shape()[0]);
    return loss;
  }
  // The batch is copied before the call, because a replay cannot read pageable memory.
  Tensor replayed_step() { return (*compiled)(image.as_in_context(first), label); }

  Context first;
  nn::Sequential whole;
  std::vector<nn::Dense> layers;
  nn::SoftmaxCrossEntropyLoss loss_fn;
  std::unique_ptr<nn::Trainer> trainer;
  std::unique_ptr<nn::TrainStep> compiled;
  Tensor image, label;
};

// Runs the step layer by layer. Waits for each part and times it.
class Tracer {
 public:
  Tracer(Net& net, const Placement& p, const std::vector<Context>& contexts)
      : net_(net), placement_(p) {
    for (const Context& c : contexts) memory_.push_back({c, 0});
  }

  std::vector<Part> step() {
    parts_.clear();
    const size_t n = net_.layers.size();
    Tensors in(n), out(n);
    Tensor x = net_.image;
    for (size_t i = 0; i < n; ++i) {
      x = move(x, placement_[i]);
      in[i] = x.detach();
      if (i > 0) in[i].attach_grad();
      run(Kind::forward, fmt::format("forward {}", i), placement_[i], [&] {
        const autograd::Record record;
        out[i] = net_.layers[i](in[i]);
        if (i + 1 == n) out[i] = net_.loss_fn(out[i], net_.label);
      });
      x = out[i].detach();
    }
    Tensor gradient;
    for (size_t i = n; i-- > 0;) {
      if (gradient.defined()) gradient = move(gradient, placement_[i]);
      run(Kind::backward, fmt::format("backward {}", i), placement_[i],
          [&] { out[i].backward({.head_gradient = gradient}); });
      gradient = i > 0 ? in[i].grad() : Tensor();
    }
    run(Kind::update, "update", placement_.back(),
        [&] { net_.trainer->step(net_.image.shape()[0]); });
    return parts_;
  }
  const std::vector<Memory>& memory() const { return memory_; }

 private:
  void run(Kind kind, const std::string& name, Context where, const std::function<void()>& body) {
    const double start = now_ms();
    body();
    wait_all();
    parts_.push_back({kind, name, where, where, 0, now_ms() - start});
    for (Memory& m : memory_) m.bytes = std::max(m.bytes, memory_pool(m.context).stats().in_use);
  }
  Tensor move(const Tensor& x, Context to) {
    if (x.context() == to) return x;
    Tensor there;
    run(Kind::move, fmt::format("{} > {}", to_string(x.context()), to_string(to)), to,
        [&] { there = x.copyto(to); });
    parts_.back().from = x.context();
    parts_.back().bytes = static_cast<size_t>(x.size()) * static_cast<size_t>(size_of(x.dtype()));
    return there;
  }

  Net& net_;
  const Placement& placement_;
  std::vector<Part> parts_;
  std::vector<Memory> memory_;
};

// Median milliseconds of a step after the warm-up, and the last loss.
std::pair<double, double> time_steps(int steps, const std::function<Tensor()>& step) {
  std::vector<double> times;
  Tensor loss;
  for (int i = -kWarmUp; i < steps; ++i) {
    const double start = now_ms();
    loss = step();
    wait_all();
    if (i >= 0) times.push_back(now_ms() - start);
  }
  return {examples::median(times), static_cast<double>(loss.mean().item<float>())};
}

// The same steps from the same start, so the last loss must be `expected`.
void measure_compiled(const Model& model, Trial& r, int steps, double expected) {
  Net net(model, r.placement);
  try {
    net.replayed_step();
  } catch (const CaptureError& e) {
    r.not_compiled = e.what();
    return;
  }
  const auto [ms, loss] = time_steps(steps, [&] { return net.replayed_step(); });
  if (loss != expected)
    throw Error(fmt::format("the loss under {} is {} compiled and {} as it runs; expected the same",
                            text(r.placement), loss, expected));
  r.compiled_ms = ms;
}

}  // namespace

int changes(const Placement& p) {
  int n = 0;
  for (size_t i = 1; i < p.size(); ++i) n += p[i] != p[i - 1] ? 1 : 0;
  return n;
}

std::string text(const Placement& p) {
  std::string s;
  for (size_t i = 0; i < p.size();) {
    size_t end = i + 1;
    while (end < p.size() && p[end] == p[i]) ++end;
    s += (s.empty() ? "" : " > ") + to_string(p[i]);
    if (end - i > 1) s += fmt::format(" x{}", end - i);
    i = end;
  }
  return s;
}

std::string in_words(const Placement& p) {
  std::string s;
  for (size_t i = 0, end = 0; i < p.size(); i = end) {
    while (end < p.size() && p[end] == p[i]) ++end;
    s += (s.empty() ? "" : ", ") +
         (end - i == 1 ? fmt::format("layer {}", i) : fmt::format("layers {}-{}", i, end - 1));
    s += " on " + to_string(p[i]);
  }
  return s;
}

std::vector<Placement> placements(const std::vector<Context>& contexts, int layers, size_t limit) {
  std::vector<Placement> out;
  Placement p;
  for (int n = 0; n < layers && out.size() < limit; ++n)
    extend(contexts, static_cast<size_t>(layers), n, limit, p, out);
  return out;
}

double Trial::move_ms() const {
  double sum = 0;
  for (const Part& p : parts) sum += p.kind == Kind::move ? p.ms : 0;
  return sum;
}
double Trial::compute_ms() const {
  double sum = 0;
  for (const Part& p : parts) sum += p.kind == Kind::move ? 0 : p.ms;
  return sum;
}
size_t Trial::moved_bytes() const {
  size_t sum = 0;
  for (const Part& p : parts) sum += p.bytes;
  return sum;
}
int Trial::moves() const {
  int n = 0;
  for (const Part& p : parts) n += p.kind == Kind::move ? 1 : 0;
  return n;
}

bool tied(const Trial& a, const Trial& b) {
  return std::abs(a.step_ms - b.step_ms) <= a.spread_ms + b.spread_ms;
}

Trial combine(const std::vector<Trial>& trials) {
  Trial out = trials[0];
  const auto over_trials = [&](auto&& value) {
    std::vector<double> v;
    for (const Trial& t : trials) v.push_back(value(t));
    return examples::median(v);
  };
  out.step_ms = over_trials([](const Trial& t) { return t.step_ms; });
  if (out.compiled_ms) out.compiled_ms = over_trials([](const Trial& t) { return *t.compiled_ms; });
  const auto [least, most] =
      std::minmax_element(trials.begin(), trials.end(),
                          [](const Trial& a, const Trial& b) { return a.step_ms < b.step_ms; });
  out.spread_ms = (most->step_ms - least->step_ms) / 2;
  for (size_t k = 0; k < out.parts.size(); ++k)
    out.parts[k].ms = over_trials([&](const Trial& t) { return t.parts[k].ms; });
  for (size_t k = 0; k < out.memory.size(); ++k)
    for (const Trial& t : trials)
      out.memory[k].bytes = std::max(out.memory[k].bytes, t.memory[k].bytes);
  return out;
}

Trial measure(const Model& model, const Placement& placement, const std::vector<Context>& contexts,
              int steps) {
  wait_all();
  std::vector<size_t> before;
  for (const Context& c : contexts) {
    memory_pool(c).release_cached();  // also blocks of the last network's streams
    before.push_back(memory_pool(c).stats().in_use);
  }
  Net net(model, placement);
  Trial r;
  r.placement = placement;
  r.loss = static_cast<double>(net.step().mean().item<float>());
  double last_loss = 0;
  std::tie(r.step_ms, last_loss) = time_steps(steps, [&] { return net.step(); });

  Tracer tracer(net, placement, contexts);
  std::vector<std::vector<double>> parts;
  for (int i = -1; i < steps; ++i) {
    r.parts = tracer.step();
    if (i < 0) continue;
    parts.resize(r.parts.size());
    for (size_t k = 0; k < parts.size(); ++k) parts[k].push_back(r.parts[k].ms);
  }
  for (size_t k = 0; k < parts.size(); ++k) r.parts[k].ms = examples::median(parts[k]);
  r.memory = tracer.memory();
  for (size_t k = 0; k < before.size(); ++k)
    r.memory[k].bytes -= std::min(before[k], r.memory[k].bytes);
  measure_compiled(model, r, steps, last_loss);
  return r;
}

std::vector<CompiledCall> recorded(const Model& model, const Placement& placement) {
  Net net(model, placement);
  net.replayed_step();
  return net.compiled->calls();
}

}  // namespace placement
