#include <locus/devices/host/compiler.h>

#include <fcntl.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <semaphore>
#include <system_error>

#include <locus/core/error.h>
#include <locus/core/noncopyable.h>
#include <locus/devices/cpu.h>

namespace locus {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostMessages = 16 << 10;  // bytes: errors in templates may be long

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value ? value : "";
}

std::optional<HostCompiler> program_at(const std::string& path) {
  struct stat s {};
  if (::stat(path.c_str(), &s) != 0 || !S_ISREG(s.st_mode) || ::access(path.c_str(), X_OK) != 0)
    return std::nullopt;
  return HostCompiler{path, text_of(s.st_size, ' ', s.st_mtim.tv_sec, ' ', s.st_mtim.tv_nsec)};
}

// A name without a slash is looked for in the folders of PATH.
std::optional<HostCompiler> find_program(const std::string& name) {
  if (name.find('/') != std::string::npos) return program_at(name);
  std::string_view folders;
  const std::string path = variable("PATH");
  for (folders = path; !folders.empty();) {
    const std::string_view folder = folders.substr(0, folders.find(':'));
    folders.remove_prefix(std::min(folders.size(), folder.size() + 1));
    if (!folder.starts_with('/')) continue;  // no program of the working folder
    if (auto found = program_at(text_of(folder, '/', name))) return found;
  }
  return std::nullopt;
}

// A folder of this user alone, removed with its content.
class PrivateFolder : NonCopyable {
 public:
  explicit PrivateFolder(const std::string& who) {
    std::string outer = variable("TMPDIR");
    if (outer.empty()) outer = "/tmp";
    path_ = outer + "/locus-XXXXXX";
    if (!::mkdtemp(path_.data()))
      throw Error(who, ": cannot make a folder in ", outer,
                  " for the compiler: ", std::generic_category().message(errno),
                  "; set TMPDIR to another folder");
  }
  ~PrivateFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

void write_file(const std::string& who, const std::string& path, std::string_view text) {
  std::ofstream file(path, std::ios::binary);
  file << text << std::flush;
  if (!file)
    throw Error(who, ": cannot write ", path,
                " for the compiler; set TMPDIR to a folder with space");
}

std::string read_file_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> all;
  for (std::string& s : strings) all.push_back(s.data());
  all.push_back(nullptr);
  return all;
}

// This program's environment, with messages in English and temporary files in `folder`.
std::vector<std::string> environment_of_compiler(const std::string& folder) {
  std::vector<std::string> all = {"LC_ALL=C", "TMPDIR=" + folder};
  for (char** entry = environ; entry && *entry; ++entry) {
    const std::string_view text = *entry;
    if (!text.starts_with("LC_ALL=") && !text.starts_with("TMPDIR=")) all.emplace_back(text);
  }
  return all;
}

// The status of the finished program; 0 if the system forgot it, because the process ignores
// SIGCHLD.
int run(const std::string& who, std::vector<std::string> command, const std::string& folder,
        const std::string& messages) {
  std::vector<std::string> variables = environment_of_compiler(folder);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, messages.c_str(), O_WRONLY | O_CREAT | O_APPEND,
                                   0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  pid_t child = 0;
  const int error = ::posix_spawn(&child, command[0].c_str(), &actions, nullptr,
                                  pointers(command).data(), pointers(variables).data());
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0)
    throw Error(who, ": cannot run the compiler ", command[0], ": ",
                std::generic_category().message(error));
  int status = 0;
  while (::waitpid(child, &status, 0) < 0)
    if (errno != EINTR) return 0;
  return status;
}

// The compiler's messages, without the private folder's name.
std::string shortened(std::string messages, const std::string& folder) {
  for (size_t at; (at = messages.find(folder)) != messages.npos;) messages.erase(at, folder.size());
  if (messages.size() > kMostMessages) messages = messages.substr(0, kMostMessages) + "\n...";
  while (messages.ends_with('\n')) messages.pop_back();
  return messages;
}

// As text of a #line directive.
std::string literal(std::string_view name) {
  std::string text;
  for (const char c : name) {
    if (c == '"' || c == '\\') text += '\\';
    text += c == '\n' ? ' ' : c;
  }
  return '"' + text + '"';
}

}  // namespace

HostCompiler find_host_compiler(const std::string& who, Context c) {
  const std::string named = variable("LOCUS_CXX"), built = built_compiler();
  std::vector<std::string> names = {"c++", "g++", "clang++"};
  if (!built.empty()) names.insert(names.begin(), built);
  if (!named.empty()) names = {named};
  for (const std::string& name : names)
    if (auto found = find_program(name)) return *found;
  const std::string lost =
      named.empty()
          ? text_of("LOCUS_CXX is not set, ", built, " is gone, and PATH has no c++, g++ ",
                    "or clang++; install g++, or set LOCUS_CXX")
          : text_of("LOCUS_CXX=", named, " is no program; expected a C++ compiler");
  throw UnsupportedOnContext(who, ": ", c, " compiles kernels with a C++ compiler, and none was ",
                             "found: ", lost);
}

std::vector<std::string> host_options(const ProgramSource& source) {
  std::vector<std::string> options = {"-std=c++20",
                                      "-O3",
                                      "-fPIC",
                                      "-shared",
                                      "-Wl,-z,defs",  // what is not defined is an error here
                                      "-w",
                                      "-fvisibility=hidden",
                                      "-fno-math-errno",
                                      "-fno-trapping-math",
                                      "-falign-loops=32",
                                      source.contract ? "-ffp-contract=fast" : "-ffp-contract=off"};
  if (const Isa isa = cpu_isa(); isa != Isa::base) {
    options.push_back(text_of("-march=", name(isa)));
    if (isa == Isa::v4) options.push_back("-mprefer-vector-width=512");
  }
  options.insert(options.end(), source.options.begin(), source.options.end());
  return options;
}

std::string compile_on_host(const HostCompiler& compiler, const ProgramSource& source, Context c) {
  static auto& slots = *new std::counting_semaphore<>(num_threads());
  slots.acquire();
  const struct Slot {
    ~Slot() { slots.release(); }
  } slot;

  const PrivateFolder folder(source.name);
  const std::string text = folder / "program.cc", library = folder / "program.so",
                    messages = folder / "messages";
  write_file(source.name, text, text_of("#line 1 ", literal(source.name), "\n", source.text, "\n"));
  for (const SourceFile& header : source.headers) {
    std::error_code failed;  // then writing fails
    fs::create_directories(fs::path(folder / header.name).parent_path(), failed);
    write_file(source.name, folder / header.name, header.text);
  }

  std::vector<std::string> command = host_options(source);
  command.insert(command.begin(), compiler.path);
  for (const std::string& part : {"-I" + folder / "", "-o" + library, text})
    command.push_back(part);
  const int status = run(source.name, std::move(command), folder / "", messages);
  const std::string said = shortened(read_file_of(messages), folder / "");
  if (WIFSIGNALED(status))
    throw Error(source.name, ": the compiler ", compiler.path, " was stopped by signal ",
                WTERMSIG(status), said.empty() ? "" : ":\n", said);
  std::string code = status == 0 ? read_file_of(library) : "";
  if (status != 0 || (code.empty() && !said.empty()))
    throw SourceError(source.name, ": does not compile for ", c, ":\n", said);
  if (code.empty())
    throw Error(source.name, ": the compiler ", compiler.path,
                " made no shared library; set LOCUS_CXX to a C++ compiler");
  return code;
}

}  // namespace locus
