// Reads of a recomputed function (recompute.h) from memory that it did not allocate: noted in the
// first run, checked in the second. Internal to core.
//
// Memory is the function's own if it was allocated since the run began. A run uses one thread.
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
  uint64_t run = 0;                                      // the first
  std::unordered_map<const Storage*, uint64_t> version;  // at the first read
};
class First final : public Watch {
 public:
  // `operands`: tensors in a graph that it may use.
  First(FirstReads& noted, std::span<const Ref> operands);
  void read(const Storage& storage) override;
  bool expects(const GraphState* state) const override;

 private:
  FirstReads& noted_;
  std::vector<const GraphState*> operands_;
};
// Throws Error for reads of memory that is new, written since, or not read in the first run.
class Second final : public Watch {
 public:
  explicit Second(const FirstReads& noted) : noted_(noted) {}
  void read(const Storage& storage) override;
  bool expects(const GraphState*) const override { return true; }  // the run is recorded

 private:
  const FirstReads& noted_;
};

}  // namespace reads
}  // namespace locus
