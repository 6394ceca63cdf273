#include <algorithm>
#include <iostream>
#include <utility>

#include <locus/core/base/at_line.h>
#include <locus/core/base/recording_hooks.h>
#include <locus/core/device.h>
#include <locus/core/error.h>
#include <locus/core/generator.h>
#include <locus/core/observe/memory_events.h>
#include <locus/core/tape/grad_memory.h>
#include <locus/nn/block/parameter_state.h>
#include <locus/nn/options.h>
#include <locus/ops/compare.h>
#include <locus/ops/copy.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>

namespace locus::nn {
namespace {

bool known(const Shape& s) { return std::count(s.begin(), s.end(), 0) == 0; }

}  // namespace

std::string lengths_text(const Shape& shape) {
  const auto text = [](int64_t n) { return n == 0 ? std::string("None") : std::to_string(n); };
  return "(" + listed(shape, text, ",") + (shape.rank() == 1 ? ",)" : ")");
}

Parameter::Parameter(std::string name, const Shape& shape, const ParameterOptions& options)
    : state_(std::make_shared<State>()) {
  for (int64_t d : shape)
    if (d < 0)
      throw ShapeError("Parameter '", name, "': shape ", shape,
                       "; expected lengths >= 0, 0 for one that is not known yet");
  options::expect(name, "lr_mult", options.lr_mult, options::not_negative);
  options::expect(name, "wd_mult", options.wd_mult, options::not_negative);
  autograd::expect_grad_req(text_of("Parameter '", name, "'"), options.grad_req);
  state_->name = std::move(name);
  state_->shape = shape;
  state_->options = options;
  if (!options.differentiable) state_->options.grad_req = GradReq::null;
  state_->made_req = state_->options.grad_req;
}

std::vector<Parameter> Parameter::parts(const std::string& name, const Shape& shape, int axis,
                                        const Contexts& contexts, const ParameterOptions& options) {
  if (axis < 0 || axis >= shape.rank())
    throw ShapeError("Parameter::parts: ", name, ": axis ", axis, " of shape ", shape,
                     "; expected one of its axes, counted from 0");
  const auto n = static_cast<int64_t>(contexts.size());
  if (shape[axis] > 0 && shape[axis] < n)
    throw ShapeError("Parameter::parts: ", name, ": axis ", axis, " of shape ", shape, " for ", n,
                     " contexts; expected at least one element per context, or 0: not known yet");
  const auto whole = std::make_shared<ShardedTensor>(shape, axis, contexts);
  std::vector<Parameter> all;
  for (size_t i = 0; i < contexts.size(); ++i) {
    const std::string own = contexts.size() == 1 ? name : text_of(name, ".", i);
    State& s = *all.emplace_back(own, whole->part_shape(i), options).state_;
    s.whole = whole;
    s.index = i;
  }
  return all;
}

Parameter::State& Parameter::state() const {
  if (!state_) [[unlikely]]
    throw Error("Parameter: a default-constructed handle; there is no parameter behind it");
  return *root();
}

const std::shared_ptr<Parameter::State>& Parameter::root() const {
  const std::shared_ptr<State>* s = &state_;
  while (*s && (*s)->shared) s = &(*s)->shared;
  return *s;
}

bool Parameter::is(const Parameter& other) const { return root() == other.root(); }

const std::string& Parameter::name() const { return state().name; }
Shape Parameter::shape() const {
  const State& s = state();
  const CreationLock look(s.ready);
  return s.shape;
}
DType Parameter::dtype() const { return state().options.dtype; }
bool Parameter::initialized() const { return state().ready.load(std::memory_order_acquire); }
bool Parameter::deferred() const {
  const State& s = state();
  const CreationLock look(s.ready);
  return s.pending.has_value();
}
Shard Parameter::part() const {
  const State& s = state();
  return s.whole ? Shard{s.index, s.whole->parts(), s.whole->axis()} : Shard{};
}
Shape Parameter::full_shape() const {
  const State& s = state();
  const CreationLock look(s.ready);
  return s.full();
}
std::vector<Context> Parameter::list_ctx() const {
  if (state().contexts.empty()) refuse({});
  return state().contexts;
}
GradReq Parameter::grad_req() const { return state().options.grad_req; }
double Parameter::lr_mult() const { return state().options.lr_mult; }
double Parameter::wd_mult() const { return state().options.wd_mult; }
GradReq Parameter::made_grad_req() const { return state().made_req; }
uint64_t Parameter::generation() const {
  watch();
  return state().generation;
}
uint64_t Parameter::origin() const { return state().origin; }

void Parameter::rename(const std::string& path) const {
  if (path.size() > state().name.size()) state().name = path;
}

void Parameter::set_lr_mult(double v) const {
  options::expect(name(), "lr_mult", v, options::not_negative);
  State& s = state();
  if (std::exchange(s.options.lr_mult, v) != v) ++s.generation;
}
void Parameter::set_wd_mult(double v) const {
  options::expect(name(), "wd_mult", v, options::not_negative);
  State& s = state();
  if (std::exchange(s.options.wd_mult, v) != v) ++s.generation;
}
void Parameter::set_grad_req(GradReq req) const {
  State& s = state();
  autograd::expect_grad_req(text_of("Parameter '", s.name, "'"), req);
  if (s.options.grad_req == req || !s.options.differentiable) return;
  s.options.grad_req = req;
  for (const Tensor& t : s.replicas) t.attach_grad(req);
  ++s.generation;
}

void Parameter::initialize(const init::Initializer& global, const Contexts& asked,
                           const InitializeOptions& options, Caller from) const try {
  const UserLine user_line(from);
  State& s = state();
  const Contexts contexts = s.whole ? Contexts(s.whole->context(s.index)) : asked;
  if ((initialized() || deferred()) && !options.force_reinit) {
    std::clog << "Parameter '" << s.name << "' is already initialized, ignoring. "
              << (s.contexts == contexts.list()
                      ? ""
                      : text_of("It stays on [", listed(s.contexts), "]; for [", listed(contexts),
                                "] call reset_ctx. "))
              << "Set force_reinit to re-initialize.\n";
    if (s.whole) s.whole->forget();
    return;
  }
  for (const Context& c : contexts) device(c);  // fails here, not at the first forward pass
  const auto by_name = [&]() -> init::Initializer {
    const std::string_view named =
        std::string_view(s.name).substr(0, part().of > 1 ? s.name.rfind('.') : s.name.size());
    const auto is_a = [&](auto... ends) { return (named.ends_with(ends) || ...); };
    if (is_a("weight")) return global;
    if (is_a("bias", "beta", "running_mean")) return init::Zero();
    if (is_a("gamma", "running_var")) return init::One();
    throw Error("Unknown initialization pattern for ", s.name,
                ". Default initialization is now limited to \"weight\", \"bias\", \"gamma\" and "
                "\"beta\". Give the parameter an initializer of its own.");
  };
  const init::Initializer chosen = s.options.init ? *s.options.init : by_name();
  ++s.origin;
  if (known(s.full())) return create(draw(chosen), contexts.list(), from);
  s.pending = chosen;
  s.caller = from;
  s.contexts = contexts.list();
  s.replicas.clear();
  s.ready = false;
  ++s.generation;
} catch (const Error&) {
  rethrow_at(from);
}

void Parameter::infer_shape(const Shape& full) const {
  State& s = state();
  const CreationLock one(s.ready);  // several threads may bring a first input
  complete(full);
  if (initialized() || !deferred()) return;
  const capture::RecordingPause aside;      // also for drawing
  const random::Sequence program(nullptr);  // not a parallel() thread's
  create(draw(*s.pending), s.contexts, s.caller);
}

Tensor Parameter::draw(const init::Initializer& init) const {
  const State& s = state();
  return s.whole ? s.whole->draw(s.index, init, dtype()) : init(s.shape, dtype());
}

bool Parameter::fits(const Shape& full) const {
  const Shape& own = state().full();
  return std::equal(own.begin(), own.end(), full.begin(), full.end(),
                    [](int64_t known, int64_t n) { return known == 0 ? n > 0 : known == n; });
}

void Parameter::complete(const Shape& full) const {
  State& s = state();
  if (!fits(full))
    throw ShapeError("Parameter '", s.name, "': shape ", full, "; expected all lengths of ",
                     lengths_text(s.full()));
  if (!s.whole) {
    if (s.shape != full) s.shape = full;
    return;
  }
  s.whole->complete(full);
  s.shape = s.whole->part_shape(s.index);
}

// Makes copies of `values` the parameter's replicas.
void Parameter::create(const Tensor& values, std::vector<Context> contexts, Caller from) const {
  State& s = state();
  const capture::RecordingPause aside;
  const autograd::Pause pause;
  const Tensor cast_values = values.dtype() == dtype() ? values : locus::cast(values, dtype());
  Tensors replicas;
  for (const Context& c : contexts) {
    replicas.push_back(cast_values.copyto(c, {}, from));
    if (grad_req() != GradReq::null) replicas.back().attach_grad(grad_req());
  }
  s.replicas = std::move(replicas);
  s.contexts = std::move(contexts);
  s.pending.reset();
  ++s.generation;
  s.ready.store(true, std::memory_order_release);
}

const Tensor* Parameter::find(std::optional<Context> c) const {
  const State& s = state();
  if (!initialized()) return nullptr;
  if (s.replicas.size() == 1 && (!c || s.contexts[0] == *c)) return &s.replicas[0];
  const Context wanted = c ? *c : current_context();
  const Tensor* same_memory = nullptr;
  for (size_t i = 0; i < s.replicas.size(); ++i) {
    if (s.contexts[i] == wanted) return &s.replicas[i];
    if (mix(s.contexts[i], wanted)) same_memory = &s.replicas[i];
  }
  return same_memory;
}

void Parameter::refuse(std::optional<Context> c) const {
  const State& s = state();
  const CreationLock look(s.ready);
  const std::string who = text_of("Parameter '", s.name, "' ");
  const Context wanted = c ? *c : current_context();
  if (!s.replicas.empty())
    throw ContextMismatch(who, "was not initialized on context ", wanted,
                          ". It was only initialized on [", listed(s.contexts), "]. ",
                          s.whole ? ""
                                  : text_of("To compute on ", wanted,
                                            ", move the network there with reset_ctx (initialize() "
                                            "again moves nothing). "),
                          "Move the input to ", s.contexts[0], " with as_in_context",
                          s.whole ? "." : " otherwise.");
  if (s.pending)
    throw Error(who,
                "has not been initialized yet because initialization was deferred. Actual "
                "initialization happens during the first forward pass. Please pass one batch of "
                "data through the network before accessing Parameters. You can also avoid deferred "
                "initialization by specifying in_units or in_channels of the layers.");
  throw Error(who,
              "has not been initialized. Note that you should initialize parameters before using "
              "them: call initialize() on the network, and make its Trainer from the same "
              "network's parameters(). initialize() reaches the parameters of add_parameter() and "
              "the layers of add_child().");
}

void Parameter::watch() const {
  if (!capture::active()) [[likely]]
    return;
  capture::depends_on({root(), &root()->generation});
}

Tensor Parameter::data(std::optional<Context> c, Caller from) const try {
  watch();
  if (const Tensor* t = find(c)) [[likely]]
    return *t;
  refuse(c);
} catch (const Error&) {
  rethrow_at(from);
}

Tensor Parameter::grad(std::optional<Context> c, Caller from) const try {
  const UserLine user_line(from);
  watch();
  const Tensor* t = find(c);
  if (t && grad_req() == GradReq::null)
    throw Error("Cannot get gradient array for Parameter '", name(), "' because grad_req='null'");
  if (!t) refuse(c);
  return t->grad(from);
} catch (const Error&) {
  rethrow_at(from);
}

Tensors Parameter::list_data(Caller from) const try {
  watch();
  if (!initialized()) refuse({});
  return state().replicas;
} catch (const Error&) {
  rethrow_at(from);
}

Tensors Parameter::list_grad(Caller from) const try {
  watch();
  if (!initialized()) refuse({});
  Tensors grads;
  for (const Context& c : state().contexts) grads.push_back(grad(c, from));
  return grads;
} catch (const Error&) {
  rethrow_at(from);
}

void Parameter::check_shares(const Parameter& other) const {
  const State &mine = state(), &theirs = other.state();
  if (!std::equal(mine.shape.begin(), mine.shape.end(), theirs.shape.begin(), theirs.shape.end(),
                  [](int64_t a, int64_t b) { return a == b || a == 0 || b == 0; }))
    throw ShapeError("Parameter '", mine.name, "' ", lengths_text(mine.shape), " cannot share '",
                     theirs.name, "' ", lengths_text(theirs.shape), "; expected one shape");
  if (mine.options.dtype != theirs.options.dtype)
    throw DTypeError("Parameter '", mine.name, "' ", locus::name(mine.options.dtype),
                     " cannot share '", theirs.name, "' ", locus::name(theirs.options.dtype),
                     "; expected one dtype: cast one of them first");
  const std::string part = mine.part_text(), their_part = theirs.part_text();
  if (part != their_part)
    throw Error("Parameter '", mine.name, "', ", part, ", cannot share '", theirs.name, "', ",
                their_part, "; expected the same part of a whole");
}

void Parameter::share(const Parameter& other) const {
  check_shares(other);
  if (is(other)) return;
  const std::shared_ptr<State> before = root(), theirs = other.root();
  theirs->generation = std::max(theirs->generation, before->generation) + 1;
  theirs->origin = std::max(theirs->origin, before->origin) + 1;
  ++before->generation;  // recordings through this handle become stale
  state_->shared = theirs;
  state_->replicas.clear();
  state_->ready = false;
}

std::ostream& operator<<(std::ostream& os, const Parameter& p) {
  return os << "Parameter " << p.name() << " (shape=" << lengths_text(p.shape())
            << ", dtype=" << p.dtype() << ")";
}

}  // namespace locus::nn
