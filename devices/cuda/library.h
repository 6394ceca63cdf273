// State that a library such as cuBLAS keeps per device, such as a handle. Made when the device
// opens, so no kernel function has to. Never destroyed.
#pragma once

#include <cstdint>

#include <locus/core/kernel.h>

namespace locus::cuda {

enum class Library : uint8_t { blas, dnn, solver };
inline constexpr int kNumLibraries = 3;

// Make the library's state for the current device. Null in a build without the library.
void* make_blas();
void* make_dnn();
void* make_solver();

// For kernel functions: the library's state for the stream's device. Threads: any.
void* library(StreamView s, Library library);

}  // namespace locus::cuda
