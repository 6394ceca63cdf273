// How ranks agree on a call before anything of it is done. Internal to core.
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

// What a rank is about to do.
struct RankCall {
  // Hashes of what must be equal on all ranks: the call and its purpose, contexts' kinds, dtypes,
  // shapes.
  std::array<uint64_t, 4> spec = {};
  std::function<std::string()> text;  // the call in words, if hashes differ or something fails
  bool can_link = false;              // it could go over a link, ...
  Context context = {};               // ... of this context
  std::exception_ptr failure = {};    // it cannot be done here
};

// `name`, called at `from` for this thread's Purpose. `details` add to the call's text.
RankCall call_of(const std::string& name, Caller from, std::function<std::string()> details = {});

// What they agreed on: the number of the link of all ranks' contexts, where they all can, which is
// fresh where nothing went over it before; 0: none.
struct Agreed {
  uint32_t link = 0;
  bool fresh = false;
};

// One thread at a time goes from the agreement to its end.
Mutex& turns();
// From now on these are the ranks.
void use(Ranks& ranks, double time_limit);
Ranks* ranks();       // null: this process is alone
double time_limit();  // LOCUS_CLUSTER_TIMEOUT, in seconds

// Waits for the calls of all ranks. Throws on every rank where they differ, where one failed, or
// where one did not come within `seconds`.
Agreed agree(const RankCall& call, double seconds) LOCUS_REQUIRES(turns());
// What is agreed on: where it throws, the ranks are no longer in step, and the cluster has failed.
void carry_out(const std::function<void()>& work) LOCUS_REQUIRES(turns());

// A list that is longer, of which only the first are told: "0.weight, 0.bias, ... 120 more".
std::string shortened(const std::string& list, size_t longest);

}  // namespace locus::cluster
