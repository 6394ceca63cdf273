# Writes register_families(): it calls every register_<family>() of ops/, and gives the registry every
# KernelList of the kernel files. Nothing else names a family. Also built_isas() and register_gpus():
# this is the one source that differs between builds with and without CUDA or an instruction set.
function(matches result pattern)
  set(found)
  foreach(file ${ARGN})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
    file(STRINGS ${file} lines REGEX "^${pattern}")
    foreach(line ${lines})
      string(REGEX REPLACE "^${pattern}.*" "\\1" name "${line}")
      list(APPEND found ${name})
    endforeach()
  endforeach()
  set(${result} ${found} PARENT_SCOPE)
endfunction()

set(list_of "extern constinit const KernelList ([a-z_0-9]+) =")
file(GLOB family_sources CONFIGURE_DEPENDS ops/*/*.cc)
matches(defined "void register_([a-z_0-9]+)\\(\\) {" ${family_sources})
matches(cpu_lists "${list_of}" ${cpu_kernels})
matches(cuda_lists "${list_of}" ${cuda_kernels})

set(declarations)
set(calls)
foreach(family ${defined})
  string(APPEND declarations "void register_${family}();\n")
  string(APPEND calls "  register_${family}();\n")
endforeach()
foreach(list ${cpu_lists})
  set(all)
  foreach(isa ${isas})
    string(APPEND declarations "namespace ${isa} { extern const KernelList ${list}; }\n")
    list(APPEND all "{Isa::${isa}, ${isa}::${list}}")
  endforeach()
  list(JOIN all ", " all)
  string(APPEND calls "  set_kernels(DeviceType::cpu, best_isa({${all}}));\n")
endforeach()
foreach(list ${cuda_lists})
  string(APPEND declarations "namespace cuda { extern const KernelList ${list}; }\n")
  string(APPEND calls "  set_kernels(DeviceType::gpu, cuda::${list});\n")
endforeach()
set(gpus false)
if(LOCUS_WITH_CUDA)
  string(APPEND declarations "bool register_cuda();\n")
  set(gpus "register_cuda()")
endif()

list(TRANSFORM isas PREPEND Isa:: OUTPUT_VARIABLE built)
list(JOIN built ", " built)

set(families ${PROJECT_BINARY_DIR}/families.cc)
file(CONFIGURE OUTPUT ${families} CONTENT [[
#include <locus/core/kernel_list.h>
#include <locus/core/op.h>
#include <locus/devices/cpu.h>
namespace locus {
@declarations@
void register_families();
void register_families() {
@calls@}
std::span<const Isa> built_isas() {
  static constexpr Isa kBuilt[] = {@built@};
  return kBuilt;
}
bool register_gpus();
bool register_gpus() { return @gpus@; }
}  // namespace locus
]] @ONLY)
