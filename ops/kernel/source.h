// The text of the headers of formulas, from this build. NVRTC needs it to compile the same formulas
// into other kernels at run time.
#pragma once

#include <span>

namespace locus {

struct SourceFile {
  const char* name;  // as included: "locus/ops/elementwise/form.h"
  const char* text;
};
std::span<const SourceFile> formula_source();  // written by the build

}  // namespace locus
