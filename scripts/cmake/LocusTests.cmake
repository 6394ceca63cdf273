# One GoogleTest program of all tests/<folder>/*_test.cc and what they share; benchmarks are one Google
# Benchmark program.
if(LOCUS_TESTS)
  enable_testing()
  find_package(GTest REQUIRED)
  include(GoogleTest)
  file(GLOB tests CONFIGURE_DEPENDS tests/*/*_test.cc tests/references/*.cc tests/registry/walk.cc)
  if(NOT TARGET locus_examples)
    list(FILTER tests EXCLUDE REGEX "tests/programs/examples_[a-z_]*\\.cc$")
  endif()
  # The pages of the documentation: their code is tested (tests/pages/pages.awk).
  find_program(AWK awk REQUIRED)
  file(GLOB pages CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR} *.md core/*.md devices/*.md
       examples/*.md nn/*.md ops/*.md scripts/*.md tests/*.md tests/bench/*.md)
  set(maker ${PROJECT_SOURCE_DIR}/tests/pages/pages.awk)
  file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/pages)
  set(page_tests)
  foreach(page ${pages})
    string(REPLACE "/" "_" name ${page})
    set(test ${PROJECT_BINARY_DIR}/pages/${name}.cc)
    add_custom_command(OUTPUT ${test} DEPENDS ${page} ${maker} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
                       COMMAND ${AWK} -v page=${page} -f ${maker} ${page} > ${test})
    list(APPEND page_tests ${test})
  endforeach()
  set_source_files_properties(${page_tests} PROPERTIES COMPILE_OPTIONS "-Wno-unused;-Wno-shadow")
  add_executable(locus_tests ${tests} ${page_tests})
  target_include_directories(locus_tests PRIVATE ${PROJECT_SOURCE_DIR})
  # Most of the time that all of it takes to build is theirs.
  target_compile_options(locus_tests PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Og>)
  if(LOCUS_SANITIZE)
    target_compile_options(locus_tests PRIVATE -fno-sanitize=undefined)
  endif()
  target_precompile_headers(locus_tests PRIVATE <gmock/gmock.h> <gtest/gtest.h> <locus/core/autograd.h>
    <locus/core/op.h> <locus/ops/copy.h> <locus/ops/create.h> <locus/ops/elementwise.h>
    <locus/ops/view.h> tests/support/contexts.h)
  target_compile_definitions(locus_tests PRIVATE LOCUS_TEST_DATA="${PROJECT_SOURCE_DIR}/tests/data")
  target_link_libraries(locus_tests PRIVATE locus::locus locus_flags GTest::gtest GTest::gmock
                                            GTest::gtest_main ZLIB::ZLIB
                                            nlohmann_json::nlohmann_json
                                            $<TARGET_NAME_IF_EXISTS:locus_program>
                                            $<TARGET_NAME_IF_EXISTS:locus_planning>
                                            $<TARGET_NAME_IF_EXISTS:locus_training>)
  if(isas STREQUAL "base;v3;v4")
    locus_define(LOCUS_ALL_ISAS "" tests/ops/matmul_test.cc)
  endif()
  if(LOCUS_WITH_CUDA)
    file(GLOB cuda_tests CONFIGURE_DEPENDS tests/*/*_test.cu)
    target_sources(locus_tests PRIVATE ${cuda_tests})
    # Builds with CUDA read every test, and run cmake after a change of one: a test gets LOCUS_WITH_CUDA if it
    # reads it, itself or in these headers.
    set(readers)
    foreach(test ${tests})
      set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${test})
      file(STRINGS ${test} lines REGEX "LOCUS_WITH_CUDA|tests/(devices/cuda_support|support/slow|devices/cuda_dnn)\\.h" LIMIT_COUNT 1)
      if(lines)
        list(APPEND readers ${test})
      endif()
    endforeach()
    locus_define(LOCUS_WITH_CUDA "${CUDAToolkit_INCLUDE_DIRS}" ${readers})
    target_link_libraries(locus_tests PRIVATE $<LINK_ONLY:CUDA::cudart_static>
                                              $<LINK_ONLY:CUDA::nvrtc>)
  endif()
  gtest_discover_tests(locus_tests DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60)
  foreach(test families options refused_code)
    add_test(NAME ${test} COMMAND ${CMAKE_COMMAND} -Dcompiler=${CMAKE_CXX_COMPILER}
                                  -P ${PROJECT_SOURCE_DIR}/tests/${test}_test.cmake)
  endforeach()
  add_test(NAME scripts COMMAND ${PROJECT_SOURCE_DIR}/tests/scripts_test.sh)
  if(LOCUS_WITH_MPI)
    add_test(NAME ranks COMMAND ${PROJECT_SOURCE_DIR}/tests/cluster.sh ${PROJECT_BINARY_DIR})
  endif()
endif()
if(LOCUS_BENCH)
  find_package(benchmark REQUIRED)
  file(GLOB benches CONFIGURE_DEPENDS tests/bench/*.cc)
  set(cuda_benches)
  if(LOCUS_WITH_CUDA)
    file(GLOB cuda_benches CONFIGURE_DEPENDS tests/bench/*.cu)
  endif()
  add_executable(locus_bench ${benches} ${cuda_benches} examples/training/models.cc)
  target_include_directories(locus_bench PRIVATE ${PROJECT_SOURCE_DIR} examples)
  target_link_libraries(locus_bench PRIVATE locus::locus locus_flags
                                            nlohmann_json::nlohmann_json benchmark::benchmark)
  if(LOCUS_WITH_CUDA)
    target_compile_definitions(locus_bench PRIVATE LOCUS_WITH_CUDA)
    target_link_libraries(locus_bench PRIVATE CUDA::cudart_static CUDA::cublas)  # a peer
  endif()
  if(LOCUS_WITH_NCCL)  # a peer, too
    target_compile_definitions(locus_bench PRIVATE LOCUS_WITH_NCCL)
    target_include_directories(locus_bench SYSTEM PRIVATE ${LOCUS_NCCL_INCLUDE})
    target_link_libraries(locus_bench PRIVATE ${LOCUS_NCCL_LIBRARY})
  endif()
endif()
