#include <locus/core/plan.h>

#include <algorithm>
#include <set>
#include <utility>

#include <locus/core/error.h>
#include <locus/core/observe/trace.h>
#include <locus/core/stream.h>

namespace locus {
namespace {

constexpr size_t kSlots = 4096;  // bytes of numbers that are sent together

// Whose scratch memory a kernel that runs in this thread is given.
struct Asking {
  Plan* plan = nullptr;
  PlanCall* call = nullptr;
  size_t next = 0;
};
thread_local Asking* asking = nullptr;

bool in_any(const std::vector<std::shared_ptr<Arena>>& arenas, const Storage& storage) {
  return std::any_of(arenas.begin(), arenas.end(),
                     [&](const auto& arena) { return storage.owner() == arena.get(); });
}

void apply(const Plan::Move& m, PlanCall& call) {
  const auto move = [&](auto*& p, uint64_t& turn) {
    auto* const byte = static_cast<const std::byte*>(p);
    if ((!m.all && turn != m.from->turn()) || byte < m.at || byte >= m.at + m.bytes) return;
    p = m.there + (byte - m.at);
    turn = m.to->turn();
  };
  for (size_t i = 0; i < call.views.size(); ++i) move(call.views[i].data, call.turns[i]);
  if (call.op) return;
  move(call.src, call.turns[0]);
  move(call.dst, call.turns[1]);
}

}  // namespace

Tensor bytes_of(const std::shared_ptr<Storage>& storage) {
  View view{storage->data(), {.dtype = u8, .rank = 1}, {1}};
  view.meta.shape[0] = static_cast<int64_t>(storage->bytes());
  return Tensor(
      std::make_shared<TensorImpl>(TensorImpl{view, storage->context(), true, storage, nullptr}));
}

// While a kernel's function runs.
class Plan::Running : NonCopyable {
 public:
  Running(Plan& plan, PlanCall& call) : now_{&plan, &call}, outer_(std::exchange(asking, &now_)) {}
  ~Running() { asking = outer_; }

 private:
  Asking now_;
  Asking* const outer_;
};

Plan::Plan(const Plan& first) : others_(first.arenas_), last_(first.last_) {}

Plan::~Plan() {
  for (Last& l : *last_) {
    try {
      if (l.at == 0) l.at = l.line->advance();  // its recording was given up
      l.line->wait(l.at, StreamView{});
    } catch (const Error&) {
      // It stays with the device: the next call that may throw has it.
    }
  }
  versions_.clear();
  calls_.clear();
  seen_.clear();
  shown_.clear();
  for (const auto& arena : arenas_) arena->close();
}

const std::shared_ptr<Arena>& Plan::arena(Context c) {
  for (const auto& arena : arenas_)
    if (arena->context() == c) return arena;
  return arenas_.emplace_back(std::make_shared<Arena>(c));
}

PlanCall& Plan::add(PlanCall call) {
  touches_.emplace_back();
  return calls_.emplace_back(std::move(call));
}

void Plan::touch(const std::shared_ptr<Storage>& storage, bool write) {
  calls_.back().turns.push_back(storage->turn());
  if (storage->bytes() == 0) return;
  touches_.back().push_back({storage->data(), storage->turn(), write});
  // A copy's ends are other streams' business, too.
  if (!calls_.back().op || !owns(*storage)) seen_.emplace(storage->data(), storage);
}

void Plan::copied(Context from, Context to, size_t bytes, Caller asked) {
  PlanCall& call = calls_.back();
  call.from = from;
  call.to = to;
  call.bytes = bytes;
  call.asked = asked;
}

void Plan::ran_on(StreamView s) {
  if (s.id == 0) return;
  Timeline* const line = &Timeline::of(s);
  if (std::none_of(last_->begin(), last_->end(), [&](const Last& l) { return l.line == line; }))
    last_->push_back({s.context, line, 0});
}

bool Plan::writes(const Storage& storage) const {
  for (const std::vector<Touch>& list : touches_)
    for (const Touch& t : list)
      if (t.write && t.memory == storage.data()) return true;
  for (const Part& part : versions_[0])
    for (const Use& u : part.uses)
      if (u.write && u.storage == &storage) return true;
  return false;
}

long Plan::holds(const Storage& storage) const {
  const auto seen = seen_.find(storage.data());
  return seen != seen_.end() && seen->second.get() == &storage;
}

bool Plan::uses(const Storage& storage) const {
  for (const Part& part : versions_[0])
    for (const Use& u : part.uses)
      if (u.storage == &storage) return true;
  return false;
}

bool Plan::made(const Storage& storage) const { return in_any(arenas_, storage); }
bool Plan::owns(const Storage& storage) const { return made(storage) || in_any(others_, storage); }

void* Plan::scratch(size_t bytes, bool& of_plan) {
  Asking* const a = asking;
  of_plan = a != nullptr;
  if (!a) return nullptr;
  std::vector<std::span<std::byte>>& given = a->call->scratch;
  if (a->next == given.size()) given.emplace_back();
  std::span<std::byte>& memory = given[a->next++];
  if (memory.size() < bytes) {  // also when more threads take part than when it was recorded
    const Context c = a->call->context;
    void* const data = a->plan->arena(c)->keep(bytes, current_stream(c));
    memory = {static_cast<std::byte*>(data), bytes};
  }
  return memory.data();
}

const void* Plan::slot(Context c, size_t bytes, std::function<void(void*)> fill, bool now) {
  constexpr size_t kAlignment = 16;
  bytes = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  LOCUS_CHECK(bytes <= kSlots, "numbers of ", bytes, " bytes");
  size_t i = 0;
  while (i < numbers_.size() && (numbers_[i].context != c || numbers_[i].used + bytes > kSlots))
    ++i;
  Device& d = device(c);
  const StreamView s = current_stream(c, d);
  if (i == numbers_.size()) {
    auto* const memory = static_cast<std::byte*>(arena(c)->keep(kSlots, s));
    numbers_.push_back({c, memory, {}, std::vector<std::byte>(kSlots)});
  }
  Numbers& n = numbers_[i];
  const size_t offset = std::exchange(n.used, n.used + bytes);
  fills_.push_back({std::move(fill), i, offset});
  if (now) {
    fills_.back().fill(n.now.data() + offset);
    d.copy(n.memory + offset, c, n.now.data() + offset, cpu(), bytes, s);
  }
  return n.memory + offset;
}

// The first part from number `first` on that takes the call.
size_t Plan::part_for(const PlanCall& call, size_t first) {
  Parts& parts = versions_[0];
  for (size_t i = first; !call.crosses() && i < parts.size(); ++i)
    if (parts[i].context == call.context && !parts[i].crosses) return i;
  Part& part = parts.emplace_back();
  part.context = call.context;
  part.crosses = call.crosses();
  return parts.size() - 1;
}

// Results of the plan's own that depend on nothing, such as the ones that backward() begins with.
void Plan::take_constants(bool ran) {
  std::map<const void*, int> writers;
  for (const auto& list : touches_)
    for (const Touch& t : list) writers[t.memory] += t.write;
  const auto own_result = [&](const Touch& t) {
    return writers[t.memory] == 1 &&
           std::any_of(arenas_.begin(), arenas_.end(),
                       [&](const auto& arena) { return arena->idle(t.memory); });
  };
  std::set<const void*> constant;
  size_t kept = 0;
  for (size_t i = 0; i < calls_.size(); ++i) {
    const PlanCall& call = calls_[i];
    const bool once = call.op && !call.op->random && !call.op->in_place &&
                      std::all_of(touches_[i].begin(), touches_[i].end(), [&](const Touch& t) {
                        return t.write ? own_result(t) : constant.contains(t.memory);
                      });
    if (once) {
      for (const Touch& t : touches_[i]) constant.insert(t.memory);
      if (!ran) run(calls_[i], current_stream(call.context), true);
      continue;
    }
    if (kept != i) {
      calls_[kept] = std::move(calls_[i]);
      touches_[kept] = std::move(touches_[i]);
    }
    ++kept;
  }
  calls_.erase(calls_.begin() + static_cast<ptrdiff_t>(kept), calls_.end());
  touches_.resize(kept);
}

void Plan::finish(bool ran) {
  struct Place {
    size_t part;
    int number;
  };
  struct Users {
    std::optional<Place> writer;
    std::vector<Place> readers;
  };
  for (const auto& s : shown_) seen_.emplace(s->data(), s);
  for (const auto& arena : arenas_) arena->seal();
  take_constants(ran);
  for (Last& l : *last_) l.at = l.line->advance();
  std::map<const void*, Users> memory;
  std::map<Context, size_t> behind_copies;
  for (size_t i = 0; i < calls_.size(); ++i) {
    PlanCall& call = calls_[i];
    std::vector<Place> before;
    for (const Touch& t : touches_[i]) {
      const Users& users = memory[t.memory];
      if (users.writer) before.push_back(*users.writer);
      if (t.write) before.insert(before.end(), users.readers.begin(), users.readers.end());
    }
    // A copy to another device waits for the part before it, in which nothing that comes later
    // belongs.
    size_t first = call.crosses() ? 0 : behind_copies[call.context];
    for (const Place& p : before) {
      const Part& part = versions_[0][p.part];
      const bool joins = part.context == call.context && !part.crosses && !call.crosses();
      first = std::max(first, p.part + !joins);
    }
    const size_t at = part_for(call, first);
    if (call.crosses()) behind_copies[call.from] = at + 1;
    Part& part = versions_[0][at];
    const Place mine{at, static_cast<int>(part.calls.size())};
    for (const Place& p : before)
      if (p.part == mine.part)
        call.after.push_back(p.number);
      else
        call.across.emplace_back(p.part, p.number);
    std::sort(call.after.begin(), call.after.end());
    call.after.erase(std::unique(call.after.begin(), call.after.end()), call.after.end());
    for (const Touch& t : touches_[i]) {
      Users& users = memory[t.memory];
      if (t.write) {
        users.writer = mine;
        users.readers.clear();
      } else {
        users.readers.push_back(mine);
      }
      const auto seen = seen_.find(t.memory);
      if (seen == seen_.end()) continue;
      Storage* const storage = seen->second.get();
      const auto use = std::find_if(part.uses.begin(), part.uses.end(),
                                    [&](const Use& u) { return u.storage == storage; });
      if (use == part.uses.end())
        part.uses.push_back({storage, t.write});
      else
        use->write = use->write || t.write;
    }
    part.calls.push_back(std::move(call));
  }
  calls_.clear();
  touches_.clear();
  make_graphs(versions_[0]);
}

void Plan::make_graphs(Parts& parts) {
  for (Part& part : parts)
    if (!part.crosses) part.graph = device(part.context).make_graph(*this, part.calls);
}

void Plan::move(const Move& m) {
  for (PlanCall& call : calls_) apply(m, call);
  for (auto& list : touches_)
    for (Touch& t : list)
      if (t.memory == m.from->data() && t.turn == m.from->turn())
        t = {m.to->data(), m.to->turn(), t.write};
}

size_t Plan::add_version(const std::vector<Move>& moves) {
  Parts parts;
  for (const Part& old : versions_[0]) {
    Part& part = parts.emplace_back();
    part.context = old.context;
    part.crosses = old.crosses;
    part.calls = old.calls;
    for (PlanCall& call : part.calls)
      for (const Move& m : moves) apply(m, call);
    for (const Use& u : old.uses) {
      bool stays = true;
      for (const Move& m : moves) {
        if (u.storage != m.from.get()) continue;
        part.uses.push_back({m.to.get(), u.write});
        stays = false;
      }
      if (stays) part.uses.push_back(u);
    }
  }
  make_graphs(parts);
  for (const Move& m : moves) seen_.emplace(m.to->data(), m.to);
  make_graphs(parts);
  versions_.push_back(std::move(parts));
  return versions_.size() - 1;
}

void Plan::run(PlanCall& c, StreamView s, bool traced) {
  Device& d = device(c.context);
  if (!c.op) {
    if (!traced) return d.copy(c.dst, c.to, c.src, c.from, c.bytes, s);
    const trace::Scope scope(TransferKind::copyto, c.asked);
    return trace::copy(d, c.dst, c.to, c.src, c.from, c.bytes, s);
  }
  const Running running(*this, c);
  View* const views = c.views.data();
  const int n_out = static_cast<int>(c.views.size()) - c.n_in;
  const Call call{views, views + c.n_in, c.n_in, n_out, c.attrs.bytes, c.attrs.size, s};
  if (!traced) return d.launch(c.kernel, call, c.name());
  if (c.bytes == 0) return trace::launch(d, c.kernel, call, c.name());
  const trace::Scope scope(TransferKind::copyto, c.asked);
  trace::host_copy(c.from, c.to, c.bytes, [&] { trace::launch(d, c.kernel, call, c.name()); });
}

void Plan::run_each(Part& part, StreamView s, Caller from) {
  for (PlanCall& call : part.calls) {
    try {
      run(call, s, true);
    } catch (const Error&) {
      const std::string name = call.name();
      std::rethrow_exception(reworded([&](const std::string& text) {
        return text_of(text.starts_with(name) ? "" : name + ": ", text, " (in a replay, called at ",
                       from, ")");
      }));
    }
  }
}

void Plan::send_numbers(Context c, StreamView s) {
  for (Numbers& n : numbers_) {
    if (n.context != c || n.sent == n.now) continue;
    device(c).copy(n.memory, c, n.now.data(), cpu(), n.used, s);
    n.sent = n.now;
  }
}

void Plan::replay(Caller from, size_t version) {
  for (const Number& n : fills_) n.fill(numbers_[n.numbers].now.data() + n.offset);
  for (Part& part : versions_[version]) enqueue(part, from);
}

void Plan::enqueue(Part& part, Caller from) {
  Device& d = device(part.context);
  const StreamView s = part.crosses ? d.stream(Lane::peer) : current_stream(part.context, d);
  Timeline* const line = s.id == 0 ? nullptr : &Timeline::of(s);
  if (!part.crosses)
    for (const Last& l : *last_)
      if (l.context == part.context && l.line != line) l.line->wait(l.at, s);
  for (const Use& u : part.uses) u.write ? u.storage->before_write(s) : u.storage->before_read(s);
  if (line) line->before_launch();
  // What was enqueued before an error is in flight.
  FirstFailure failure;
  failure.run([&] {
    if (!part.crosses) send_numbers(part.context, s);
    // A profile has each call by itself.
    const bool apart = !trace::off() && (trace::listening() & trace::kProfile);
    if (part.graph && !apart)
      part.graph->replay(s);
    else
      run_each(part, s, from);
  });
  for (const Use& u : part.uses) u.write ? u.storage->after_write(s) : u.storage->after_read(s);
  if (line && !part.crosses) {
    std::erase_if(*last_, [&](const Last& l) { return l.context == part.context; });
    last_->push_back({part.context, line, line->advance()});
  }
  failure.rethrow();
}

}  // namespace locus
