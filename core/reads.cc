#include <locus/core/reads.h>

#include <utility>

#include <locus/core/error.h>
#include <locus/core/storage.h>

namespace locus::reads {

Watch::Watch() : outer(innermost), run(runs.fetch_add(1, std::memory_order_relaxed) + 1) {
  innermost = this;
}
Watch::~Watch() { innermost = outer; }

void tell(const Storage& storage) {
  if (storage.owner()) return;
  for (Watch* w = innermost; w; w = w->outer)
    if (storage.born() < w->run) w->read(storage);
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
