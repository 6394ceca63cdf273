#pragma once

#include <locus/core/autograd.h>
#include <locus/core/compile.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/reduce.h>
#include <locus/ops/view.h>

#include "tests/support/contexts.h"

namespace locus::test {

using Values = std::vector<double>;
using Function = Compiled::Function;

// Makes x a variable.
inline Tensor leaf(const Tensor& x, GradReq req = GradReq::write) {
  x.attach_grad(req);
  return x;
}

}  // namespace locus::test
