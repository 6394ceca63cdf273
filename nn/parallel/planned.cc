#include <locus/nn/planned.h>

#include <algorithm>
#include <iterator>

#include <locus/core/autograd.h>
#include <locus/core/base/at_line.h>
#include <locus/core/base/recording_hooks.h>
#include <locus/core/error.h>
#include <locus/core/observe/memory_events.h>
#include <locus/core/parallel.h>
#include <locus/core/tape/grad_memory.h>
#include <locus/nn/block/sharded_tensor.h>
#include <locus/nn/layers.h>
#include <locus/nn/options.h>
#include <locus/nn/tensor_parallel.h>
#include <locus/ops/collective.h>
#include <locus/ops/join.h>
#include <locus/ops/view.h>

namespace locus::nn {
namespace {

template <class B>
const B* as(const Sequential& layers, int i) {
  return dynamic_cast<const B*>(&layers[i]);
}

// The Dense in parts, with its parameters' current settings.
template <class Parallel, class Options>
Parallel over(const Contexts& where, const Dense& d, Options options) {
  const DenseOptions& o = d.options();
  options.use_bias = o.use_bias;
  options.in_units = o.in_units;
  options.weight_initializer = o.weight_initializer;
  options.bias_initializer = o.bias_initializer;
  options.dtype = d.parameter("weight").dtype();
  Parallel parts(d.units(), where, d.activation(), options);
  for (const auto& [name, part] : parts.parameters()) {
    const Parameter whole = d.parameter(name.substr(0, name.find('.')));
    part.set_grad_req(whole.grad_req());
    part.set_lr_mult(whole.lr_mult());
    part.set_wd_mult(whole.wd_mult());
  }
  return parts;
}
ColumnParallelDense column(const Dense& d, const Contexts& where, bool gather) {
  return over<ColumnParallelDense>(
      where, d,
      ColumnParallelDenseOptions{.flatten = d.options().flatten, .gather_output = gather});
}
RowParallelDense row(const Dense& d, const Contexts& where, bool input_is_parallel) {
  return over<RowParallelDense>(where, d,
                                RowParallelDenseOptions{.input_is_parallel = input_is_parallel});
}

// Parts are separate parameters. Training would no longer keep them equal.
void check_unshared(const Sequential& layers, int cut) {
  for (const auto& [mine, p] : layers[cut].parameters())
    for (int i = 0; i < layers.size(); ++i)
      for (const auto& [theirs, other] : layers[i].parameters())
        if (i != cut && other.is(p))
          throw ValueError("layer ", cut, ", ", layers[cut].repr(), ", shares its ", mine,
                           " with layer ", i, "; expected a layer of its own, to be cut");
}

// Applies a layer without parameters to each context's tensor.
class Each : public Block {
 public:
  explicit Each(std::shared_ptr<Block> layer) : layer_(std::move(layer)) {}
  using Block::forward;
  Tensors forward(const Tensors& in) override {
    Tensors out;
    for (const Tensor& x : in) out.push_back((*layer_)(x));
    return out;
  }
  bool spans_contexts() const override { return true; }
  std::string repr() const override { return layer_->repr(); }

 private:
  std::shared_ptr<Block> layer_;
};

Sequential cut(const Sequential& layers, const Plan::Stage& s) {
  const std::vector<CutAs> ways = cut_as(layers, s.first, s.last);
  const Contexts where(s.contexts);
  Sequential parts;
  for (int i = s.first; i <= s.last; ++i) {
    const CutAs way = ways[static_cast<size_t>(i - s.first)];
    check_unshared(layers, i);
    if (way == CutAs::each)
      parts.add(Each(layers.children()[static_cast<size_t>(i)].second));
    else if (way == CutAs::column || way == CutAs::gathered)
      parts.add(column(*as<Dense>(layers, i), where, way == CutAs::gathered));
    else
      parts.add(row(*as<Dense>(layers, i), where, way == CutAs::row));
  }
  return parts;
}

}  // namespace

std::vector<CutAs> cut_as(const Sequential& layers, int first, int last) {
  if (first < 0 || last < first || last >= layers.size())
    throw ValueError("cut_as: layers ", first, " to ", last, " of a network of ", layers.size(),
                     " layers; expected 0 <= first <= last < ", layers.size());
  std::vector<CutAs> ways;
  bool flat = false;  // after a Dense that flattens
  // Whether Dense d, layer i, can be the column of a later row.
  const auto has_row = [&](const Dense& d, int i) {
    while (++i <= last && as<Activate>(layers, i)) {
    }
    const Dense* const next = i <= last ? as<Dense>(layers, i) : nullptr;
    return next && (d.options().flatten || !next->options().flatten);
  };
  bool open = false, any = false;  // open: a column needs its row; any: a Dense was seen
  for (int i = first; i <= last; ++i) {
    const Dense* const d = as<Dense>(layers, i);
    if (!d && !as<Activate>(layers, i) && (open || !as<Flatten>(layers, i)))
      throw ValueError("layer ", i, ", ", layers[i].repr(),
                       ", has no parts; expected Dense layers, and Activate between them");
    ways.push_back(!d                              ? CutAs::each
                   : open                          ? CutAs::row
                   : has_row(*d, i)                ? CutAs::column
                   : flat || !d->options().flatten ? CutAs::row_of_whole
                                                   : CutAs::gathered);
    if (!d) continue;
    any = true;
    open = ways.back() == CutAs::column;
    flat = flat || d->options().flatten;
  }
  if (!any) throw ValueError("it has no Dense layer; expected one to cut");
  return ways;
}

Planned::Planned(const Sequential& layers, const Plan& plan, Caller from) try : plan_(plan) {
  plan.check(layers.size());
  for (const Plan::Stage& s : plan.stages) {
    Sequential stage;
    try {
      stage = s.cut ? cut(layers, s) : layers.slice(s.first, s.last + 1);
    } catch (const Error&) {
      std::rethrow_exception(reworded(
          [&](const std::string& text) { return plan.where(s.line) + s.text() + ": " + text; }));
    }
    for (const auto& [name, layer] : stage.children())
      push_child(std::to_string(children().size()), layer);
    stages_.push_back(stage);
  }
  static_cast<void>(parameters());
  for (size_t r = 0; !plan.cut() && r < static_cast<size_t>(plan.replicas()); ++r) {
    Pipeline::Stages blocks(stages_[0]);
    std::vector<Context> where;
    for (size_t s = 0; s < stages_.size(); ++s) {
      where.push_back(plan.stages[s].contexts[r]);
      if (s > 0) blocks.list.push_back(std::make_shared<Sequential>(stages_[s]));
    }
    pipelines_.emplace_back(
        blocks, where,
        PipelineOptions{.microbatches = plan.microbatches, .schedule = plan.schedule});
  }
} catch (const Error&) {
  rethrow_at(from);
}

void Planned::initialize(const init::Initializer& global, const InitializeOptions& options,
                         Caller from) try {
  const UserLine user_line(from);
  for (size_t s = 0; s < stages_.size(); ++s)
    stages_[s].initialize(global, Contexts(plan_.stages[s].contexts), options, from);
} catch (const Error&) {
  rethrow_at(from);
}

Contexts Planned::home(const Parameter& p) const {
  for (size_t s = 0; s < stages_.size(); ++s)
    for (const auto& [name, own] : stages_[s].parameters())
      if (own.is(p)) return Contexts(plan_.stages[s].contexts);
  return Block::home(p);
}

Tensor Planned::forward(const Tensor& x) {
  if (!pipelines_.empty()) return pipelines_[0].forward(x);
  Tensor y = x;
  for (size_t s = 0; s < stages_.size(); ++s) {
    y = y.as_in_context(plan_.stages[s].contexts[0]);
    y = plan_.stages[s].cut ? stages_[s](broadcast(Group(plan_.stages[s].contexts), y))[0]
                            : stages_[s](y);
  }
  return y;
}

Tensor Planned::forward_backward(const Tensor& data, const Tensor& label,
                                 const LossFunction& loss_fn, Caller from) try {
  const UserLine user_line(from);
  options::expect_function("Planned", "loss_fn", loss_fn);
  const int64_t n = data.ndim() > 0 ? data.shape()[0] : 0;
  plan_.check_batch(n);
  check_batch("Planned", data, label);
  if (pipelines_.size() > 1 && spans_replicas())
    throw Error(
        "Planned: a plan with ", pipelines_.size(),
        " replicas, and a layer that needs all replicas' batches, such as SyncBatchNorm; expected "
        "BatchNorm, a plan without replicas, or the network without a plan: net.on_replicas(xs)");
  check_stages();
  try {
    return run(data, label, loss_fn, from);
  } catch (...) {  // other replicas may have written gradients
    Tensors weights;
    for (const auto& [name, p] : parameters())
      if (p.initialized()) std::ranges::copy(p.list_data(), std::back_inserter(weights));
    rethrow_behind([&] { autograd::drop_grads(weights); });
  }
} catch (const Error&) {
  rethrow_at(from);
}

// Throws what would stop run() in any case, before a gradient is lost.
void Planned::check_stages() const {
  for (const Pipeline& p : pipelines_) p.check_stages();
  for (size_t s = 0; pipelines_.empty() && s < stages_.size(); ++s)
    for (const auto& [name, p] : stages_[s].parameters())
      if (plan_.stages[s].cut)
        static_cast<void>(p.list_ctx());  // parts stay on their contexts
      else
        Pipeline::check_place("Planned", s, plan_.stages[s].contexts[0], p);
  if (on_threads()) expect_parallel(plan_.stages[0].contexts);
}

// While a call is recorded, the calling thread does all work.
bool Planned::on_threads() const { return pipelines_.size() > 1 && !capture::active(); }

Tensor Planned::run(const Tensor& data, const Tensor& label, const LossFunction& loss_fn,
                    Caller from) {
  const Context last = plan_.stages.back().contexts[0];
  if (pipelines_.empty()) {
    Tensor l;
    {
      const autograd::Record record;
      l = losses_of("Planned", loss_fn, forward(data), label.as_in_context(last, from));
    }
    l.backward();
    return l.detach();
  }
  const int64_t n = data.shape()[0];
  const size_t replicas = pipelines_.size();
  Tensors losses(replicas);
  const auto run_one = [&](int i) {
    const auto r = static_cast<size_t>(i);
    const auto mine = [&](const Tensor& batch) {
      return slice_axis(batch, 0,
                        Slice(part_begin(n, replicas, r), part_begin(n, replicas, r + 1)));
    };
    losses[r] = pipelines_[r].run(mine(data), mine(label), loss_fn, from);
  };
  if (on_threads()) {
    parallel(plan_.stages[0].contexts, run_one);
  } else {
    for (size_t r = 0; r < replicas; ++r) run_one(static_cast<int>(r));
  }
  if (replicas == 1) return losses[0];
  for (Tensor& l : losses) l = l.as_in_context(last, from);
  return concat(losses, {.axis = 0});
}

std::string Planned::repr() const {
  std::string text = type_name() + "(";
  for (size_t s = 0; s < stages_.size(); ++s) {
    text += "\n  " + plan_.stages[s].text() + ": ";
    for (const char c : stages_[s].repr())
      text += c == '\n' ? std::string("\n  ") : std::string(1, c);
  }
  return text + "\n)";
}

}  // namespace locus::nn
