# locus::locus. A new op family is picked up by its file names:
#   ops/<family>.h                 what users call
#   ops/<family>/<stem>.cc         inference, gradient, register_<family>()
#   ops/<family>/<stem>_names.cc   names of its functions (ops/named.h), register_<stem>_names()
#   ops/<family>/<stem>_kernel.h   what both kinds of kernels share: attributes, formulas, the list
#   ops/<family>/<stem>_cpu.cc     CPU kernels, compiled once per instruction set
#   ops/<family>/<stem>.cu         CUDA kernels
file(GLOB sources CONFIGURE_DEPENDS core/*/*.cc devices/*/*.cc ops/*.cc ops/*/*.cc nn/*/*.cc)
file(GLOB cpu_kernels CONFIGURE_DEPENDS ops/*/*_cpu.cc)
file(GLOB cuda_sources CONFIGURE_DEPENDS devices/cuda/*.cc devices/cusolver/*.cc devices/nccl/*.cc
                                         devices/nvrtc/*.cc
                                         devices/ranks/nccl*.cc)
file(GLOB cuda_kernels CONFIGURE_DEPENDS ops/*/*.cu)
list(REMOVE_ITEM sources ${cpu_kernels})
if(NOT LOCUS_WITH_CUDA)
  list(REMOVE_ITEM sources ${cuda_sources})
  set(cuda_kernels)
endif()

set(isas ${LOCUS_ISAS})
include(LocusFamilies)
include(LocusFormulas)
add_library(locus ${sources} ${cuda_kernels} ${families} ${formula_source})
add_library(locus::locus ALIAS locus)

# <locus/core/tensor.h> inside and outside: links to the source folders.
set(links ${PROJECT_BINARY_DIR}/include/locus)
file(MAKE_DIRECTORY ${links})
foreach(room core devices ops nn)
  file(CREATE_LINK ${PROJECT_SOURCE_DIR}/${room} ${links}/${room} SYMBOLIC)
endforeach()
file(CREATE_LINK ${PROJECT_SOURCE_DIR}/nn/locus.h ${links}/locus.h SYMBOLIC)

target_include_directories(locus PUBLIC $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/include>
                                        $<INSTALL_INTERFACE:include>)
target_compile_features(locus PUBLIC cxx_std_20)
target_compile_definitions(locus PRIVATE LOCUS_LIBRARY=true)
target_link_libraries(locus PUBLIC Threads::Threads PRIVATE ZLIB::ZLIB ${CMAKE_DL_LIBS}
  $<BUILD_INTERFACE:locus_flags> $<BUILD_INTERFACE:nlohmann_json::nlohmann_json>)
set_target_properties(locus PROPERTIES POSITION_INDEPENDENT_CODE ON)
# Nearly every file includes these headers, which took a third of the time to compile it.
target_precompile_headers(locus PRIVATE <algorithm> <functional> <map> <locus/core/op.h>)
if(NOT BUILD_SHARED_LIBS)
  set_target_properties(locus PROPERTIES CXX_VISIBILITY_PRESET hidden CUDA_VISIBILITY_PRESET hidden
                                         VISIBILITY_INLINES_HIDDEN ON)
endif()

# One copy of the CPU kernels per instruction set. Eigen's namespace is renamed in each: otherwise the
# linker merges its templates, and all copies run at one width or crash on an older processor.
foreach(isa ${isas})
  add_library(locus_kernels_${isa} OBJECT ${cpu_kernels})
  target_compile_definitions(locus_kernels_${isa} PRIVATE LOCUS_ISA_NAMESPACE=${isa} Eigen=Eigen_${isa}
                                                          EIGEN_DONT_PARALLELIZE EIGEN_NO_DEBUG)
  target_link_libraries(locus_kernels_${isa} PRIVATE locus_flags)
  target_include_directories(locus_kernels_${isa} PRIVATE ${PROJECT_BINARY_DIR}/include)
  target_include_directories(locus_kernels_${isa} SYSTEM PRIVATE
    $<TARGET_PROPERTY:Eigen3::Eigen,INTERFACE_INCLUDE_DIRECTORIES>)
  # A loop's speed depends on where it lies in cache lines: it is not to change with other files.
  target_compile_options(locus_kernels_${isa} PRIVATE -falign-functions=64 -falign-loops=32)
  if(LOCUS_SANITIZE)
    target_compile_options(locus_kernels_${isa} PRIVATE -O1)  # tests wait for them
  endif()
  # -mprefer-vector-width=512: g++ otherwise keeps to 256 bits, also if the processor has 512.
  if(NOT isa STREQUAL "base")
    target_compile_options(locus_kernels_${isa} PRIVATE -march=x86-64-${isa}
      $<$<STREQUAL:${isa},v4>:-mprefer-vector-width=512>)
  elseif(LOCUS_NATIVE AND CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    target_compile_options(locus_kernels_${isa} PRIVATE -mprefer-vector-width=512)
  endif()
  # g++ warns inside Eigen, its own AVX intrinsics and of arrays that loops fill (GCC bug 105593).
  target_compile_options(locus_kernels_${isa} PRIVATE
    $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized;-Wno-uninitialized>)
  set_target_properties(locus_kernels_${isa} PROPERTIES CXX_VISIBILITY_PRESET hidden
                                                        VISIBILITY_INLINES_HIDDEN ON)
  target_sources(locus PRIVATE $<TARGET_OBJECTS:locus_kernels_${isa}>)
endforeach()

# Numbers that are the same on every context: no fused multiply-add, on any instruction set or GPU.
# Formulas: the same numbers in kernels of one formula and in fused kernels (ops/fuse.h).
file(GLOB formula_kernels CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR} ops/elementwise/*_cpu.cc)
set_source_files_properties(ops/create/create_cpu.cc ops/random/random_cpu.cc
                            ops/reduce/reduce_cpu.cc ops/reduce/reduce_arg_cpu.cc
                            ops/reduce/reduce_compound_cpu.cc ${formula_kernels} PROPERTIES
                            COMPILE_OPTIONS -ffp-contract=off)
file(GLOB formula_kernels CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR} ops/elementwise/*.cu)
set_source_files_properties(ops/random/random.cu ${formula_kernels} PROPERTIES
                            COMPILE_OPTIONS -fmad=false)

# A library of NVIDIA's is known to one pair of files, such as devices/nccl/nccl.{h,cc}; this is what it links.
# LINK_ONLY: its headers are for cuda_sources alone.
set(library_blas $<LINK_ONLY:CUDA::cublas> $<LINK_ONLY:CUDA::cublasLt>)
set(library_solver $<LINK_ONLY:CUDA::cusolver>)
set(library_dnn ${LOCUS_CUDNN_LIBRARY})
set(library_nccl ${LOCUS_NCCL_LIBRARY})

if(LOCUS_WITH_CUDA)
  target_link_libraries(locus PRIVATE $<LINK_ONLY:CUDA::cudart_static>)
  locus_define(LOCUS_WITH_CUDA "${CUDAToolkit_INCLUDE_DIRS}" ${cuda_sources})
  list(GET CUDAToolkit_INCLUDE_DIRS 0 headers)  # NVRTC is opened when a program needs it
  locus_define("LOCUS_CUDA_LIBRARIES=\"${CUDAToolkit_LIBRARY_DIR}\";LOCUS_CUDA_HEADERS=\"${headers}\"" ""
               devices/nvrtc/nvrtc.cc)
  target_compile_options(locus PRIVATE
    $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-include,${PROJECT_SOURCE_DIR}/scripts/cmake/cuda_first.h>)
  set(libraries blas solver)
  if(LOCUS_WITH_CUDNN)
    list(APPEND libraries dnn)
    locus_define(LOCUS_WITH_CUDNN "${LOCUS_CUDNN_INCLUDE}" ${cuda_sources})
  endif()
  if(LOCUS_WITH_NCCL)
    list(APPEND libraries nccl)
    locus_define(LOCUS_WITH_NCCL "${LOCUS_NCCL_INCLUDE}" ${cuda_sources})
  endif()
  foreach(name ${libraries})
    target_link_libraries(locus PRIVATE ${library_${name}})
  endforeach()
endif()

if(LOCUS_WITH_MPI)
  target_link_libraries(locus PRIVATE ${MPI_CXX_LIBRARIES})
  locus_define("LOCUS_WITH_MPI;OMPI_SKIP_MPICXX;MPICH_SKIP_MPICXX" "${MPI_CXX_INCLUDE_DIRS}"
               devices/ranks/mpi_ranks.cc)
endif()

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
install(TARGETS locus EXPORT locus-targets)
foreach(room core devices ops nn)
  install(DIRECTORY ${room} DESTINATION include/locus FILES_MATCHING PATTERN "*.h")
endforeach()
install(FILES nn/locus.h DESTINATION include/locus)
install(EXPORT locus-targets NAMESPACE locus:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/locus)
configure_package_config_file(scripts/cmake/locus-config.cmake.in locus-config.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/locus)
write_basic_package_version_file(locus-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/locus-config.cmake
  ${PROJECT_BINARY_DIR}/locus-config-version.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/locus)
