// The text of the headers of formulas, from this build. NVRTC needs it to compile the same formulas
// into other kernels at run time.
#pragma once

#include <span>

#include <locus/core/program.h>

namespace locus {

std::span<const SourceFile> formula_source();  // written by the build

}  // namespace locus
