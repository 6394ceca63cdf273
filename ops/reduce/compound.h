// Reductions with struct accumulators or attributes. Internal to ops.
#pragma once

#include <locus/ops/reduce/logsumexp.h>
#include <locus/ops/reduce/norm.h>
#include <locus/ops/reduce/variance.h>

namespace locus::reduction {

using Compound = List<Var, Std, LogSumExp, Norm>;

}  // namespace locus::reduction
