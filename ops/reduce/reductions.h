// All reductions. A list is compiled as one CUDA file: a new reduction goes where its kin is,
// unless that file takes long. Internal to ops.
#pragma once

#include <locus/ops/reduce/compound.h>
#include <locus/ops/reduce/extreme.h>
#include <locus/ops/reduce/position.h>
#include <locus/ops/reduce/sum.h>
