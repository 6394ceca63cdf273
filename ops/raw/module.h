// Modules of CUDA C++ text and their kernels: what is compiled, and where. Internal to ops.
//
// Modules and functions live until the process ends, as ops do. Equal texts are one module.
// Threads: any.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <locus/core/base/mutex.h>
#include <locus/core/noncopyable.h>
#include <locus/core/op.h>
#include <locus/core/program.h>
#include <locus/ops/raw/signature.h>
#include <locus/ops/raw_kernels.h>

namespace locus::raw {

class Module : NonCopyable {
 public:
  // What a module is made of: a text or a file's code.
  struct Text {
    std::string name, text, code;
    RawOptions options;
  };
  static const Module& of(const Text& text);

  // Throws ValueError for a name that needs to be, and is not, a name expression.
  const Function& get(const std::string& name, const std::string& signature) const;
  // Compiled or loaded at the first call for c. `who` needs it. Throws UnsupportedOnContext,
  // SourceError or DeviceError.
  const KernelProgram& on(Context c, std::string_view who) const;
  // Throws ValueError if the module lacks the variable.
  KernelProgram::Global global(Context c, std::string_view who, const std::string& name) const;

 private:
  explicit Module(const Text& text);
  bool has_expression(const std::string& name) const;

  const Text text_;
  std::vector<SourceFile> headers_;
  ProgramSource source_;
  mutable Mutex mutex_;
  mutable std::map<Context, const KernelProgram*> programs_ LOCUS_GUARDED_BY(mutex_);
  mutable std::map<std::pair<std::string, std::string>, std::unique_ptr<const Function>> functions_
      LOCUS_GUARDED_BY(mutex_);
};

class Function : NonCopyable {
 public:
  Function(const Module& m, const std::string& name, const std::string& signature);

  // Throws ValueError if the module on c lacks the kernel, or as Module::on.
  const KernelFunction& on(Context c) const;
  void launch(const RawLaunch& launch, std::span<const RawArg> args) const;
  void for_all(int64_t n, std::span<const RawArg> args, const RawLaunch& launch) const;

  const std::string name;

 private:
  class Launch;  // launch.cc

  const Module& module_;
  const bool signed_;
  const std::vector<Parameter> signature_;
  Op op_;
  mutable Mutex mutex_;
  mutable std::map<Context, const KernelFunction*> found_ LOCUS_GUARDED_BY(mutex_);
};

// "ns::add<float>" is no identifier, "add" is one.
bool is_identifier(std::string_view name);
LaunchShape shape_of(const RawLaunch& launch);

// The op's functions (launch.cc).
struct Packed;
struct Attrs {
  const Packed* packed;
};
DType infer(std::span<const Meta> in, const void* attrs, std::span<Meta> out);
void run(const Call& call);

}  // namespace locus::raw
