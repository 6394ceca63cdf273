// The reductions whose accumulators are structs, or which have attributes of their own. Internal to
// ops.
#pragma once

#include <locus/ops/reduce/logsumexp.h>
#include <locus/ops/reduce/norm.h>
#include <locus/ops/reduce/variance.h>

namespace locus::reduction {

using Compound = List<Var, Std, LogSumExp, Norm>;

}  // namespace locus::reduction
