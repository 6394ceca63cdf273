#include <locus/devices/nvrtc/nvrtc.h>

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <nvrtc.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <initializer_list>
#include <string_view>
#include <vector>

#include <locus/core/error.h>
#include <locus/core/noncopyable.h>

namespace locus::cuda {
namespace {

constexpr size_t kMostMessages = 16 << 10;  // bytes

// The toolkit of the build, from LocusLibrary.cmake.
constexpr const char *kLibraries = LOCUS_CUDA_LIBRARIES, *kHeaders = LOCUS_CUDA_HEADERS;

std::vector<std::string> folders_of_toolkits(const char* built, const char* name) {
  std::vector<std::string> folders = {built};
  if (const char* const path = std::getenv("CUDA_PATH"); path && *path)
    folders.push_back(std::string(path) + "/" + name);
  folders.push_back(std::string("/usr/local/cuda/") + name);
  return folders;
}

bool is_folder(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored);
}

struct Nvrtc {
  decltype(&nvrtcVersion) version;
  decltype(&nvrtcGetNumSupportedArchs) num_architectures;
  decltype(&nvrtcGetSupportedArchs) architectures;
  decltype(&nvrtcGetErrorString) error_string;
  decltype(&nvrtcCreateProgram) create;
  decltype(&nvrtcDestroyProgram) destroy;
  decltype(&nvrtcAddNameExpression) add_expression;
  decltype(&nvrtcGetLoweredName) lowered_name;
  decltype(&nvrtcCompileProgram) compile;
  decltype(&nvrtcGetProgramLogSize) log_size;
  decltype(&nvrtcGetProgramLog) log;
  decltype(&nvrtcGetCUBINSize) cubin_size;
  decltype(&nvrtcGetCUBIN) cubin;
  decltype(&nvrtcGetPTXSize) ptx_size;
  decltype(&nvrtcGetPTX) ptx;
  std::string title;  // "NVRTC 13.0"
};

// Opens the library of the build's CUDA, or else any: in the toolkits' folders, as
// nvrtc_identity(), then by the loader's path. The error names what was tried.
void* open_library(std::string& tried) {
  std::vector<std::string> folders = folders_of_toolkits(kLibraries, "lib64");
  for (std::string& folder : folders) folder += '/';
  folders.emplace_back();
  for (const std::string& name :
       {text_of("libnvrtc.so.", CUDART_VERSION / 1000), std::string("libnvrtc.so")})
    for (const std::string& folder : folders) {
      if (void* const library = ::dlopen((folder + name).c_str(), RTLD_NOW)) return library;
      tried += (tried.empty() ? "" : ", ") + folder + name;
    }
  return nullptr;
}

Nvrtc open_nvrtc(const std::string& who, Context c) {
  std::string tried;
  void* const library = open_library(tried);
  if (!library)
    throw UnsupportedOnContext(who, ": ", c,
                               " compiles kernels with NVRTC, and it was not found: ", "tried ",
                               tried, "; install CUDA's NVRTC, or set CUDA_PATH");
  Nvrtc n;
  const auto find = [&](auto& f, const char* name) {
    f = reinterpret_cast<std::remove_reference_t<decltype(f)>>(::dlsym(library, name));
    if (!f) throw UnsupportedOnContext(who, ": NVRTC has no ", name, "; install NVRTC 12 or newer");
  };
  find(n.version, "nvrtcVersion");
  find(n.num_architectures, "nvrtcGetNumSupportedArchs");
  find(n.architectures, "nvrtcGetSupportedArchs");
  find(n.error_string, "nvrtcGetErrorString");
  find(n.create, "nvrtcCreateProgram");
  find(n.destroy, "nvrtcDestroyProgram");
  find(n.add_expression, "nvrtcAddNameExpression");
  find(n.lowered_name, "nvrtcGetLoweredName");
  find(n.compile, "nvrtcCompileProgram");
  find(n.log_size, "nvrtcGetProgramLogSize");
  find(n.log, "nvrtcGetProgramLog");
  find(n.cubin_size, "nvrtcGetCUBINSize");
  find(n.cubin, "nvrtcGetCUBIN");
  find(n.ptx_size, "nvrtcGetPTXSize");
  find(n.ptx, "nvrtcGetPTX");
  int major = 0, minor = 0;
  n.version(&major, &minor);
  n.title = text_of("NVRTC ", major, '.', minor);
  // NVRTC opens this library by its name alone, which finds it once it is open. If this fails,
  // NVRTC searches for itself.
  if (Dl_info place; ::dladdr(reinterpret_cast<void*>(n.version), &place) != 0) {
    const std::filesystem::path folder = std::filesystem::path(place.dli_fname).parent_path();
    ::dlopen((folder / text_of("libnvrtc-builtins.so.", major, '.', minor)).c_str(), RTLD_NOW);
  }
  return n;
}

// Opened once. If it cannot be, the next call tries again.
const Nvrtc& nvrtc(const std::string& who, Context c) {
  static const Nvrtc& n = *new Nvrtc(open_nvrtc(who, c));
  return n;
}

// "sm_90"; "compute_89" (PTX, which the driver compiles) if NVRTC does not know the GPU.
std::string architecture(const Nvrtc& n, int capability, const std::string& who, Context c) {
  int count = 0;
  n.num_architectures(&count);
  std::vector<int> known(static_cast<size_t>(count));
  n.architectures(known.data());
  const auto after = std::ranges::upper_bound(known, capability);
  if (after == known.begin())
    throw UnsupportedOnContext(who, ": ", c, " has compute capability ", capability / 10, '.',
                               capability % 10, ", and ", n.title, " compiles for ",
                               count > 0 ? text_of(known[0] / 10, '.', known[0] % 10) : "none",
                               " or newer; install an older NVRTC");
  return text_of(after[-1] == capability ? "sm_" : "compute_", after[-1]);
}

bool has_option(const ProgramSource& source, std::initializer_list<std::string_view> names) {
  return std::ranges::any_of(source.options, [&](const std::string& option) {
    return std::ranges::any_of(names, [&](std::string_view n) { return option.starts_with(n); });
  });
}

std::vector<std::string> options_for(const Nvrtc& n, const ProgramSource& source, int capability,
                                     Context c) {
  std::vector<std::string> options = {"-w"};
  if (!has_option(source, {"--std", "-std"})) options.emplace_back("--std=c++20");
  if (!has_option(source, {"--gpu-architecture", "-arch"}))
    options.push_back("--gpu-architecture=" + architecture(n, capability, source.name, c));
  if (!source.contract && !has_option(source, {"--fmad", "-fmad"}))
    options.emplace_back("--fmad=false");
  options.insert(options.end(), source.options.begin(), source.options.end());
  // For <cuda_fp16.h>, <cuda/std/limits>.
  for (const std::string& folder : folders_of_toolkits(kHeaders, "include")) {
    if (!is_folder(folder)) continue;
    options.push_back("-I" + folder);
    if (is_folder(folder + "/cccl")) options.push_back("-I" + folder + "/cccl");
    break;
  }
  return options;
}

// A program of NVRTC, destroyed at the end of a scope.
struct Compilation : NonCopyable {
  explicit Compilation(const Nvrtc& of) : n(of) {}
  ~Compilation() { n.destroy(&program); }
  const Nvrtc& n;
  nvrtcProgram program = nullptr;
};

std::string log_of(const Compilation& p) {
  size_t size = 0;
  if (p.n.log_size(p.program, &size) != NVRTC_SUCCESS || size == 0) return "";
  std::string log(size, '\0');
  p.n.log(p.program, log.data());
  log.resize(std::min(log.find('\0'), log.size()));
  if (log.size() > kMostMessages) log = log.substr(0, kMostMessages) + "\n...";
  while (log.ends_with('\n')) log.pop_back();
  return log;
}

}  // namespace

std::string compile_cuda(const ProgramSource& source, int capability, Context c) {
  const Nvrtc& n = nvrtc(source.name, c);
  const std::vector<std::string> options = options_for(n, source, capability, c);
  std::vector<const char*> option_texts, header_names, texts;
  for (const std::string& option : options) option_texts.push_back(option.c_str());
  for (const SourceFile& header : source.headers) {
    header_names.push_back(header.name);
    texts.push_back(header.text);
  }
  const auto check = [&](nvrtcResult result, const char* call) {
    if (result != NVRTC_SUCCESS)
      throw Error(source.name, ": ", call, " failed for ", c, ": ", n.error_string(result));
  };

  Compilation p(n);
  check(n.create(&p.program, source.text.c_str(), source.name.c_str(),
                 static_cast<int>(header_names.size()), texts.data(), header_names.data()),
        "nvrtcCreateProgram");
  for (const std::string& expression : source.expressions)
    check(n.add_expression(p.program, expression.c_str()), "nvrtcAddNameExpression");
  const nvrtcResult result =
      n.compile(p.program, static_cast<int>(options.size()), option_texts.data());
  if (result == NVRTC_ERROR_COMPILATION || result == NVRTC_ERROR_INVALID_OPTION)
    throw SourceError(source.name, ": does not compile for ", c, ":\n", log_of(p));
  if (result == NVRTC_ERROR_BUILTIN_OPERATION_FAILURE)
    throw UnsupportedOnContext(source.name, ": ", n.title,
                               " cannot open libnvrtc-builtins, which belongs beside libnvrtc:\n",
                               log_of(p));
  check(result, "nvrtcCompileProgram");

  std::string code;
  for (const std::string& expression : source.expressions) {
    const char* name = nullptr;
    check(n.lowered_name(p.program, expression.c_str(), &name), "nvrtcGetLoweredName");
    code += text_of(name, '\n');
  }
  const size_t names = code.size();
  size_t size = 0;
  if (n.cubin_size(p.program, &size) == NVRTC_SUCCESS && size > 0) {
    code.resize(names + size);
    check(n.cubin(p.program, code.data() + names), "nvrtcGetCUBIN");
  } else {
    check(n.ptx_size(p.program, &size), "nvrtcGetPTXSize");
    code.resize(names + size);
    check(n.ptx(p.program, code.data() + names), "nvrtcGetPTX");
  }
  return code;
}

std::vector<std::string> take_names(std::string& code, size_t expressions) {
  std::vector<std::string> names;
  size_t at = 0;
  for (; names.size() < expressions; at = code.find('\n', at) + 1)
    names.push_back(code.substr(at, code.find('\n', at) - at));
  code.erase(0, at);
  return names;
}

std::string nvrtc_identity() {
  for (const std::string& folder : folders_of_toolkits(kLibraries, "lib64")) {
    const std::string path = text_of(folder, "/libnvrtc.so.", CUDART_VERSION / 1000);
    struct stat s {};
    if (::stat(path.c_str(), &s) == 0) return text_of(path, ' ', s.st_size, ' ', s.st_mtim.tv_sec);
  }
  return std::to_string(CUDART_VERSION);
}

}  // namespace locus::cuda
