// What a function that runs twice (recompute.h) reads of memory that it did not make: noted at its
// first run, checked at its second. Internal to core.
//
// Memory is the function's own if it was allocated since the run began. A run is one thread's.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include <locus/core/tape/reads.h>

namespace locus {

class Ref;

namespace reads {

struct FirstReads {
  uint64_t run = 0;                                      // the first one
  std::unordered_map<const Storage*, uint64_t> version;  // at the first read
};
class First final : public Watch {
 public:
  // `operands`: what it may use of a graph.
  First(FirstReads& noted, std::span<const Ref> operands);
  void read(const Storage& storage) override;
  bool expects(const GraphState* state) const override;

 private:
  FirstReads& noted_;
  std::vector<const GraphState*> operands_;
};
// Throws Error for a read of what the first run did not read, or what was written since.
class Second final : public Watch {
 public:
  explicit Second(const FirstReads& noted) : noted_(noted) {}
  void read(const Storage& storage) override;
  bool expects(const GraphState*) const override { return true; }  // it is recorded

 private:
  const FirstReads& noted_;
};

}  // namespace reads
}  // namespace locus
