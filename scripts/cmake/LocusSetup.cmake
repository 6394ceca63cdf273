# Compilers, build type, CUDA.
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

# ccache, unless the user names another launcher. If its sloppiness is not set, it keeps no object that uses
# a precompiled header, and the library and all tests do.
find_program(CCACHE ccache)
if(CCACHE)
  set(launcher ${CCACHE})
  execute_process(COMMAND ${CCACHE} --get-config sloppiness
                  OUTPUT_VARIABLE sloppiness ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(NOT sloppiness)
    list(PREPEND launcher env CCACHE_SLOPPINESS=pch_defines,time_macros)
  endif()
  foreach(language CXX CUDA)
    if(NOT DEFINED CMAKE_${language}_COMPILER_LAUNCHER AND NOT DEFINED ENV{CMAKE_${language}_COMPILER_LAUNCHER})
      set(CMAKE_${language}_COMPILER_LAUNCHER ${launcher})
    endif()
  endforeach()
endif()

set(LOCUS_WITH_CUDA OFF)
if(NOT LOCUS_CUDA STREQUAL "OFF")
  # CMake 3.25 picks arch 75 in silence, and "native" fails without a GPU: decide before the language.
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES AND NOT DEFINED ENV{CUDAARCHS})
    execute_process(COMMAND nvidia-smi --query-gpu=compute_cap --format=csv,noheader
                    OUTPUT_VARIABLE found ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
    string(REGEX MATCH "^[0-9]+\\.[0-9]+" found "${found}")
    string(REPLACE "." "" found "${found}")
    if(NOT found)
      set(found 90)
    endif()
    set(CMAKE_CUDA_ARCHITECTURES ${found} CACHE STRING "CUDA architectures")
  endif()
  find_program(LOCUS_NVCC nvcc HINTS ENV CUDACXX ENV CUDA_PATH /usr/local/cuda PATH_SUFFIXES bin)
  if(LOCUS_NVCC)
    set(CMAKE_CUDA_COMPILER ${LOCUS_NVCC})
    enable_language(CUDA)
    if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25.1 does not know nvcc's
      set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
      set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
    endif()
    set(CMAKE_CUDA_STANDARD 20)
    set(CMAKE_CUDA_STANDARD_REQUIRED ON)
    find_package(CUDAToolkit REQUIRED)
    set(LOCUS_WITH_CUDA ON)
  elseif(LOCUS_CUDA STREQUAL "ON")
    message(FATAL_ERROR "LOCUS_CUDA=ON, but nvcc was not found: set CUDACXX, or use LOCUS_CUDA=OFF")
  endif()
endif()
# locus_find(CUDNN "cuDNN 9" cudnn_graph.h cudnn VERSION_HEADER PATTERN LEAST): sets LOCUS_WITH_CUDNN,
# and LOCUS_CUDNN_INCLUDE, _LIBRARY and _VERSION; the last three are for what has versions. What
# comes with CUDA's folders, or in a package of its own.
function(locus_find name title header library)
  set(with OFF)
  set(why "${title} was not found: set ${name}_PATH to its folder")
  if(NOT LOCUS_WITH_CUDA)
    set(why "this build is without CUDA: use LOCUS_CUDA=ON")
  elseif(NOT LOCUS_${name} STREQUAL "OFF")
    find_path(LOCUS_${name}_INCLUDE ${header} HINTS ENV ${name}_PATH ${CUDAToolkit_INCLUDE_DIRS}
              PATH_SUFFIXES include)
    find_library(LOCUS_${name}_LIBRARY ${library} HINTS ENV ${name}_PATH ${CUDAToolkit_LIBRARY_DIR}
                 PATH_SUFFIXES lib lib64)
    if(LOCUS_${name}_INCLUDE AND LOCUS_${name}_LIBRARY)
      set(with ON)
      if(ARGC GREATER 4)
        file(STRINGS ${LOCUS_${name}_INCLUDE}/${ARGV4} version REGEX "${ARGV5}")
        string(REGEX REPLACE "[^0-9;]" "" version "${version}")
        string(REPLACE ";" "." version "${version}")
        set(LOCUS_${name}_VERSION ${version} PARENT_SCOPE)
        if(version VERSION_LESS ARGV6)
          set(with OFF)
        endif()
      endif()
    endif()
    if(NOT with)  # the next run searches again
      unset(LOCUS_${name}_INCLUDE CACHE)
      unset(LOCUS_${name}_LIBRARY CACHE)
    endif()
  endif()
  if(LOCUS_${name} STREQUAL "ON" AND NOT with)
    message(FATAL_ERROR "LOCUS_${name}=ON, but ${why}, or use LOCUS_${name}=OFF")
  endif()
  set(LOCUS_WITH_${name} ${with} PARENT_SCOPE)
endfunction()
locus_find(CUDNN "cuDNN 9" cudnn_graph.h cudnn
           cudnn_version.h "^#define CUDNN_(MAJOR|MINOR|PATCHLEVEL) " 9)
locus_find(NCCL NCCL nccl.h nccl)
# A define and the headers it brings are for the files that read it. All other files have the same
# command in builds with and without CUDA, so both builds in one folder share their objects.
# locus_define(NAME HEADERS FILE...): compiles the files with NAME and the folders HEADERS.
function(locus_define name headers)
  set_property(SOURCE ${ARGN} APPEND PROPERTY COMPILE_DEFINITIONS ${name})
  foreach(folder ${headers})
    # The compiler's own folders have an order: with /usr/include in front, <cstdlib> finds no <stdlib.h>.
    if(NOT folder IN_LIST CMAKE_CXX_IMPLICIT_INCLUDE_DIRECTORIES)
      set_property(SOURCE ${ARGN} APPEND PROPERTY COMPILE_OPTIONS -isystem${folder})
    endif()
  endforeach()
endfunction()
if(LOCUS_WITH_CUDA)
  message(STATUS "Locus: CUDA ${CUDAToolkit_VERSION}, architectures ${CMAKE_CUDA_ARCHITECTURES}")
  if(LOCUS_WITH_CUDNN)
    message(STATUS "Locus: cuDNN ${LOCUS_CUDNN_VERSION}")
  else()
    message(STATUS "Locus: without cuDNN 9, convolutions run on our own products alone")
  endif()
  if(LOCUS_WITH_NCCL)
    message(STATUS "Locus: NCCL, ${LOCUS_NCCL_LIBRARY}")
  else()
    message(STATUS "Locus: without NCCL, large collectives are copies and sums")
  endif()
else()
  message(STATUS "Locus: without CUDA")
endif()

set(LOCUS_WITH_MPI OFF)
if(NOT LOCUS_MPI STREQUAL "OFF")
  set(MPI_CXX_SKIP_MPICXX ON)
  find_package(MPI QUIET COMPONENTS CXX)
  if(MPI_CXX_FOUND)
    set(LOCUS_WITH_MPI ON)
  endif()
  if(LOCUS_MPI STREQUAL "ON" AND NOT LOCUS_WITH_MPI)
    message(FATAL_ERROR "LOCUS_MPI=ON, but MPI was not found: install libopenmpi-dev, set MPI_HOME "
                        "to its folder, or use LOCUS_MPI=OFF")
  endif()
endif()
set(LOCUS_HAS_MPI ${LOCUS_WITH_MPI} CACHE INTERNAL "for tests/cluster.sh")
if(LOCUS_WITH_MPI)
  message(STATUS "Locus: MPI ${MPI_CXX_VERSION}, ${MPI_CXX_LIBRARIES}")
else()
  message(STATUS "Locus: without MPI, a program is one process")
endif()

find_package(Threads REQUIRED)
find_package(Eigen3 3.4 REQUIRED NO_MODULE)
find_package(ZLIB REQUIRED)
find_package(nlohmann_json 3.10 REQUIRED)

# Flags of our own code, not of its users'.
add_library(locus_flags INTERFACE)
target_compile_options(locus_flags INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wshadow;-Wnon-virtual-dtor;-Werror;-fno-math-errno;-fno-trapping-math>
  # Both operands of & are cheap, and a branch would keep loops from using vectors.
  $<$<COMPILE_LANG_AND_ID:CXX,Clang>:-Wno-bitwise-instead-of-logical>
  # g++ 12 and 13 invent overflows inside the standard library.
  $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-restrict;-Wno-array-bounds;-Wno-stringop-overflow;-Wno-stringop-overread>
  $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra,-Wno-unused-parameter;--Werror=all-warnings;--expt-relaxed-constexpr;--extended-lambda>)
# Messages name places in the source as the reader has it, not as the build machine had.
set(prefix_map -ffile-prefix-map=${PROJECT_SOURCE_DIR}/=)
target_compile_options(locus_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:${prefix_map}>
                                             $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=${prefix_map}>)
if(LOCUS_NATIVE)
  # g++ 12 warns inside its own AVX-512 intrinsics (GCC bug 105593).
  target_compile_options(locus_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-march=native>
    $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-maybe-uninitialized;-Wno-uninitialized>)
endif()
if(LOCUS_SANITIZE)
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${LOCUS_SANITIZE}>
                      "$<$<COMPILE_LANGUAGE:CXX>:-fno-omit-frame-pointer;-Og;-g1>")
  add_link_options(-fsanitize=${LOCUS_SANITIZE})
endif()
