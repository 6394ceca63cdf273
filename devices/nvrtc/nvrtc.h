// NVRTC, NVIDIA's compiler of CUDA C++ at run time. Known to devices/nvrtc/nvrtc.cc only. The
// library is opened at the first compilation, so programs run without it. Threads: any.
#pragma once

#include <string>
#include <vector>

#include <locus/core/context.h>
#include <locus/core/program.h>

namespace locus::cuda {

// Machine code for GPUs of a compute capability (90 for 9.0), or PTX if NVRTC is older than the GPU
// or the source's options say so. SourceError: the text does not compile; the messages name places
// as the text does. UnsupportedOnContext: there is no NVRTC, or it does not know such old GPUs.
// In front of the code is a line for each of ProgramSource::expressions: its name in the code.
std::string compile_cuda(const ProgramSource& source, int capability, Context c);
// Removes these lines, and returns them.
std::vector<std::string> take_names(std::string& code, size_t expressions);

// The library that would be opened: its path, size and time, or the build's version of CUDA. For
// keys of caches; opens nothing.
std::string nvrtc_identity();

}  // namespace locus::cuda
