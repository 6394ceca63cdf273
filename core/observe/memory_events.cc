#include <locus/core/observe/memory_events.h>

#include <algorithm>
#include <condition_variable>
#include <ostream>
#include <set>
#include <utility>

#include <locus/core/base/at_line.h>
#include <locus/core/base/mutex.h>
#include <locus/core/error.h>
#include <nlohmann/json.hpp>

namespace locus {
namespace {

constinit thread_local const char* running_op = "";
constinit thread_local const char* current_scope = "";
constinit thread_local Caller user_line;
constinit thread_local bool telling = false;  // this thread is in a hook

struct Entered {
  explicit Entered(MemoryHook& h) : hook(h) {}
  MemoryHook& hook;
  int calls = 0;  // in progress; guarded by Hooks::mutex
};
struct Hooks {
  Mutex mutex;
  std::condition_variable done;
  std::vector<std::shared_ptr<Entered>> entered LOCUS_GUARDED_BY(mutex);
};

// Never destroyed: tensors in statics may live longer.
Hooks& all_hooks() {
  static Hooks& h = *new Hooks;
  return h;
}

// The text stays as long as the program.
const char* interned(std::string text) {
  struct Texts {
    Mutex mutex;
    std::set<std::string> all LOCUS_GUARDED_BY(mutex);
  };
  static Texts& texts = *new Texts;
  const MutexLock lock(texts.mutex);
  return texts.all.insert(std::move(text)).first->c_str();
}

}  // namespace

namespace memory_events {

MemoryEvent described(MemoryEvent event) {
  event.op = running_op;
  event.scope = current_scope;
  event.caller = user_line;
  return event;
}

void tell(const MemoryEvent& of_pool) noexcept {
  if (telling) return;
  const MemoryEvent event = described(of_pool);
  Hooks& h = all_hooks();
  std::vector<std::shared_ptr<Entered>> told;
  {
    const MutexLock lock(h.mutex);
    told = h.entered;
    for (const auto& e : told) ++e->calls;
  }
  telling = true;
  for (const auto& e : told) e->hook.on(event);
  telling = false;
  {
    const MutexLock lock(h.mutex);
    for (const auto& e : told) --e->calls;
  }
  h.done.notify_all();
}

void RunningOp::open(const char* name) { outer_ = std::exchange(running_op, name); }
void RunningOp::close() { running_op = outer_; }

}  // namespace memory_events

void UserLine::open(Caller from) {
  if (!is_users(from)) return;
  outer_ = std::exchange(user_line, from);
  open_ = true;
}
void UserLine::close() { user_line = outer_; }

Caller users_line(Caller from) { return is_users(from) || !user_line.file ? from : user_line; }

const char* name(MemoryEventKind kind) {
  constexpr const char* kNames[] = {"request", "served", "upstream", "released", "freed"};
  return kNames[static_cast<int>(kind)];
}

MemoryHookScope::MemoryHookScope(MemoryHook& hook) : hook_(hook) {
  Hooks& h = all_hooks();
  const MutexLock lock(h.mutex);
  if (std::ranges::any_of(h.entered, [&](const auto& e) { return &e->hook == &hook; }))
    throw ValueError(
        "MemoryHookScope: the hook is in a scope already; expected each hook in one scope at a "
        "time");
  h.entered.push_back(std::make_shared<Entered>(hook));
  memory_events::hooks.fetch_add(1);
}

MemoryHookScope::~MemoryHookScope() {
  Hooks& h = all_hooks();
  MutexLock lock(h.mutex);
  const auto at =
      std::ranges::find_if(h.entered, [&](const auto& e) { return &e->hook == &hook_; });
  const std::shared_ptr<Entered> mine = *at;
  h.entered.erase(at);
  memory_events::hooks.fetch_sub(1);
  while (mine->calls > 0) lock.wait(h.done);
}

MemoryScope::MemoryScope(const std::string& label) : outer_(current_scope) {
  if (label.empty()) throw ValueError("MemoryScope: the label is empty; expected a name");
  current_scope = interned(*outer_ ? text_of(outer_, '/', label) : label);
}
MemoryScope::~MemoryScope() { current_scope = outer_; }

struct JsonLines::Output {
  explicit Output(std::ostream& s) : os(s) {}
  Mutex mutex;
  std::ostream& os LOCUS_GUARDED_BY(mutex);
};

JsonLines::JsonLines(std::ostream& os) : output_(std::make_unique<Output>(os)) {}
JsonLines::~JsonLines() = default;

void JsonLines::on(const MemoryEvent& e) noexcept try {
  nlohmann::ordered_json line{{"event", name(e.kind)}, {"context", to_string(e.context)}};
  if (e.stream != 0) line["stream"] = e.stream;
  line["bytes"] = e.bytes;
  line["block"] = e.block;
  if (e.data) line["data"] = formatted("%p", e.data);
  if (*e.op) line["op"] = e.op;
  if (*e.scope) line["scope"] = e.scope;
  if (e.caller.file) line["line"] = to_string(e.caller);
  // Labels that are not UTF-8 are written with U+FFFD.
  const std::string text = line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  const MutexLock lock(output_->mutex);
  output_->os << text << '\n';
} catch (...) {  // of a stream with exceptions, which keeps its state
}

}  // namespace locus
