# Writes register_families(): it calls every register_<family>() of ops/, and gives the registry every
# KernelList of the kernel files. Nothing else names a family. Also built_isas(), built_compiler() and
# register_gpus(): this is the one source that differs between builds with and without CUDA, an
# instruction set or another compiler's path.
# matches(RESULT PATTERN LOOSE FILE...): the names that lines of this pattern have. A line that is like
# them (LOOSE) and has another spelling is an error: it would be left out.
function(matches result pattern loose)
  set(found)
  foreach(file ${ARGN})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
    file(STRINGS ${file} lines REGEX "^${loose}")
    foreach(line ${lines})
      if(NOT line MATCHES "^${pattern}")
        message(FATAL_ERROR "${file}: \"${line}\" registers nothing; expected a line that begins with ${pattern}")
      endif()
    endforeach()
    file(STRINGS ${file} lines REGEX "^${pattern}")
    foreach(line ${lines})
      string(REGEX REPLACE "^${pattern}.*" "\\1" name "${line}")
      list(APPEND found ${name})
    endforeach()
  endforeach()
  set(${result} ${found} PARENT_SCOPE)
endfunction()

set(list_of "extern constinit const KernelList ([a-z_0-9]+) =")
set(like_list "([^ /].*)?KernelList +[A-Za-z_0-9]+ *[={]")
file(GLOB family_sources CONFIGURE_DEPENDS ops/*/*.cc)
matches(defined "void register_([a-z_0-9]+)\\(\\) {" "([^ /].*)?register_[A-Za-z_0-9]+ *\\([^;]*$" ${family_sources})
matches(cpu_lists "${list_of}" "${like_list}" ${cpu_kernels})
matches(cuda_lists "${list_of}" "${like_list}" ${cuda_kernels})

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
#include <locus/devices/host/compiler.h>
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
const char* built_compiler() { return R"locus(@CMAKE_CXX_COMPILER@)locus"; }
}  // namespace locus
]] @ONLY)
