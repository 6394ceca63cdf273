#include <locus/nn/pipeline.h>

#include <algorithm>
#include <span>
#include <typeinfo>

#include <locus/core/accumulate.h>
#include <locus/core/autograd.h>
#include <locus/core/base/at_line.h>
#include <locus/core/error.h>
#include <locus/core/observe/memory_events.h>
#include <locus/core/tape/grad_memory.h>
#include <locus/core/wait_for.h>
#include <locus/nn/block/sharded_tensor.h>
#include <locus/nn/containers.h>
#include <locus/nn/options.h>
#include <locus/ops/create.h>
#include <locus/ops/join.h>
#include <locus/ops/view.h>

namespace locus::nn {
namespace {

size_t at(int i) { return static_cast<size_t>(i); }

// A stage's passes in one step, in its order.
std::vector<Pipeline::Pass> passes_of(Schedule schedule, int stage, int stages, int microbatches) {
  const int ahead =
      schedule == Schedule::gpipe ? microbatches : std::min(stages - stage, microbatches);
  std::vector<Pipeline::Pass> passes;
  for (int f = 0, b = 0; b < microbatches;) {
    const bool backward = f - b == ahead || f == microbatches;
    passes.push_back({stage, backward ? b++ : f++, backward, 0});
  }
  return passes;
}

}  // namespace

std::vector<Pipeline::Pass> Pipeline::order(Schedule schedule, int stages, int microbatches) {
  if (stages < 1 || microbatches < 1 || microbatches > kMostMicrobatches)
    throw ValueError("Pipeline::order: ", stages, " stages, ", microbatches,
                     " microbatches; expected at least 1 stage, and 1 to ", kMostMicrobatches,
                     " microbatches");
  options::expect_enumerator("Pipeline::order", "schedule", schedule, Schedule::one_f1b,
                             "Schedule::gpipe or one_f1b");
  std::vector<std::vector<Pass>> rest;
  for (int s = 0; s < stages; ++s) rest.push_back(passes_of(schedule, s, stages, microbatches));
  std::vector<Pass> all;
  // Ticks at which passes ran: [backward][stage][microbatch].
  const std::vector<int> never(at(microbatches), INT32_MAX);
  std::vector<std::vector<int>> ran[2];
  for (auto& r : ran) r.assign(at(stages), never);
  std::vector<size_t> next(at(stages));
  for (int tick = 0; all.size() < at(2 * stages * microbatches); ++tick)
    for (int s = 0; s < stages; ++s) {
      if (next[at(s)] == rest[at(s)].size()) continue;
      Pass pass = rest[at(s)][next[at(s)]];
      const int from = s + (pass.backward ? 1 : -1);
      if (from >= 0 && from < stages && ran[pass.backward][at(from)][at(pass.microbatch)] >= tick)
        continue;
      ++next[at(s)];
      pass.tick = ran[pass.backward][at(s)][at(pass.microbatch)] = tick;
      all.push_back(pass);
    }
  return all;
}

Pipeline::Pipeline(const Stages& stages, const Contexts& contexts, const PipelineOptions& options,
                   Caller from) try
    : stages_(stages.list), contexts_(contexts), options_(options) {
  options::expect("Pipeline", "microbatches", options.microbatches,
                  options.microbatches >= 1 && options.microbatches <= kMostMicrobatches, "1 to ",
                  kMostMicrobatches);
  if (stages_.size() != contexts.size())
    throw ValueError("Pipeline: ", stages_.size(), " stages and ", contexts.size(),
                     " contexts; expected one context per stage");
  options::expect_enumerator("Pipeline", "schedule", options.schedule, Schedule::one_f1b,
                             "Schedule::gpipe or one_f1b");
  order_ = order(options.schedule, this->stages(), options.microbatches);
  int layers = 0;
  for (const std::shared_ptr<Block>& stage : stages_) {
    if (!stage)
      throw ValueError("Pipeline: stage ", parameters_.size(),
                       " is a null pointer; expected a block");
    std::vector<Parameter>& here = parameters_.emplace_back();
    for (const auto& [name, p] : stage->parameters()) here.push_back(p);
    if (const Block& block = *stage; typeid(block) != typeid(Sequential)) {
      push_child(std::to_string(layers++), stage);
      continue;
    }
    for (const auto& [name, layer] : stage->children()) push_child(std::to_string(layers++), layer);
  }
  static_cast<void>(parameters());
} catch (const Error&) {
  rethrow_at(from);
}

int Pipeline::in_flight(int stage) const {
  int now = 0, most = 0;
  for (const Pass& pass : order_)
    if (pass.stage == stage) most = std::max(most, now += pass.backward ? -1 : 1);
  return most;
}

std::string Pipeline::repr() const {
  std::string text = type_name() + "(";
  for (size_t s = 0; s < stages_.size(); ++s) {
    text += text_of("\n  [", contexts_.list()[s], "]: ");
    for (char c : stages_[s]->repr()) text += c == '\n' ? std::string("\n  ") : std::string(1, c);
  }
  return text + "\n)";
}

void Pipeline::initialize(const init::Initializer& global, const InitializeOptions& options,
                          Caller from) try {
  const UserLine user_line(from);
  for (size_t s = 0; s < stages_.size(); ++s)
    stages_[s]->initialize(global, contexts_.list()[s], options, from);
} catch (const Error&) {
  rethrow_at(from);
}

Contexts Pipeline::home(const Parameter& p) const {
  for (size_t s = 0; s < stages_.size(); ++s)
    for (const Parameter& own : parameters_[s])
      if (own.is(p)) return contexts_.list()[s];
  return Block::home(p);
}

void Pipeline::check_place(const char* who, size_t stage, Context c, const Parameter& p) {
  const std::vector<Context> where = p.list_ctx();
  if (std::ranges::find(where, c) == where.end())
    throw ContextMismatch(who, ": stage ", stage, " computes on ", c, ", but its parameter '",
                          p.name(), "' is on [", listed(where),
                          "]; expected it there, too: reset_ctx() takes all its contexts");
}

void Pipeline::check_stages() const {
  for (size_t s = 0; s < stages_.size(); ++s)
    for (const Parameter& p : parameters_[s]) check_place("Pipeline", s, contexts_.list()[s], p);
}

Tensor Pipeline::forward(const Tensor& x) {
  Tensor y = x;
  for (size_t s = 0; s < stages_.size(); ++s)
    y = (*stages_[s])(y.as_in_context(contexts_.list()[s]));
  return y;
}

// One forward_backward().
struct Pipeline::Step {
  // A stage's tensors of a microbatch between its two passes.
  struct Flight {
    Tensor in, out, gradient;
  };
  Pipeline& pipe;
  const Tensor &data, label;
  const LossFunction& loss_fn;
  const Caller from;
  const size_t microbatches = at(pipe.options_.microbatches);
  std::vector<std::vector<Flight>> flights{pipe.stages_.size(), std::vector<Flight>(microbatches)};
  Tensors losses = Tensors(microbatches);
  const std::vector<bool> trains = pipe.stages_that_train();

  Flight& flight(const Pass& pass, int further = 0) {
    return flights[at(pass.stage + further)][at(pass.microbatch)];
  }
  Context place(int stage) const { return pipe.contexts_.list()[at(stage)]; }
  bool last(const Pass& pass) const { return pass.stage + 1 == pipe.stages(); }

  Tensor part(const Tensor& batch, int microbatch) const {
    const int64_t n = batch.shape()[0];
    return slice_axis(batch, 0,
                      Slice(part_begin(n, microbatches, at(microbatch)),
                            part_begin(n, microbatches, at(microbatch) + 1)));
  }

  // The tensor that the pass waits for.
  Tensor given(const Pass& pass) {
    const Flight& f = flight(pass);
    return !pass.backward ? f.in : f.gradient.defined() ? f.gradient : f.out.detach();
  }

  // Runs the passes of one tick. All contexts wait for their inputs before any pass sends more.
  // Later waits would include those copies (core/wait_for.h).
  void run(std::span<const Pass> passes) {
    for (const Pass& pass : passes) {
      if (pass.stage == 0 && !pass.backward)
        flight(pass).in = part(data, pass.microbatch).as_in_context(place(0), from);
      wait_for(given(pass), place(pass.stage));
    }
    for (const Pass& pass : passes) run(pass);
  }

  void run(const Pass& pass) {
    if (pipe.watch_) pipe.watch_(pass, false, given(pass));
    pass.backward ? backward(pass) : forward(pass);
    if (pipe.watch_) pipe.watch_(pass, true, {});
  }

  void forward(const Pass& pass) {
    Flight& f = flight(pass);
    if (pass.stage > 0 && trains[at(pass.stage - 1)])
      f.in.attach_grad(empty(f.in.shape(), {f.in.context(), f.in.dtype()}));
    {
      const autograd::Record record;
      f.out = (*pipe.stages_[at(pass.stage)])(f.in, from);
      if (last(pass)) f.out = losses_of("Pipeline", loss_fn, f.out, part(label, pass.microbatch));
    }
    // At once, before later work that the copy would wait for.
    if (last(pass))
      losses[at(pass.microbatch)] = f.out.detach();
    else
      flight(pass, 1).in = f.out.detach().copyto(place(pass.stage + 1), {}, from);
  }

  void backward(const Pass& pass) {
    const Flight f = std::exchange(flight(pass), {});
    if (!trains[at(pass.stage)]) return;
    autograd::HeadOptions options;
    if (!last(pass)) options.head_gradients = {f.gradient};
    autograd::backward({f.out}, options);
    if (pass.stage == 0 || !trains[at(pass.stage - 1)]) return;
    const Tensor gradient = autograd::fresh_grad(f.in) ? f.in.grad() : zeros_like(f.in.detach());
    flight(pass, -1).gradient = gradient.copyto(place(pass.stage - 1), {}, from);
  }
};

// For each stage: whether it or an earlier one has gradients.
std::vector<bool> Pipeline::stages_that_train() const {
  std::vector<bool> trains;
  for (const std::vector<Parameter>& own : parameters_)
    trains.push_back(
        (!trains.empty() && trains.back()) ||
        std::ranges::any_of(own, [](const Parameter& p) { return p.grad_req() != GradReq::null; }));
  return trains;
}

Tensor Pipeline::forward_backward(const Tensor& data, const Tensor& label,
                                  const LossFunction& loss_fn, Caller from) try {
  const UserLine user_line(from);
  options::expect_function("Pipeline", "loss_fn", loss_fn);
  const int64_t n = data.ndim() > 0 ? data.shape()[0] : 0;
  if (n < options_.microbatches)
    throw ValueError("Pipeline: a batch of ", n, " samples, ", describe(data), ", for ",
                     options_.microbatches, " microbatches; expected at least one sample each");
  check_batch("Pipeline", data, label);
  check_stages();
  return run(data, label, loss_fn, from);
} catch (const Error&) {
  rethrow_at(from);
}

// Drops gradients on this pipeline's contexts, not those of other replicas.
void Pipeline::drop_grads() const {
  Tensors weights;
  for (size_t s = 0; s < stages_.size(); ++s)
    for (const Parameter& p : parameters_[s])
      if (p.initialized()) weights.push_back(p.data(contexts_.list()[s]));
  autograd::drop_grads(weights);
}

Tensor Pipeline::run(const Tensor& data, const Tensor& label, const LossFunction& loss_fn,
                     Caller from) {
  const autograd::Pause pause;
  const autograd::Accumulate accumulate;
  Step step{*this, data, label.as_in_context(contexts_.list().back(), from), loss_fn, from};
  try {
    for (auto at = order_.begin(); at != order_.end();) {
      const auto end =
          std::find_if(at, order_.end(), [&](const Pass& p) { return p.tick != at->tick; });
      step.run(std::span(at, end));
      at = end;
    }
    return step.microbatches == 1 ? step.losses[0] : concat(step.losses, {.axis = 0});
  } catch (...) {
    rethrow_behind([&] { drop_grads(); });
  }
}

}  // namespace locus::nn
