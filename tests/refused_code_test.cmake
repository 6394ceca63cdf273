# Code that must not compile, and the text that says why. In a build folder:
# cmake -Dcompiler=c++ -P tests/refused_code_test.cmake
if(NOT compiler)
  message(FATAL_ERROR "expected -Dcompiler=COMPILER before -P: the one that builds Locus")
endif()
set(source ${CMAKE_CURRENT_BINARY_DIR}/refused_code.cc)
set(failures 0)

function(expect_refused expression text)
  file(WRITE ${source} "#include <locus/nn/containers.h>\n#include <locus/nn/layers.h>\n#include <locus/ops/reduce.h>\n"
                       "using namespace locus;\nstruct Net : nn::Sequential {};\n"
                       "auto f(const Tensor& x, const Tensor& y) { return ${expression}; }\n")
  execute_process(COMMAND ${compiler} -std=c++20 -fsyntax-only
                          -I${CMAKE_CURRENT_BINARY_DIR}/include ${source}
                  RESULT_VARIABLE refused ERROR_VARIABLE errors OUTPUT_QUIET)
  string(FIND "${errors}" "${text}" found)
  if(NOT refused OR found EQUAL -1)
    message("${expression}: expected an error with '${text}', got '${errors}'")
    math(EXPR failures "${failures} + 1")
    set(failures ${failures} PARENT_SCOPE)
  endif()
endfunction()

expect_refused("max(x, y)" "max reduces one tensor; for the larger of two write maximum(x, y)")
expect_refused("max(x, 0.5)" "max reduces one tensor; for the larger of two write maximum(x, y)")
expect_refused("min(x, y)" "min reduces one tensor; for the smaller of two write minimum(x, y)")
expect_refused("norm(x, 2)" "norm takes options by name; write norm(x, {.axis = 1}) or norm(x, {.ord = 1})")
expect_refused("[](nn::Sequential s) { return s; }(Net())" "a single block that is a Sequential itself: call add(block)")
expect_refused("nn::Sequential{nn::Dense(1), nn::Block()}" "a Block& would lose what its class overrides")
expect_refused("nn::Sequential{Net()}" "a single block that is a Sequential itself: call add(block)")

file(REMOVE ${source})
if(failures)
  message(FATAL_ERROR "${failures} of the refused pieces of code fail")
endif()
