# Compilers, build type, CUDA.
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CCACHE})
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
# cuDNN comes with CUDA's folders, or a package of its own.
set(LOCUS_WITH_CUDNN OFF)
if(LOCUS_WITH_CUDA AND NOT LOCUS_CUDNN STREQUAL "OFF")
  find_path(LOCUS_CUDNN_INCLUDE cudnn_graph.h HINTS ENV CUDNN_PATH ${CUDAToolkit_INCLUDE_DIRS}
            PATH_SUFFIXES include)
  find_library(LOCUS_CUDNN_LIBRARY cudnn HINTS ENV CUDNN_PATH ${CUDAToolkit_LIBRARY_DIR}
               PATH_SUFFIXES lib lib64)
  if(LOCUS_CUDNN_INCLUDE AND LOCUS_CUDNN_LIBRARY)
    file(STRINGS ${LOCUS_CUDNN_INCLUDE}/cudnn_version.h version
         REGEX "^#define CUDNN_(MAJOR|MINOR|PATCHLEVEL) ")
    string(REGEX REPLACE "[^0-9;]" "" version "${version}")
    string(REPLACE ";" "." version "${version}")
    if(version VERSION_GREATER_EQUAL 9)
      set(LOCUS_WITH_CUDNN ON)
    endif()
  endif()
  if(LOCUS_CUDNN STREQUAL "ON" AND NOT LOCUS_WITH_CUDNN)
    message(FATAL_ERROR "LOCUS_CUDNN=ON, but cuDNN 9 was not found: set CUDNN_PATH to its folder, "
                        "or use LOCUS_CUDNN=OFF")
  endif()
endif()
set(LOCUS_WITH_NCCL OFF)
if(LOCUS_WITH_CUDA AND NOT LOCUS_NCCL STREQUAL "OFF")
  find_path(LOCUS_NCCL_INCLUDE nccl.h HINTS ENV NCCL_PATH ${CUDAToolkit_INCLUDE_DIRS}
            PATH_SUFFIXES include)
  find_library(LOCUS_NCCL_LIBRARY nccl HINTS ENV NCCL_PATH ${CUDAToolkit_LIBRARY_DIR}
               PATH_SUFFIXES lib lib64)
  if(LOCUS_NCCL_INCLUDE AND LOCUS_NCCL_LIBRARY)
    set(LOCUS_WITH_NCCL ON)
  elseif(LOCUS_NCCL STREQUAL "ON")
    message(FATAL_ERROR "LOCUS_NCCL=ON, but NCCL was not found: set NCCL_PATH to its folder, or use "
                        "LOCUS_NCCL=OFF")
  endif()
endif()
if(LOCUS_WITH_CUDA)
  message(STATUS "Locus: CUDA ${CUDAToolkit_VERSION}, architectures ${CMAKE_CUDA_ARCHITECTURES}")
  if(LOCUS_WITH_CUDNN)
    message(STATUS "Locus: cuDNN ${version}")
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

find_package(Threads REQUIRED)
find_package(Eigen3 3.4 REQUIRED NO_MODULE)
find_package(ZLIB REQUIRED)
find_package(nlohmann_json 3.10 REQUIRED)

# Flags of our own code, not of its users'.
add_library(locus_flags INTERFACE)
target_compile_options(locus_flags INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wshadow;-Wnon-virtual-dtor;-Werror;-fno-math-errno;-fno-trapping-math>
  # g++ 12 and 13 invent overflows inside the standard library.
  $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-restrict;-Wno-array-bounds;-Wno-stringop-overflow>
  $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra,-Wno-unused-parameter;--Werror=all-warnings;--expt-relaxed-constexpr;--extended-lambda>)
if(LOCUS_NATIVE)
  # g++ 12 warns inside its own AVX-512 intrinsics (GCC bug 105593).
  target_compile_options(locus_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-march=native>
    $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-maybe-uninitialized;-Wno-uninitialized>)
endif()
if(LOCUS_SANITIZE)
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${LOCUS_SANITIZE}>
                      "$<$<COMPILE_LANGUAGE:CXX>:-fno-omit-frame-pointer;-O1;-g1>")
  add_link_options(-fsanitize=${LOCUS_SANITIZE})
endif()
