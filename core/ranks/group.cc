#include <locus/core/group.h>

#include <iterator>
#include <set>

#include <locus/core/base/mutex.h>
#include <locus/core/base/text.h>
#include <locus/core/device.h>
#include <locus/core/error.h>

namespace locus {
namespace {

constexpr const char* kReduceOps[] = {"sum", "mean", "max", "min", "prod"};

// The address of an equal list in a set, whose elements never move.
const std::vector<Context>* kept(const std::vector<Context>& list) {
  struct Groups {
    Mutex mutex;
    std::set<std::vector<Context>> all LOCUS_GUARDED_BY(mutex);
  };
  static Groups* const groups = new Groups;
  const MutexLock lock(groups->mutex);
  return &*groups->all.insert(list).first;
}

}  // namespace

Group::Group(const Contexts& contexts) : contexts_(nullptr) {
  const Context first = *contexts.begin();
  for (const Context c : contexts) {
    if (c.type != first.type && !(is_host(c) && is_host(first)))
      throw ContextMismatch("Group: ", first, " and ", c,
                            " are contexts of different kinds; expected all of the host, or all of "
                            "one kind of device");
    static_cast<void>(device(c));
  }
  contexts_ = kept(contexts.list());
}

std::string to_string(const Group& g) {
  return "[" + listed(g.contexts(), [](Context c) { return to_string(c); }) + "]";
}

std::string to_string(ReduceOp op) {
  const auto i = static_cast<size_t>(op);
  return i < std::size(kReduceOps) ? kReduceOps[i] : std::to_string(i);
}

void check_reduce_op(ReduceOp op, std::string_view who) {
  if (static_cast<size_t>(op) < std::size(kReduceOps)) return;
  throw ValueError(who.empty() ? text_of("ReduceOp ", op) : std::string(who),
                   ": expected a ReduceOp, one of ", listed(kReduceOps));
}

}  // namespace locus
