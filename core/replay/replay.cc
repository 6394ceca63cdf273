#include <locus/core/replay/replay.h>

#include <algorithm>
#include <utility>

#include <locus/core/error.h>
#include <locus/core/memory/unload.h>
#include <locus/core/stream.h>

namespace locus {
namespace {

constexpr size_t kSlots = 4096;  // bytes of numbers that are copied together

bool in_any(const std::vector<std::shared_ptr<Arena>>& arenas, const Storage& storage) {
  return std::any_of(arenas.begin(), arenas.end(),
                     [&](const auto& arena) { return storage.owner() == arena.get(); });
}

}  // namespace

Tensor bytes_of(const std::shared_ptr<Storage>& storage) {
  View view{storage->data(), {.dtype = u8, .rank = 1}, {1}};
  view.meta.shape[0] = static_cast<int64_t>(storage->bytes());
  return Tensor(
      std::make_shared<TensorImpl>(TensorImpl{view, storage->context(), true, storage, nullptr}));
}

Replay::Replay(const Replay* before) {
  if (!before) return;
  earlier_arenas_ = before->arenas_;
  last_ = before->last_;
}

Replay::~Replay() {
  for (Last& l : *last_) {
    if (devices_unload) break;
    try {
      if (l.at == 0) l.at = l.line->advance();  // the recording was dropped
      l.line->wait(l.at, StreamView{});
    } catch (const Error&) {
      // The device keeps the error for the next call that may throw.
    }
  }
  segments_.clear();
  calls_.clear();
  seen_.clear();
  shown_.clear();
  for (const auto& arena : arenas_) arena->close();
}

const std::shared_ptr<Arena>& Replay::arena(Context c, bool reserves) {
  for (const auto& arena : arenas_)
    if (arena->context() == c) return arena;
  return arenas_.emplace_back(std::make_shared<Arena>(c, reserves));
}

void* Replay::block(Context c, size_t bytes) {
  const StreamView s = current_stream(c);
  void* const data = arena(c)->keep(bytes, s);
  if (s.id == 0) return data;
  ran_on(s);
  for (Last& l : *last_)
    if (l.line->stream.id == s.id) l.at = l.line->advance();
  return data;
}

ReplayCall& Replay::add(ReplayCall call) {
  touches_.emplace_back();
  return calls_.emplace_back(std::move(call));
}

void Replay::touch(const std::shared_ptr<Storage>& storage, bool write) {
  if (storage->bytes() == 0) return;
  touches_.back().push_back({storage->data(), write});
  if (write) unwritten_.erase(storage->data());
  // Several streams use the ends of a copy.
  if (!calls_.back().op || !owns(*storage)) seen_.emplace(storage->data(), storage);
}

void Replay::order_peer_calls(Context c) {
  static const std::byte tokens[kMaxDevices] = {};
  touches_.back().push_back({&tokens[c.index], true});
}

void Replay::copied(Context from, Context to, size_t bytes, Caller caller) {
  ReplayCall& call = calls_.back();
  call.from = from;
  call.to = to;
  call.bytes = bytes;
  call.caller = caller;
}

void Replay::ran_on(StreamView s) {
  if (s.id == 0) return;
  Timeline* const line = &Timeline::of(s);
  if (std::none_of(last_->begin(), last_->end(), [&](const Last& l) { return l.line == line; }))
    last_->push_back({s.context, line, 0});
}

bool Replay::writes(const Storage& storage) const {
  const auto used = used_.find(&storage);
  return used != used_.end() && used->second;
}

bool Replay::made(const Storage& storage) const { return in_any(arenas_, storage); }
bool Replay::owns(const Storage& storage) const {
  return made(storage) || in_any(earlier_arenas_, storage);
}

const void* Replay::slot(Context c, size_t bytes, std::function<void(void*)> fill, bool now) {
  constexpr size_t kAlignment = 16;
  bytes = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  LOCUS_CHECK(bytes <= kSlots, "numbers of ", bytes, " bytes");
  size_t i = 0;
  while (i < numbers_.size() &&
         (numbers_[i].context != c || numbers_[i].now.size() + bytes > kSlots))
    ++i;
  if (i == numbers_.size()) {
    auto* const memory = static_cast<std::byte*>(block(c, kSlots));
    numbers_.push_back({c, memory, {}, {}});
  }
  Numbers& n = numbers_[i];
  const size_t offset = n.now.size();
  n.now.resize(offset + bytes);
  fills_.push_back({std::move(fill), i, offset});
  if (now) {
    fills_.back().fill(n.now.data() + offset);
    Device& d = device(c);
    d.copy(n.memory + offset, c, n.now.data() + offset, cpu(), bytes, current_stream(c, d));
  }
  return n.memory + offset;
}

}  // namespace locus
