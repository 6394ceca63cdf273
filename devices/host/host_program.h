// Programs of host contexts and emulated GPUs: shared libraries of the machine's C++ compiler.
#pragma once

#include <memory>
#include <string>

#include <locus/core/context.h>
#include <locus/core/program.h>
#include <locus/core/program/cache.h>

namespace locus {

// Device::build for context c: code from the cache or the compiler, loaded for good.
std::unique_ptr<KernelProgram> build_on_host(Context c, const ProgramSource& source,
                                             KernelCache& cache = kernel_cache());

// Loads a shared library from memory, or from a file if memory cannot be executed. Returns the
// handle of dlopen(). Throws Error if the system refuses the library.
enum class LoadFrom { memory, file };
void* load_library(const std::string& who, const std::string& code,
                   LoadFrom from = LoadFrom::memory);

}  // namespace locus
