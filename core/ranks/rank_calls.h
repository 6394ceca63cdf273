// Ranks agree on a call before any rank carries it out. Internal to core.
#pragma once

#include <array>
#include <exception>
#include <functional>
#include <string>

#include <locus/core/base/mutex.h>
#include <locus/core/caller.h>
#include <locus/core/ranks/rank_purpose.h>
#include <locus/core/ranks/ranks.h>

namespace locus::cluster {

// A call that a rank is about to make.
struct RankCall {
  // Hashes that must be equal on all ranks: call and purpose, types of contexts, dtypes, shapes.
  std::array<uint64_t, 4> spec = {};
  std::function<std::string()> text;  // describes the call in errors
  bool can_link = false;              // the call could use a link, ...
  Context context = {};               // ... of this context
  std::exception_ptr failure = {};    // this rank cannot make the call
};

// The call `name` at `from`, with this thread's Purpose. `details` add to the call's text.
RankCall call_of(const std::string& name, Caller from, std::function<std::string()> details = {});

// The agreement. `link`: the number of the link between the ranks' contexts; 0 unless all ranks can
// use a link. `fresh`: the link is not made yet.
struct Agreed {
  uint32_t link = 0;
  bool fresh = false;
};

// Held by one thread at a time, from the agreement to the end of the call.
Mutex& turns();
// Sets the ranks.
void use(Ranks& ranks, double time_limit);
Ranks* ranks();       // null: this process is alone
double time_limit();  // LOCUS_CLUSTER_TIMEOUT, in seconds

// Waits for the calls of all ranks. Every rank throws if calls differ, if a rank failed, or if a
// rank did not call within `seconds`.
Agreed agree(const RankCall& call, double seconds) LOCUS_REQUIRES(turns());
// Runs agreed work. If it throws, the ranks are no longer in step, and the cluster has failed.
void carry_out(const std::function<void()>& work) LOCUS_REQUIRES(turns());

// Shortens a list of more than `longest` characters: "0.weight, 0.bias, ... 120 more".
std::string shortened(const std::string& list, size_t longest);

}  // namespace locus::cluster
