#include <locus/nn/parameter.h>

#include <algorithm>
#include <atomic>
#include <iostream>
#include <mutex>
#include <utility>

#include <locus/core/capture_check.h>
#include <locus/core/device.h>
#include <locus/core/error.h>
#include <locus/nn/options.h>
#include <locus/ops/compare.h>
#include <locus/ops/copy.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>

namespace locus::nn {
namespace {

bool known(const Shape& s) { return std::count(s.begin(), s.end(), 0) == 0; }

// Held while values are created, which threads of a parallel() may come to at once, and while what
// that changes is looked at. An initializer may create others.
class Unready : NonCopyable {
 public:
  explicit Unready(const std::atomic<bool>& ready) {
    static std::recursive_mutex creating;
    if (!ready.load(std::memory_order_acquire)) lock_ = std::unique_lock(creating);
  }

 private:
  std::unique_lock<std::recursive_mutex> lock_;
};

}  // namespace

struct Parameter::State {
  std::string name;
  Shape shape;
  ParameterOptions options;
  std::optional<init::Initializer> pending;  // until the shape is known
  Caller asked;                              // who initialized, for copies made only then
  std::vector<Context> contexts;
  Tensors replicas;                // one a context
  std::atomic<bool> ready{false};  // they are there; until then threads look under creating()
  uint64_t generation = 0;
  GradReq made_req = GradReq::write;
  std::shared_ptr<State> shared = {};  // the one that is used in place of this
};

Parameter::Parameter(std::string name, const Shape& shape, const ParameterOptions& options)
    : state_(std::make_shared<State>()) {
  for (int64_t d : shape)
    if (d < 0)
      throw ShapeError("Parameter '", name, "': shape ", shape,
                       "; expected lengths >= 0, 0 for one that is not known yet");
  options::expect(name, "lr_mult", options.lr_mult, options::not_negative);
  options::expect(name, "wd_mult", options.wd_mult, options::not_negative);
  state_->name = std::move(name);
  state_->shape = shape;
  state_->options = options;
  if (!options.differentiable) state_->options.grad_req = GradReq::null;
  state_->made_req = state_->options.grad_req;
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
  const Unready look(s.ready);
  return s.shape;
}
DType Parameter::dtype() const { return state().options.dtype; }
bool Parameter::initialized() const { return state().ready.load(std::memory_order_acquire); }
bool Parameter::deferred() const {
  const State& s = state();
  const Unready look(s.ready);
  return s.pending.has_value();
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
  if (s.options.grad_req == req || !s.options.differentiable) return;
  s.options.grad_req = req;
  for (const Tensor& t : s.replicas) t.attach_grad(req);
  ++s.generation;
}

void Parameter::initialize(const init::Initializer& global, const Contexts& contexts,
                           const InitializeOptions& options, Caller from) const {
  State& s = state();
  if (initialized() && !options.force_reinit) {
    std::clog << "Parameter '" << s.name
              << "' is already initialized, ignoring. Set force_reinit to re-initialize.\n";
    return;
  }
  for (const Context& c : contexts) device(c);  // not only at the first forward pass
  const auto by_name = [&]() -> init::Initializer {
    const auto is_a = [&](auto... ends) { return (s.name.ends_with(ends) || ...); };
    if (is_a("weight")) return global;
    if (is_a("bias", "beta", "running_mean")) return init::Zero();
    if (is_a("gamma", "running_var")) return init::One();
    throw Error("Unknown initialization pattern for ", s.name,
                ". Default initialization is now limited to \"weight\", \"bias\", \"gamma\" and "
                "\"beta\". Give the parameter an initializer of its own.");
  };
  const init::Initializer chosen = s.options.init ? *s.options.init : by_name();
  if (known(s.shape)) return create(chosen(s.shape, dtype()), contexts.list(), from);
  s.pending = chosen;
  s.asked = from;
  s.contexts = contexts.list();
  s.replicas.clear();
  s.ready = false;
  ++s.generation;
}

void Parameter::infer_shape(const Shape& full) const {
  State& s = state();
  const Unready one(s.ready);  // of several threads that come with a first input
  complete(full);
  if (initialized() || !deferred()) return;
  const capture::Aside aside;  // what is drawn, too
  create((*s.pending)(s.shape, dtype()), s.contexts, s.asked);
}

bool Parameter::fits(const Shape& full) const {
  const Shape& own = state().shape;
  return std::equal(own.begin(), own.end(), full.begin(), full.end(),
                    [](int64_t known, int64_t n) { return known == 0 ? n > 0 : known == n; });
}

void Parameter::complete(const Shape& full) const {
  State& s = state();
  if (!fits(full))
    throw ShapeError("Parameter '", s.name, "': shape ", full, "; expected ", s.shape,
                     " (0: not known yet)");
  if (s.shape != full) s.shape = full;
}

// Replicas of `values`, from now on the parameter's.
void Parameter::create(const Tensor& values, std::vector<Context> contexts, Caller from) const {
  State& s = state();
  const capture::Aside aside;
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
  const Unready look(s.ready);
  const std::string who = text_of("Parameter '", s.name, "' ");
  if (!s.replicas.empty())
    throw ContextMismatch(who, "was not initialized on context ", c ? *c : current_context(),
                          ". It was only initialized on [", listed(s.contexts),
                          "]. Move the input there with as_in_context, or the network with "
                          "reset_ctx.");
  if (s.pending)
    throw Error(who,
                "has not been initialized yet because initialization was deferred. Actual "
                "initialization happens during the first forward pass. Please pass one batch of "
                "data through the network before accessing Parameters. You can also avoid deferred "
                "initialization by specifying in_units or in_channels of the layers.");
  throw Error(who,
              "has not been initialized. Note that you should initialize parameters before using "
              "them: call initialize() on the network, and make its Trainer from the same "
              "network's parameters().");
}

void Parameter::watch() const {
  if (!capture::active()) [[likely]]
    return;
  capture::depends_on({root(), &root()->generation});
}

Tensor Parameter::data(std::optional<Context> c) const {
  watch();
  if (const Tensor* t = find(c)) [[likely]]
    return *t;
  refuse(c);
}

Tensor Parameter::grad(std::optional<Context> c) const {
  watch();
  const Tensor* t = find(c);
  if (t && grad_req() == GradReq::null)
    throw Error("Cannot get gradient array for Parameter '", name(), "' because grad_req='null'");
  if (!t) refuse(c);
  return t->grad();
}

Tensors Parameter::list_data() const {
  watch();
  if (!initialized()) refuse({});
  return state().replicas;
}

Tensors Parameter::list_grad() const {
  watch();
  if (!initialized()) refuse({});
  Tensors grads;
  for (const Context& c : state().contexts) grads.push_back(grad(c));
  return grads;
}

void Parameter::zero_grad() const {
  if (grad_req() == GradReq::null) return;
  for (const Tensor& t : state().replicas) t.zero_grad();
}

void Parameter::set_data(const Tensor& values, Caller from) const {
  State& s = state();
  if (!initialized()) {
    if (!deferred()) refuse({});
    complete(values.shape());
    return create(values, s.contexts, from);
  }
  if (values.shape() != s.shape)
    throw ShapeError("Parameter '", s.name, "': set_data with ", describe(values),
                     "; expected shape ", s.shape);
  const autograd::Pause pause;
  for (const Tensor& t : s.replicas) values.copyto(t, {}, from);
}

void Parameter::place(const Tensor& values, const Contexts& contexts, Caller from) const {
  for (const Context& c : contexts) device(c);
  complete(values.shape());
  create(values, contexts.list(), from);
}

Tensor Parameter::mean_on_cpu(Caller from) const {
  if (!initialized()) refuse({});
  const State& s = state();
  const autograd::Pause pause;
  if (s.replicas.size() == 1) return s.replicas[0].copyto(cpu(), {}, from);
  // Of equal values, infinities too, it is that value.
  Tensor mean = locus::cast(s.replicas[0].copyto(cpu(), {}, from), f64);
  for (size_t i = 1; i < s.replicas.size(); ++i) {
    const Tensor next = locus::cast(s.replicas[i].copyto(cpu(), {}, from), f64);
    mean = where(next == mean, mean, mean + (next - mean) / static_cast<double>(i + 1));
  }
  return locus::cast(mean, dtype());
}

void Parameter::reset_ctx(const Contexts& contexts, Caller from) const {
  for (const Context& c : contexts) device(c);  // nothing is changed where one is not there
  State& s = state();
  if (initialized()) {
    create(mean_on_cpu(from), contexts.list(), from);
  } else if (deferred()) {
    s.contexts = contexts.list();
    s.asked = from;
  } else {
    refuse({});
  }
}

void Parameter::cast(DType dtype) const {
  State& s = state();
  if (s.options.dtype == dtype) return;
  if (!is_floating(dtype))
    throw DTypeError("Parameter '", s.name, "': cast to ", locus::name(dtype),
                     "; expected a floating dtype");
  s.options.dtype = dtype;
  if (initialized()) {
    const autograd::Pause pause;
    Tensors replicas;
    for (const Tensor& t : s.replicas) {
      replicas.push_back(locus::cast(t, dtype));
      if (grad_req() != GradReq::null) replicas.back().attach_grad(grad_req());
    }
    s.replicas = std::move(replicas);
  }
  ++s.generation;
}

void Parameter::check_shares(const Parameter& other) const {
  const State &mine = state(), &theirs = other.state();
  if (!std::equal(mine.shape.begin(), mine.shape.end(), theirs.shape.begin(), theirs.shape.end(),
                  [](int64_t a, int64_t b) { return a == b || a == 0 || b == 0; }))
    throw ShapeError("Parameter '", mine.name, "' ", mine.shape, " cannot share '", theirs.name,
                     "' ", theirs.shape, "; expected one shape");
  if (mine.options.dtype != theirs.options.dtype)
    throw DTypeError("Parameter '", mine.name, "' ", locus::name(mine.options.dtype),
                     " cannot share '", theirs.name, "' ", locus::name(theirs.options.dtype),
                     "; expected one dtype: cast one of them first");
}

void Parameter::share(const Parameter& other) const {
  check_shares(other);
  if (is(other)) return;
  const std::shared_ptr<State> before = root(), theirs = other.root();
  theirs->generation = std::max(theirs->generation, before->generation) + 1;
  ++before->generation;  // for what was recorded by this handle; one that was shared goes on alone
  state_->shared = theirs;
  state_->replicas.clear();
  state_->ready = false;
}

std::ostream& operator<<(std::ostream& os, const Parameter& p) {
  return os << "Parameter " << p.name() << " (shape=" << p.shape() << ", dtype=" << p.dtype()
            << ")";
}

}  // namespace locus::nn
