// How ranks agree on a call before anything of it is done. Internal to core.
#pragma once

#include <array>
#include <exception>
#include <functional>
#include <string>

#include <locus/core/caller.h>
#include <locus/core/mutex.h>
#include <locus/core/ranks.h>

namespace locus::cluster {

// What a rank is about to do.
struct RankCall {
  std::string text;  // for people, with the caller's line
  std::array<uint64_t, 4> spec =
      {};                           // which call, contexts' kind, dtypes, shapes: equal everywhere
  bool can_link = false;            // it could go over a link, ...
  Context context = {};             // ... of this one
  std::exception_ptr failure = {};  // it cannot be done here
};

// `name`, as it is called at `from` for what this thread's Purpose says; `details` are for people.
RankCall call_of(const std::string& name, Caller from, const std::string& details = "");

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
void carry_out(const std::string& text, const std::function<void()>& work) LOCUS_REQUIRES(turns());

// A list that is longer, of which only the first are told: "0.weight, 0.bias, ... 120 more".
std::string shortened(const std::string& list, size_t longest);
uint64_t hash_of(std::string_view text);  // the same in every process

}  // namespace locus::cluster
