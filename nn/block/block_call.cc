// Calls of a block: hooks around forward(), which is compiled if hybridized.
#include <algorithm>
#include <functional>
#include <string>

#include <locus/core/base/at_line.h>
#include <locus/core/base/mutex.h>
#include <locus/core/base/recording_hooks.h>
#include <locus/core/compile.h>
#include <locus/core/error.h>
#include <locus/core/group.h>
#include <locus/core/observe/memory_events.h>
#include <locus/nn/block.h>
#include <locus/nn/options.h>

namespace locus::nn {
namespace {

thread_local bool plain = false;  // calls run forward(), even if hybridized

// The block whose forward(const Tensors&) calls forward(const Tensor&).
thread_local const Block* asked = nullptr;
struct ForwardScope : NonCopyable {
  explicit ForwardScope(const Block* block) { asked = block; }
  ~ForwardScope() { asked = nullptr; }
};

// The innermost block called by this thread.
thread_local const Block* calling = nullptr;
struct Calling : NonCopyable {
  explicit Calling(const Block* block) : outer(std::exchange(calling, block)) {}
  ~Calling() { calling = outer; }
  const Block* const outer;
};

// Hash of this thread's last Error text, without its line, that names a block. Outer blocks add no
// second name. A number is never destroyed: destructors of globals may call blocks, after the main
// thread's thread_local objects are destroyed.
thread_local size_t named = 0;

size_t hash_of(const std::string& text) { return std::hash<std::string>()(text); }

Tensors list(const Tensor& x) { return {x}; }
const Tensors& list(const Tensors& all) { return all; }

template <class T>
T of(const Block& block, Tensors all) {
  if constexpr (std::is_same_v<T, Tensor>) {
    if (all.size() != 1)
      throw Error(block.type_name(), ": gives ", all.size(),
                  " results; call it with a list: block({x})");
    return std::move(all[0]);
  } else {
    return all;
  }
}

void refuse_mixed(const Block& block, const Tensors& in) {
  for (const Tensor& t : in) {
    if (!t.defined() || !in[0].defined() || t.context() == in[0].context() ||
        mix(t.context(), in[0].context()))
      continue;
    if (block.spans_contexts()) return;
    throw ContextMismatch(block.type_name(), ": inputs live on different contexts: ",
                          listed(in, [](const Tensor& x) { return describe(x); }),
                          "; expected one context: move the others with as_in_context(",
                          in[0].context(), ")");
  }
}

}  // namespace

Tensor Block::forward(const Tensor& x) {
  if (std::exchange(asked, nullptr) == this)
    throw Error(type_name(), ": implements neither forward(const Tensor&) nor forward(const ",
                "Tensors&)");
  return of<Tensor>(*this, forward(Tensors{x}));
}

Tensors Block::forward(const Tensors& in) {
  expect_inputs(in, 1);
  const ForwardScope now(this);
  return {forward(in[0])};
}

void Block::expect_inputs(const Tensors& in, size_t n) const {
  if (in.size() != n)
    throw Error(type_name(), ": takes ", n, n == 1 ? " input" : " inputs", ", got ", in.size());
}

Block::Plain::Plain() : outer_(std::exchange(plain, true)) {}
Block::Plain::~Plain() { plain = outer_; }

std::string Block::place() const {
  std::string text = repr();
  if (text.find('\n') != std::string::npos) text = type_name();
  const std::string& name = own_.empty() ? std::string() : own_[0].second.name();
  if (own_.empty() || name.size() <= own_[0].first.size()) return text;
  return text_of("layer '", name.substr(0, name.size() - own_[0].first.size() - 1), "' ", text);
}

std::string Block::not_added_to(const Block* caller) const {
  const auto is_this = [&](const auto& child) { return child.second->hooks_ == hooks_; };
  if (!caller || std::ranges::any_of(caller->children_, is_this)) return "";
  for (const auto& [name, p] : parameters())
    if (!p.initialized() && !p.deferred())
      return text_of("; ", caller->type_name(), " calls this ", type_name(),
                     ", which is no child of it, so initialize() did not reach it: call "
                     "add_child(\"name\", block) in the constructor of ",
                     caller->type_name());
  return "";
}

Tensors Block::compiled_forward(const Tensors& in, Caller from) {
  static Mutex mutex;  // two threads may call first
  std::shared_ptr<Compiled> compiled;
  {
    const MutexLock lock(mutex);
    if (!hybrid_.compiled)
      hybrid_.compiled =
          std::make_shared<Compiled>([this](const Tensors& given) { return forward(given); });
    compiled = hybrid_.compiled;
  }
  return (*compiled)(in, from);
}

template <class T>
T Block::run(const T& in, Caller from) {
  if (hybrid_.active && !plain && !capture::active())
    return of<T>(*this, compiled_forward(list(in), from));
  return forward(in);
}

template <class T>
T Block::call(const T& in, Caller from, const auto& run, const auto& calls) {
  const Calling now(this);
  const UserLine user_line(from);
  try {
    if (!hooks_->any()) [[likely]]
      return run();
    const Hooks hooks = *hooks_;
    const std::vector<Tensors> given = calls(in);
    for (const Tensors& one : given)
      for (const auto& [number, hook] : hooks.before) hook(*this, one);
    T out = run();
    const std::vector<Tensors> results = calls(out);
    for (size_t i = 0; i < given.size(); ++i)
      for (const auto& [number, hook] : hooks.after) hook(*this, given[i], results[i]);
    return out;
  } catch (const Error& e) {
    const bool is_named = hash_of(without_line(e.what())) == named;
    const std::string more =
        (is_named ? "" : text_of(" (in ", place(), ")")) + not_added_to(now.outer);
    std::rethrow_exception(reworded([&](const std::string& text) {
      const std::string full = without_line(text) + more;
      named = hash_of(full);
      return with_line(full + line_in(text), from);
    }));
  }
}

Tensor Block::operator()(const Tensor& x, Caller from) {
  return call(
      x, from, [&] { return run(x, from); },
      [](const Tensor& t) { return std::vector<Tensors>{{t}}; });
}

Tensors Block::operator()(const Tensors& in, Caller from) try {
  refuse_mixed(*this, in);
  return call(
      in, from, [&] { return run(in, from); },
      [](const Tensors& all) { return std::vector<Tensors>{all}; });
} catch (const Error&) {
  rethrow_at(from);
}

Tensors Block::forward_replicas(const Tensors& xs) {
  Tensors out;
  for (const Tensor& x : xs) out.push_back(run(x, Caller::here()));
  return out;
}

Tensors Block::on_replicas(const Tensors& xs, Caller from) try {
  std::vector<Context> contexts;
  for (const Tensor& x : xs) contexts.push_back(x.context());
  const Group distinct(contexts);
  return call(
      xs, from,
      [&] {
        Tensors out = forward_replicas(xs);
        if (out.size() != xs.size())
          throw Error(type_name(), ": forward_replicas() gave ", out.size(), " results for ",
                      xs.size(), " replicas; expected one each");
        return out;
      },
      [](const Tensors& all) {
        std::vector<Tensors> each;
        for (const Tensor& t : all) each.push_back({t});
        return each;
      });
} catch (const Error&) {
  rethrow_at(from);
}

HookHandle Block::register_forward_pre_hook(ForwardPreHook hook) {
  options::expect_function(type_name(), "forward_pre_hook", hook);
  hooks_->before.emplace_back(++hooks_->registered, std::move(hook));
  return {hooks_, hooks_->registered};
}

HookHandle Block::register_forward_hook(ForwardHook hook) {
  options::expect_function(type_name(), "forward_hook", hook);
  hooks_->after.emplace_back(++hooks_->registered, std::move(hook));
  return {hooks_, hooks_->registered};
}

}  // namespace locus::nn
