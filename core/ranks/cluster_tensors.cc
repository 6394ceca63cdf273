// Collectives of tensors: on the host by Ranks, among devices by RankLink.
#include <algorithm>
#include <map>
#include <utility>

#include <locus/core/autograd.h>
#include <locus/core/base/at_line.h>
#include <locus/core/base/empty_tensor.h>
#include <locus/core/base/layout.h>
#include <locus/core/base/recording_hooks.h>
#include <locus/core/cluster.h>
#include <locus/core/device.h>
#include <locus/core/error.h>
#include <locus/core/memory/storage.h>
#include <locus/core/observe/memory_events.h>
#include <locus/core/ranks/communicator.h>
#include <locus/core/ranks/rank_calls.h>
#include <locus/core/stream.h>
#include <locus/core/tape/tape.h>

namespace locus {
namespace {

MakeRankLink link_makers[kMaxDeviceTypes] = {};

}  // namespace

void set_rank_links(DeviceType type, MakeRankLink make) {
  link_makers[static_cast<int>(type)] = make;
}

namespace cluster {
namespace {

// The dtype of sums on the host.
DType summed_in(DType d) { return d == f16 || d == bf16 ? f32 : d; }

void check(const std::string& name, const Tensors& tensors, std::optional<ReduceOp> op, int root,
           bool written = true) {
  if (root < 0 || root >= size()) throw IndexError(name, ": expected a rank, 0 to ", size() - 1);
  if (op) check_reduce_op(*op, name);
  capture::check(name, "the ranks synchronize on the host; compile what comes before it");
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Tensor& t = tensors[i];
    detail::expect_tensor(name, t, "tensor ", i);
    if (op && t.dtype() == bool_)
      throw DTypeError(name, ": tensor ", i, ", ", describe(t), "; expected numbers");
    if (op == ReduceOp::mean && !is_floating(t.dtype()))
      throw DTypeError(name, ": the mean of tensor ", i, ", ", describe(t),
                       "; expected a floating dtype");
    if (written) check_in_place(name, {}, t);
    for (size_t k = 0; k < i; ++k)
      if (t.size() > 0 && tensors[k].size() > 0 && t.shares_memory_with(tensors[k]) &&
          share_bytes(byte_range(t.impl().view), byte_range(tensors[k].impl().view)))
        throw Error(name, ": tensors ", k, " and ", i, ", ", describe(t),
                    ", share memory; expected tensors that share none");
  }
}

// Tensors by context, in the order of their contexts' first tensors.
std::vector<Tensors> by_context(const Tensors& tensors) {
  std::vector<Tensors> all;
  for (const Tensor& t : tensors) {
    auto at = std::ranges::find(all, t.context(), [](const Tensors& g) { return g[0].context(); });
    if (at == all.end()) at = all.insert(all.end(), Tensors());
    at->push_back(t);
  }
  return all;
}

// The call's text refers to `tensors`.
RankCall call_with(const std::string& name, const Tensors& tensors, std::optional<ReduceOp> op,
                   int root, Caller from) {
  try {
    check(name, tensors, op, root);
  } catch (...) {
    RankCall call = call_of(name, from);
    call.failure = std::current_exception();
    return call;
  }
  Hash kinds, dtypes, shapes;
  for (const Tensors& group : by_context(tensors)) {
    const Context c = group[0].context();
    kinds.add(is_host(c) ? "host" : device_type_name(c.type));
    for (const Tensor& t : group) {
      dtypes.add(static_cast<int>(t.dtype()));
      shapes.add(t.ndim());
      for (const int64_t length : t.shape()) shapes.add(length);
    }
    shapes.add("next context");
  }
  RankCall call = call_of(name, from, [&tensors] {
    int64_t elements = 0;
    for (const Tensor& t : tensors) elements += t.size();
    return text_of(" of ", tensors.size(), " tensors, ", elements, " elements",
                   tensors.empty() ? "" : ", the first " + describe(tensors[0]));
  });
  call.spec = {call.spec[0], kinds.value(), dtypes.value(), shapes.value()};
  return call;
}

// Row-major memory for all elements of the tensors, and one view per tensor.
struct Staged {
  Tensor memory;
  Tensors parts;
};
Staged stage(const Tensors& tensors, DType dtype, Context host) {
  int64_t total = 0;
  for (const Tensor& t : tensors) total += t.size();
  Staged s{allocate(host, make_meta(dtype, Shape{total})), {}};
  auto* at = static_cast<char*>(s.memory.data_ptr());
  for (const Tensor& t : tensors) {
    View view{at, make_meta(dtype, t.shape()), {}};
    row_major(view.meta, view.stride);
    s.parts.push_back(alias(s.memory, view));
    at += bytes_of(view.meta);
  }
  return s;
}

// Memory that MPI may still write after a failure is never freed.
void leak(const Tensor& memory) {
  static auto* const kept = new Tensors;
  kept->push_back(memory);
}

// How a call uses this rank's tensors.
struct Use {
  bool reads = true, writes = true, sums = false;
  int root = 0;
};
using OnHost = std::function<void(Ranks&, const Tensor& memory)>;
using OnLink = std::function<void(RankLink&, std::span<const View>, StreamView)>;

// Host memory for the tensors, one block per dtype, filled if the call reads.
using AllStaged = std::vector<std::pair<Tensors, Staged>>;
AllStaged staged(const Tensors& tensors, Use use, Caller from) {
  std::map<DType, Tensors> together;
  for (const Tensor& t : tensors)
    if (t.size() > 0) together[use.sums ? summed_in(t.dtype()) : t.dtype()].push_back(t);
  AllStaged all;
  for (const auto& [dtype, list] : together) {
    const Context host = is_host(list[0].context()) ? list[0].context() : cpu_pinned();
    const Staged s = stage(list, dtype, host);
    for (size_t i = 0; use.reads && i < list.size(); ++i) list[i].copyto(s.parts[i], {}, from);
    all.emplace_back(list, s);
  }
  return all;
}

// Calls f on the staged memory, then copies results to the tensors.
void on_host(const AllStaged& all, Use use, Caller from, const OnHost& f) LOCUS_REQUIRES(turns()) {
  carry_out([&] {
    try {
      for (const auto& [list, s] : all) f(*ranks(), s.memory);
    } catch (...) {
      for (const auto& [list, s] : all) leak(s.memory);
      throw;
    }
    for (const auto& [list, s] : all)
      for (size_t i = 0; use.writes && i < list.size(); ++i) s.parts[i].copyto(list[i], {}, from);
  });
}

// The agreed link, of which c is this rank's context. Links are kept: ranks may alternate between
// contexts.
RankLink& link_of(Context c, Agreed way) LOCUS_REQUIRES(turns()) {
  static auto* const all = new std::map<uint32_t, std::unique_ptr<RankLink>>;
  std::unique_ptr<RankLink>& link = (*all)[way.link];
  if (way.fresh) link = link_makers[static_cast<int>(c.type)](*ranks(), c, time_limit());
  return *link;
}

// Tensors with elements; copies of those that are not row-major.
Tensors packed(const Tensors& tensors) {
  Tensors all;
  for (const Tensor& t : tensors)
    if (t.size() > 0) all.push_back(t.contiguous() ? t : row_major_copy(t, t.dtype()));
  return all;
}

// Calls f(link, views, stream) on `packed` in stream order, then copies to tensors that were
// packed.
void on_device(const Tensors& tensors, const Tensors& packed, Agreed way, Caller from,
               const OnLink& f) LOCUS_REQUIRES(turns()) {
  carry_out([&]() LOCUS_REQUIRES(turns()) {
    const Context c = tensors[0].context();
    RankLink& link = link_of(c, way);
    std::vector<View> views;
    for (const Tensor& t : packed) views.push_back(t.impl().view);
    if (views.empty()) return;
    const StreamView s = current_stream(c);
    {
      const MutexLock lock(barrier_turns());
      for (const Tensor& t : packed) t.impl().storage->before_write(s);
      before_barrier(s);
      Timeline::of(s).before_launch();
      FirstFailure failure;
      failure.run([&] { f(link, views, s); });
      after_barrier(s);
      for (const Tensor& t : packed) t.impl().storage->after_write(s);
      failure.rethrow();
    }
    auto at = packed.begin();
    for (const Tensor& t : tensors) {
      if (t.size() == 0) continue;
      if (!at->is(t)) at->copyto(t, {}, from);
      ++at;
    }
  });
}

bool can_link(const Tensors& group) {
  return !group.empty() && !is_host(group[0].context()) &&
         link_makers[static_cast<int>(group[0].context().type)] != nullptr;
}

// All ranks agree on the link for one context's tensors, or none.
Agreed agree_on(RankCall call, const Tensors& group) LOCUS_REQUIRES(turns()) {
  call.can_link = can_link(group);
  if (call.can_link) call.context = group[0].context();
  return agree(call, time_limit());
}

// One call of all ranks: each context's tensors over its link, or on the host.
void run_on_ranks(const std::string& name, const Tensors& tensors, std::optional<ReduceOp> op,
                  Use use, Caller from, const OnLink& on_link, const OnHost& here) {
  if (!ranks()) return check(name, tensors, op, use.root);
  RankCall call = call_with(name, tensors, op, use.root, from);
  const MutexLock lock(turns());
  const autograd::Pause pause;
  struct Ready {
    Tensors group, packed = {};
    AllStaged staged = {};
  };
  std::vector<Ready> all;
  // Allocates before the ranks agree, so that a rank without memory reports it.
  if (!call.failure) try {
      for (const Tensors& group : by_context(tensors))
        if (can_link(group))
          all.push_back({.group = group, .packed = packed(group)});
        else
          all.push_back({.group = group, .staged = staged(group, use, from)});
    } catch (...) {
      call.failure = std::current_exception();
    }
  if (call.failure || tensors.empty()) {
    agree_on(call, {});
    return;
  }
  for (Ready& r : all) {
    if (const Agreed way = agree_on(call, r.group); way.link != 0) {
      on_device(r.group, r.packed, way, from, on_link);
      continue;
    }
    if (can_link(r.group))  // and another rank cannot
      carry_out([&] { r.staged = staged(r.group, use, from); });
    on_host(r.staged, use, from, here);
  }
}

}  // namespace

void all_reduce(const Tensors& tensors, ReduceOp op, Caller from) try {
  const UserLine user_line(from);
  run_on_ranks(
      text_of("cluster::all_reduce(", op, ")"), tensors, op, {.sums = true}, from,
      [&](RankLink& link, std::span<const View> data, StreamView s) {
        link.all_reduce(data, op, s);
      },
      [&](Ranks& all, const Tensor& memory) {
        all.all_reduce(memory.data_ptr(), static_cast<size_t>(memory.size()), memory.dtype(), op,
                       time_limit());
      });
} catch (const Error&) {
  rethrow_at(from);
}

double all_reduce(double value, ReduceOp op, Caller from) {
  if (!ranks()) {
    check_reduce_op(op);
    return value;
  }
  const Tensor one = allocate(cpu(), make_meta(f64, Shape{1}));
  *static_cast<double*>(one.data_ptr()) = value;
  all_reduce(Tensors{one}, op, from);
  return *static_cast<const double*>(one.data_ptr());
}

void broadcast(const Tensors& tensors, int root, Caller from) try {
  const UserLine user_line(from);
  const std::string name = text_of("cluster::broadcast(root ", root, ")");
  const bool mine = rank() == root;
  run_on_ranks(
      name, tensors, {}, {.reads = mine, .writes = !mine, .root = root}, from,
      [&](RankLink& link, std::span<const View> data, StreamView s) {
        link.broadcast(data, root, s);
      },
      [&](Ranks& all, const Tensor& memory) {
        all.broadcast(memory.data_ptr(), bytes_of(memory.impl().view.meta), root, time_limit());
      });
} catch (const Error&) {
  rethrow_at(from);
}

Tensor send_recv(const Tensor& x, const std::vector<int>& sources, Caller from) try {
  const UserLine user_line(from);
  const std::string name = text_of("cluster::send_recv(sources ", listed(sources), ")");
  Tensors both;
  share_failure(
      [&] {
        if (std::ssize(sources) != size())
          throw Error(name, ": ", sources.size(), " sources for ", size(),
                      " ranks; expected one each");
        for (const int source : sources)
          if (source < -1 || source >= size())
            throw IndexError(name, ": source ", source, "; expected a rank, 0 to ", size() - 1,
                             ", or -1 for none");
        check(name, {x}, {}, 0, false);
        const autograd::Pause pause;
        both = {x.copyto(x.context(), {}, from),
                allocate(x.context(), make_meta(x.dtype(), x.shape()))};
      },
      from);
  const int source = sources[static_cast<size_t>(rank())];
  if (!ranks()) return source < 0 ? Tensor() : both[0];
  run_on_ranks(
      name, both, {}, {}, from,
      [&](RankLink& link, std::span<const View> data, StreamView s) {
        link.send_recv(data, sources, s);
      },
      [&](Ranks& all, const Tensor& memory) {
        const size_t bytes = bytes_of(memory.impl().view.meta) / 2;
        auto* const mine = static_cast<char*>(memory.data_ptr());
        all.send_recv(mine, mine + bytes, bytes, sources, time_limit());
      });
  return source < 0 ? Tensor() : both[1];
} catch (const Error&) {
  rethrow_at(from);
}

}  // namespace cluster
}  // namespace locus
