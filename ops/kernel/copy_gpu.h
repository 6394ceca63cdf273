// Strided copies and fills for the .cu files of every family. Included by *.cu only.
#pragma once

#include <locus/ops/kernel/copy.h>
#include <locus/ops/kernel/launch.h>

namespace locus::cuda {

// Fills `out`, any strides, with the first size_of(dtype) bytes of `bits`.
void fill_view(const View& out, uint64_t bits, StreamView s);

}  // namespace locus::cuda
