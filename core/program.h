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
  std::string name = {};  // in errors: "sqdiff"
  std::string text = {};
  std::vector<std::string> functions = {};   // to find: extern "C", on GPUs also __global__
  std::vector<std::string> options = {};     // added to the compiler's
  std::span<const SourceFile> headers = {};  // that the text may include; of static lifetime
  bool contract = false;                     // a * b + c may be rounded once
  // On real GPUs: more names that find() and global() know, of template instances and of names that
  // are not extern "C": "add<float>", "&filters::weights". The text does not compile without them.
  std::vector<std::string> expressions = {};
  std::string code = {};  // on real GPUs: a cubin, a fatbin or PTX, instead of the text
};

struct Dim3 {
  int64_t x = 1, y = 1, z = 1;
};
// Of one launch on a GPU.
struct LaunchShape {
  Dim3 grid = {}, block = {};  // blocks, and threads of a block
  int64_t shared = 0;          // bytes of dynamic shared memory of a block
  bool cooperative = false;    // all blocks run at a time and may wait for each other
};

// What a function needs of its GPU, and what the GPU allows.
struct KernelAttributes {
  int registers = 0;                    // of a thread
  int max_threads = 0;                  // of a block
  int suggested_block = 0;              // threads of a block that keep the GPU busiest
  int64_t local_bytes = 0;              // of a thread: memory for what is not in registers
  int64_t shared_bytes = 0;             // of a block, that the text declares
  int64_t constant_bytes = 0;           // of the program's constants
  int64_t max_shared = 0;               // the most that LaunchShape::shared may be
  bool cooperative = false;             // the GPU has cooperative launches
  std::vector<size_t> parameters = {};  // bytes of each
};

class KernelFunction : NonCopyable {
 public:
  virtual ~KernelFunction() = default;
  // Enqueues the function on a stream of its GPU. Call it in a kernel function (Device::launch),
  // which orders launches and names errors. `args` points to a struct that is the function's only
  // parameter, of at most 4 KB, and may be reused when launch returns. Throws DeviceError if the
  // GPU refuses the launch, and Error on host contexts, as here.
  virtual void launch(StreamView s, const LaunchShape& shape, const void* args, size_t bytes) const;
  // The same for any parameters: args[i] points to parameter i.
  virtual void launch(StreamView s, const LaunchShape& shape,
                      std::span<const void* const> args) const;

  // Of a GPU's function. Throw Error on host contexts, as here.
  virtual const KernelAttributes& attributes() const;
  // How many blocks of this shape the GPU runs at a time.
  virtual int64_t max_active_blocks(const LaunchShape& shape) const;
  // n <= kMostCounters zeros on the stream's GPU, for the blocks of one launch to count in. The
  // launch leaves them zero. Call it in the kernel function that launches. Throws Error on host
  // contexts.
  static constexpr int kMostCounters = 8192;
  virtual unsigned* counters(StreamView s, int n) const;

  void* host = nullptr;  // the address, on host contexts and emulated GPUs
};

class KernelProgram : NonCopyable {
 public:
  // A variable of the program in its context's memory: __constant__ or __device__.
  struct Global {
    void* data = nullptr;  // null: there is no such variable
    size_t bytes = 0;
  };

  virtual ~KernelProgram() = default;
  // A function of ProgramSource::functions. Null: another name. On real GPUs also one of
  // ProgramSource::expressions, and each function by its name in the code.
  virtual const KernelFunction* find(std::string_view name) const = 0;
  // On real GPUs, for errors: the names of all functions of the program.
  virtual std::vector<std::string> names() const { return {}; }
  virtual Global global(std::string_view) const { return {}; }
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
