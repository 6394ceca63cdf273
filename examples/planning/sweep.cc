#include "planning/sweep.h"

#include <locus/locus.h>

#include "common/measure.h"

namespace planning {

using namespace locus;

Shape batch_of(int64_t samples, const Shape& sample) {
  std::vector<int64_t> lengths{samples};
  lengths.insert(lengths.end(), sample.begin(), sample.end());
  return Shape(lengths);
}

namespace {

Shape sample_of(const Tensor& batch) {
  const Shape s = batch.shape();
  return {s.begin() + 1, s.rank() - 1};
}

}  // namespace

std::vector<Sweep::Layer> Sweep::layers_of(const Model& model) {
  const nn::Sequential net = model.make();
  std::vector<Layer> layers;
  net[0];  // IndexError for none
  Tensor x = zeros(batch_of(1, model.sample), cpu());
  for (const auto& [name, block] : net.children()) {
    Layer layer{block, sample_of(x), {}, layers.empty()};
    block->initialize(init::Xavier(), cpu());
    x = (*block)(x);
    layer.out = sample_of(x);
    layers.push_back(layer);
  }
  return layers;
}

Sweep::Sweep(std::vector<Layer> layers, int64_t classes, Context c, int64_t samples)
    : layers_(std::move(layers)), context_(c), samples_(samples) {
  nn::Parameters all;
  const auto values = [&](const Shape& sample) {
    return random::uniform(-1, 1, batch_of(samples, sample), c);
  };
  const auto input = [&](const Shape& sample, bool first) {
    in_.push_back(values(sample));
    if (!first) in_.back().attach_grad();
  };
  for (const Layer& l : layers_) {
    l.block->initialize(init::Xavier(), c, {.force_reinit = true});
    input(l.in, l.first);
    for (const auto& [name, p] : l.block->parameters())
      all.emplace_back(std::to_string(all.size()), p);
    head_.push_back(values(l.out));
  }
  input({classes}, false);
  label_ = random::randint(0, classes, {samples}, c);
  head_.emplace_back();
  if (!all.empty())
    trainer_ =
        std::make_unique<nn::Trainer>(all, optim::SGD({.learning_rate = 1e-6, .momentum = 0.9}));
}

Tensor Sweep::forward(size_t i) {
  const autograd::Record record;
  return i < layers_.size() ? (*layers_[i].block)(in_[i]) : loss_(in_[i], label_);
}

void Sweep::run() {
  Tensors out;
  for (size_t i = 0; i <= layers_.size(); ++i) out.push_back(forward(i));
  for (size_t i = out.size(); i-- > 0;) out[i].backward({.head_gradient = head_[i]});
  if (trainer_) trainer_->step(samples_, true);
}

Sweep::Round Sweep::round(const std::function<void()>& ahead) {
  const size_t n = layers_.size() + 1;
  examples::Moments moments({context_});
  struct Part {
    Times* times;
    examples::Moments::Moment from, to;
  };
  std::vector<Part> parts;
  const auto timed = [&](Times& t, const auto& what) {
    const auto from = moments.take(context_);
    const double start = examples::now();
    what();
    t.issue = examples::now() - start;
    parts.push_back({&t, from, moments.take(context_)});
  };
  Round r;
  for (auto* list : {&r.forward, &r.backward, &r.again}) list->resize(n);
  r.held.resize(n);
  Times nothing;
  ahead();
  timed(nothing, [] {});
  {
    const autograd::Accumulate accumulate;
    for (int pass = 0; pass < 2; ++pass) {
      Tensors out(n);
      for (size_t i = 0; i < n; ++i) {
        const size_t before = memory_pool(context_).stats().in_use;
        timed(r.forward[i], [&] { out[i] = forward(i); });
        const size_t after = memory_pool(context_).stats().in_use;
        r.held[i] = after > before ? static_cast<double>(after - before) : 0;
      }
      for (size_t i = n; i-- > 0;)
        timed((pass == 0 ? r.backward : r.again)[i],
              [&] { std::exchange(out[i], {}).backward({.head_gradient = head_[i]}); });
    }
  }
  if (trainer_) timed(r.update, [&] { trainer_->step(samples_, true); });
  wait_all();
  for (const Part& p : parts) {
    p.times->compute = moments.time(p.to) - moments.time(p.from);
    if (p.times != &nothing) p.times->compute = std::max(0., p.times->compute - nothing.compute);
  }
  return r;
}

}  // namespace planning
