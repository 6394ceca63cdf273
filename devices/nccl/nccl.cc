#include <locus/devices/nccl/nccl.h>

#ifdef LOCUS_WITH_NCCL
#include <cstdio>
#include <map>
#include <set>
#include <vector>

#include <locus/core/base/mutex.h>
#include <locus/devices/cuda/check.h>
#include <locus/devices/cuda/exit.h>
#include <locus/devices/nccl/nccl_calls.h>

namespace locus::cuda {
namespace {

// Held while a group's calls are enqueued.
Mutex& turns() {
  static Mutex* const mutex = new Mutex;
  return *mutex;
}

// One per device, never destroyed. Empty if they cannot be made; stderr says so once.
const std::vector<ncclComm_t>& connections(const Group& g) LOCUS_REQUIRES(turns()) {
  static auto* const all = new std::map<const std::vector<Context>*, std::vector<ncclComm_t>>;
  std::vector<ncclComm_t>& found = (*all)[&g.contexts()];
  static auto* const failed = new std::set<const std::vector<Context>*>;
  if (!found.empty() || failed->contains(&g.contexts())) return found;
  std::vector<ncclComm_t> made(static_cast<size_t>(g.size()));
  std::vector<int> devices;
  for (const Context c : g) devices.push_back(c.index);
  const ncclResult_t result = ncclCommInitAll(made.data(), g.size(), devices.data());
  watch_exit();
  if (result == ncclSuccess) return found = made;
  failed->insert(&g.contexts());
  std::fprintf(stderr, "locus: NCCL is not available for %s, so sums use copies: %s: %s\n",
               to_string(g).c_str(), ncclGetErrorString(result), ncclGetLastError(nullptr));
  return found;
}

}  // namespace

bool nccl_all_reduce(const Group& group, std::span<const View> in, std::span<const View> out,
                     ReduceOp op, std::span<const StreamView> streams) {
  const auto type = type_of(in[0].meta.dtype);
  if (!type) return false;
  const MutexLock lock(turns());
  const std::vector<ncclComm_t>& to = connections(group);
  if (to.empty()) return false;
  check(ncclGroupStart(), "ncclGroupStart");
  ncclResult_t first = ncclSuccess;
  for (size_t k = 0; k < in.size(); ++k) {
    const size_t i = k % to.size();
    const Guard guard(group[static_cast<int>(i)].index);
    const ncclResult_t result =
        ncclAllReduce(in[k].data, out[k].data, static_cast<size_t>(in[k].meta.size()), *type,
                      native(op), to[i], static_cast<cudaStream_t>(streams[i].native));
    if (first == ncclSuccess) first = result;
  }
  const ncclResult_t ended = ncclGroupEnd();
  check(first, "ncclAllReduce");
  check(ended, "ncclGroupEnd");
  return true;
}

}  // namespace locus::cuda

#else

namespace locus::cuda {

bool nccl_all_reduce(const Group&, std::span<const View>, std::span<const View>, ReduceOp,
                     std::span<const StreamView>) {
  return false;
}

}  // namespace locus::cuda

#endif
