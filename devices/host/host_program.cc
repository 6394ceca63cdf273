#include <locus/devices/host/host_program.h>

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cfenv>
#include <cstdlib>
#include <map>
#include <vector>

#include <locus/core/error.h>
#include <locus/core/io/descriptor.h>
#include <locus/core/program/source_key.h>
#include <locus/devices/host/compiler.h>

namespace locus {
namespace {

class HostProgram final : public KernelProgram {
 public:
  HostProgram(Context c, const ProgramSource& source, void* library) {
    for (const std::string& name : source.functions) {
      void* const address = ::dlsym(library, name.c_str());
      if (!address) {
        ::dlclose(library);
        throw SourceError(source.name, ": compiled for ", c, ", but has no function ", name,
                          "; expected extern \"C\" __attribute__((visibility(\"default\"))) ", name,
                          "(...)");
      }
      functions_[name].host = address;
    }
  }
  const KernelFunction* find(std::string_view name) const override {
    const auto found = functions_.find(name);
    return found == functions_.end() ? nullptr : &found->second;
  }

 private:
  std::map<std::string, KernelFunction, std::less<>> functions_;
};

// A path of this descriptor that dlopen() has not seen. It takes equal paths for one library, and
// numbers of descriptors come back. So the n-th path has the bits of n as "/" or "/.".
std::string new_path(int fd) {
  static std::atomic<uint64_t> count{0};
  std::string path = "/proc/self/fd";
  for (uint64_t n = ++count; n != 0; n /= 2) path += n % 2 ? "/." : "/";
  return text_of(path, '/', fd);
}

// Code that is linked with -ffast-math sets the thread to flush denormals when it is loaded.
void* open_library(const std::string& path) {
  std::fenv_t before;
  std::fegetenv(&before);
  void* const library = ::dlopen(path.c_str(), RTLD_NOW);
  std::fesetenv(&before);
  return library;
}

}  // namespace

void* load_library(const std::string& who, const std::string& code, LoadFrom from) {
  void* library = nullptr;
  // What was verified is what runs: nobody can change the memory between.
  if (from == LoadFrom::memory) {
    const int fd = ::memfd_create("locus", MFD_CLOEXEC);
    if (fd >= 0 && write_all(fd, code)) library = open_library(new_path(fd));
    if (fd >= 0) ::close(fd);
    if (library) return library;
  }
  const char* const outer = std::getenv("TMPDIR");
  std::string path = text_of(outer && *outer ? outer : "/tmp", "/locus-XXXXXX");
  const int fd = ::mkostemp(path.data(), O_CLOEXEC);  // of mode 0600
  if (fd < 0) throw Error(who, ": cannot write ", path, "; set TMPDIR to another folder");
  const bool written = write_all(fd, code);
  ::close(fd);
  if (written) library = open_library(path);
  const char* const why = !written ? "cannot be written" : library ? nullptr : ::dlerror();
  const std::string error = why ? why : "";
  ::unlink(path.c_str());
  if (library) return library;
  throw Error(who, ": the compiled code cannot be loaded: ", error);
}

std::unique_ptr<KernelProgram> build_on_host(Context c, const ProgramSource& source,
                                             KernelCache& cache) {
  const HostCompiler compiler = find_host_compiler(source.name, c);
  std::string options;
  for (const std::string& option : host_options(source)) options += option + '\n';
  const KernelCache::Code code =
      cache.get(code_key(source, {"c++", compiler.path, compiler.version, options}),
                [&] { return compile_on_host(compiler, source, c); });
  return std::make_unique<HostProgram>(c, source, load_library(source.name, *code));
}

}  // namespace locus
