#include <locus/ops/fuse/row_reduction.h>

#include <locus/ops/reduce/reduce_walk.h>
#include <locus/ops/reduce/reductions.h>

namespace locus::fusion {
namespace {

using capture::TracedCall;

// The reduction R, computed by the one of this text.
template <class R>
bool is(const TracedCall& call, const char* text, std::optional<RowReduction>& found) {
  if (call.op->name != R::name) return false;
  found = RowReduction{text, call.attrs.as<ReduceBy<R>>().axes};
  return true;
}

}  // namespace

std::optional<RowReduction> row_reduction(const TracedCall& call, const Meta& in) {
  using namespace reduction;
  std::optional<RowReduction> found;
  if (call.op->name == "sum_to")
    return RowReduction{"Sum()", broadcast_axes(in, call.attrs.as<SumToAttrs>().target)};
  if (call.op->name == Norm::name && call.attrs.as<ReduceBy<Norm>>().how.ord != 2) return found;
  is<Sum>(call, "Sum()", found) || is<Mean>(call, "Sum{{}, true}", found) ||
      is<Prod>(call, "Prod()", found) || is<Max>(call, "Max()", found) ||
      is<Min>(call, "Min()", found) || is<Any>(call, "Max()", found) ||
      is<All>(call, "Min()", found) || is<LogSumExp>(call, "LogSumExp()", found) ||
      is<Norm>(call, "Norm::Euclidean()", found);
  return found;
}

}  // namespace locus::fusion
