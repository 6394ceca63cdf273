// Code compiled from source text at run time, and its functions.
//
//   const KernelProgram& p = *compile_program(x.context(), {.name = "twice", .text = text,
//                                                     .functions = {"twice"}});
//   const KernelFunction& f = *p.find("twice");
//   f.launch(stream, {.grid = {blocks}, .block = {256}}, &args, sizeof(args));  // on real GPUs
//   reinterpret_cast<void (*)(const Args&)>(f.host)(args);                      // on host contexts
//
// For ops that generate code, and for devices that compile it (Device::build). A KernelProgram
// belongs to one context and stays loaded until the process ends. Threads: any.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <locus/core/kernel.h>
#include <locus/core/noncopyable.h>

namespace locus {

// A header for source text. Lives as long as the program.
struct SourceFile {
  const char* name;  // as included: "locus/ops/elementwise/form.h"
  const char* text;
};

// The source of a KernelProgram. On host contexts and emulated GPUs it is C++, on real GPUs CUDA
// C++.
struct ProgramSource {
  std::string name;  // in errors: "sqdiff"
  std::string text;
  std::vector<std::string> functions = {};   // to find: extern "C", on GPUs also __global__
  std::vector<std::string> options = {};     // more of the context's compiler
  std::span<const SourceFile> headers = {};  // that the text may include; of static lifetime
  bool contract = false;                     // a * b + c may be rounded once
};

// Of one launch on a GPU: blocks, and threads of a block, in x, y and z.
struct LaunchShape {
  uint32_t grid[3] = {1, 1, 1}, block[3] = {1, 1, 1};
};

class KernelFunction : NonCopyable {
 public:
  virtual ~KernelFunction() = default;
  // Enqueues the function on a stream of its GPU. Call it in a kernel function (Device::launch),
  // which orders launches and names errors. `args` points to a struct that is the function's only
  // parameter, of at most 4 KB, and may be reused when launch returns. Throws DeviceError if the
  // GPU refuses the launch, and Error on host contexts, as here.
  virtual void launch(StreamView s, const LaunchShape& shape, const void* args, size_t bytes) const;

  void* host = nullptr;  // the address, on host contexts and emulated GPUs
};

class KernelProgram : NonCopyable {
 public:
  virtual ~KernelProgram() = default;
  // A function of ProgramSource::functions. Null: another name.
  virtual const KernelFunction* find(std::string_view name) const = 0;
};

// The program of this source on context c, never null. The first call compiles it, or reads its
// code from the kernel cache, by Device::build. Later calls with an equal source return the same
// program. If several threads ask for it, one builds it and the others wait. If it cannot be built,
// each call throws:
//   SourceError           the text does not compile; the error has the compiler's messages
//   UnsupportedOnContext  the context has no compiler
//   DeviceError           the device refuses the code
//   OutOfMemory           no memory for the code
//   Error                 the compiler cannot run
const KernelProgram* compile_program(Context c, const ProgramSource& source);

}  // namespace locus
