# Writes formula_source(): the headers that formulas are made of, as text.
file(GLOB formula_headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR} ops/elementwise/*_kernel.h)
list(APPEND formula_headers core/hd.h core/half.h ops/kernel/types.h ops/kernel/cast.h
                            ops/kernel/math_base.h ops/kernel/math_exp.h ops/kernel/math_f32.h
                            ops/kernel/math.h
                            ops/kernel/product.h ops/kernel/divisor.h ops/kernel/division.h
                            ops/kernel/special.h
                            ops/elementwise/form.h ops/jit/element.h ops/jit/reduction.h
                            ops/jit/names.h ops/fuse/body.h ops/fuse/rows.h
                            ops/reduce/reduction.h ops/reduce/lanes.h ops/reduce/sum.h
                            ops/reduce/extreme.h ops/reduce/logsumexp.h ops/reduce/squares.h
                            ops/reduce/norm.h)
set(formula_files)
foreach(header ${formula_headers})
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${header})
  file(READ ${header} text)
  string(APPEND formula_files "    {\"locus/${header}\", R\"locus(${text})locus\"},\n")
endforeach()
set(formula_source ${PROJECT_BINARY_DIR}/formula_source.cc)
file(CONFIGURE OUTPUT ${formula_source} CONTENT [[
#include <locus/ops/kernel/source.h>
namespace locus {
std::span<const SourceFile> formula_source() {
  static constexpr SourceFile kFiles[] = {
@formula_files@  };
  return kFiles;
}
}  // namespace locus
]] @ONLY)
