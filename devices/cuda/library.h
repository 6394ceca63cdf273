// What a library such as cuBLAS keeps for each device, such as a handle. A device makes these when
// it opens, so that no kernel function has to. Nobody destroys them.
#pragma once

#include <cstdint>

#include <locus/core/kernel.h>

namespace locus::cuda {

enum class Library : uint8_t { blas, dnn };
inline constexpr int kNumLibraries = 2;

// Make what the library keeps for the current device. Null in a build without the library.
void* make_blas();
void* make_dnn();

// For kernel functions: what the library keeps for the stream's device. Any thread may call it.
void* library(StreamView s, Library library);

}  // namespace locus::cuda
