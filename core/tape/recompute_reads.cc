#include <locus/core/tape/recompute_reads.h>

#include <algorithm>

#include <locus/core/base/recording_hooks.h>
#include <locus/core/error.h>
#include <locus/core/memory/storage.h>
#include <locus/core/op.h>

namespace locus::reads {

Watch::Watch() : outer(innermost), run(runs.fetch_add(1, std::memory_order_relaxed) + 1) {
  innermost = this;
}
Watch::~Watch() { innermost = outer; }

void tell(const Storage& storage) {
  if (storage.owner() && !capture::owns(storage)) return;
  for (Watch* w = innermost; w; w = w->outer)
    if (storage.born() < w->run) w->read(storage);
}

bool expects(const GraphState* state) {
  for (const Watch* w = innermost; w; w = w->outer)
    if (!w->expects(state)) return false;
  return true;
}

First::First(FirstReads& noted, std::span<const Ref> operands) : noted_(noted) {
  noted.run = run;
  for (const Ref& r : operands) operands_.push_back(r.tensor_->impl().graph.get());
}

bool First::expects(const GraphState* state) const {
  return std::ranges::find(operands_, state) != operands_.end();
}

void First::read(const Storage& storage) { noted_.version.emplace(&storage, storage.version()); }

void Second::read(const Storage& storage) {
  const auto refuse = [&](const char* why) {
    throw Error("recompute: the function reads ", storage.bytes(), " bytes on ", storage.context(),
                " that ", why,
                ", and backward() runs it again; expected the tensors of its first run, unchanged");
  };
  if (storage.born() >= noted_.run) refuse("were allocated since its first run began");
  const auto first = noted_.version.find(&storage);
  if (first == noted_.version.end()) refuse("its first run did not read");
  if (first->second != storage.version()) refuse("were changed in place since its first run");
}

}  // namespace locus::reads
