// All reductions. Each list is one CUDA file: put a new reduction beside related ones, unless that
// file compiles slowly. Internal to ops.
#pragma once

#include <locus/ops/reduce/compound.h>
#include <locus/ops/reduce/extreme.h>
#include <locus/ops/reduce/position.h>
#include <locus/ops/reduce/sum.h>
