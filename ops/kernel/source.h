// The text of the headers that formulas are made of, as this library was built: what a compiler at
// run time (NVRTC) needs to compile the same formulas into other kernels.
#pragma once

#include <span>

namespace locus {

struct SourceFile {
  const char* name;  // as it is included: "locus/ops/elementwise/form.h"
  const char* text;
};
std::span<const SourceFile> formula_source();  // written by the build

}  // namespace locus
