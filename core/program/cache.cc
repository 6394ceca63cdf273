#include <locus/core/program/cache.h>

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include <locus/core/base/environment.h>
#include <locus/core/error.h>
#include <locus/core/io/descriptor.h>
#include <locus/core/program/digest.h>

namespace locus {
namespace {

constexpr std::string_view kFormat = "locus kernel 1\n", kTemporary = "tmp-";
constexpr size_t kDigits = 64, kHead = kFormat.size() + 2 * (kDigits + 1);
constexpr time_t kHour = 3600, kDay = 24 * kHour;

std::string why(int error) { return std::generic_category().message(error); }

// What is wrong with a file or folder of the cache; "": nothing.
std::string distrust(const struct stat& s, mode_t type) {
  if ((s.st_mode & S_IFMT) != type) return type == S_IFDIR ? "is not a folder" : "is not a file";
  if (s.st_uid != geteuid()) return "belongs to another user";
  if ((s.st_mode & (S_IWGRP | S_IWOTH)) != 0) return "can be written by other users";
  if (type == S_IFREG && s.st_nlink > 1) return "has hard links";
  return "";
}

// False: an error, or the file has shrunk.
bool read_all(int fd, std::string& data) {
  for (size_t at = 0; at < data.size();) {
    const ssize_t n = ::read(fd, data.data() + at, data.size() - at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += static_cast<size_t>(n);
  }
  return true;
}

std::string content_of(const std::string& name, const std::string& code) {
  const std::string rest = name + "\n" + code;
  return text_of(kFormat, sha256(rest), '\n', rest);
}

bool valid(const std::string& content, const std::string& name) {
  return content.size() >= kHead && content == content_of(name, content.substr(kHead));
}

}  // namespace

KernelCache::KernelCache(std::string folder, size_t limit, int own)
    : path_(std::move(folder)), limit_(limit) {
  if (!path_.empty()) open(own);
}

KernelCache::~KernelCache() {
  if (folder_ >= 0) ::close(folder_);
}

void KernelCache::open(int own) {
  namespace fs = std::filesystem;
  std::vector<std::string> names;
  fs::path outer = fs::path(path_ + "/").lexically_normal().parent_path();
  for (; own > 0; --own, outer = outer.parent_path())
    names.insert(names.begin(), outer.filename().string());
  if (outer.empty()) outer = ".";
  const auto refuse = [this](const std::string& what) {
    say(kFolder, text_of("the kernel cache ", path_, what, "; kernels are kept in memory"));
  };

  std::error_code failed;
  fs::create_directories(outer, failed);
  int fd = ::open(outer.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return refuse(text_of(" cannot be used: ", outer.string(), ": ", why(errno)));
  for (const std::string& name : names) {
    const Descriptor above(fd);
    const bool made = ::mkdirat(fd, name.c_str(), 0700) == 0;
    const int mkdir_error = made ? 0 : errno;
    fd = ::openat(fd, name.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    const int error = errno;
    const std::string which = names.size() > 1 ? text_of(" (", name, ")") : "";
    struct stat s {};
    if (fd < 0) {
      const bool there = ::fstatat(above.fd, name.c_str(), &s, AT_SYMLINK_NOFOLLOW) == 0;
      if (there && S_ISLNK(s.st_mode))
        return refuse(text_of(which, " is a symbolic link and is not used"));
      if (there && !S_ISDIR(s.st_mode))
        return refuse(text_of(which, " is not a folder and is not used"));
      return refuse(text_of(which, " cannot be used: ", why(there ? error : mkdir_error)));
    }
    const std::string wrong = ::fstat(fd, &s) == 0 ? distrust(s, S_IFDIR) : why(errno);
    if (!wrong.empty()) {
      ::close(fd);
      return refuse(text_of(which, " ", wrong, " and is not used"));
    }
  }
  folder_ = fd;
}

KernelCache::Code KernelCache::get(const std::string& key,
                                   const std::function<std::string()>& compile) {
  if (key.empty()) return std::make_shared<const std::string>(compile());
  const std::string name = sha256(key);
  bool on_disk = false;
  Code code = codes_.get(name, [&] {
    if (Code found = read(name)) {
      on_disk = true;
      return found;
    }
    Code made = std::make_shared<const std::string>(compile());
    on_disk = write(name, *made);
    return made;
  });
  if (on_disk) codes_.forget(name);
  return code;
}

KernelCache::Code KernelCache::read(const std::string& name) {
  if (folder_ < 0) return nullptr;
  // O_NONBLOCK: opening a pipe would wait.
  const Descriptor file(
      ::openat(folder_, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (file.fd < 0 && errno == ENOENT) return nullptr;
  std::string wrong;
  struct stat s {};
  if (file.fd < 0)
    wrong = errno == ELOOP ? "is a symbolic link" : "cannot be read: " + why(errno);
  else
    wrong = ::fstat(file.fd, &s) == 0 ? distrust(s, S_IFREG) : why(errno);
  if (wrong.empty()) {
    std::string content(static_cast<size_t>(s.st_size), '\0');
    if (read_all(file.fd, content) && valid(content, name)) {
      if (std::time(nullptr) - s.st_mtime > kDay)
        ::futimens(file.fd, nullptr);  // used: evicted later
      return std::make_shared<const std::string>(content.substr(kHead));
    }
    wrong = "is damaged";
  }
  say(kFile, text_of("the kernel cache's file ", path_, "/", name, " ", wrong,
                     "; the kernel is compiled again"));
  return nullptr;
}

bool KernelCache::write(const std::string& name, const std::string& code) {
  if (folder_ < 0) return false;
  static std::atomic<unsigned> count{0};
  std::string temporary;
  int fd = -1;
  do {  // a killed process, or one in another container, may have left a file of this name
    temporary = text_of(kTemporary, getpid(), '-', count++);
    fd = ::openat(folder_, temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                  0600);
  } while (fd < 0 && errno == EEXIST);
  // No fsync: after a crash of the machine, a torn file fails its digest.
  const std::string content = content_of(name, code);
  bool good = fd >= 0 && write_all(fd, content);
  int error = errno;
  if (fd >= 0 && ::close(fd) != 0 && good) good = false, error = errno;
  if (good && ::renameat(folder_, temporary.c_str(), folder_, name.c_str()) != 0)
    good = false, error = errno;
  if (!good) {
    if (fd >= 0) ::unlinkat(folder_, temporary.c_str(), 0);
    say(kWrite, text_of("the kernel cache ", path_, " cannot be written: ", why(error),
                        "; kernels are kept in memory"));
    return false;
  }
  // The folder is listed at this process's first file, and again after each 32nd of the limit.
  const size_t before = written_.fetch_add(content.size()), step = limit_ / 32 + 1;
  if (before == 0 || before / step != (before + content.size()) / step) evict();
  return true;
}

void KernelCache::evict() {
  // One process at a time, and none waits for another.
  const Descriptor lock(::openat(folder_, "lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (lock.fd < 0 || ::flock(lock.fd, LOCK_EX | LOCK_NB) != 0) return;
  const int copy = ::openat(folder_, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR* const list = copy < 0 ? nullptr : ::fdopendir(copy);
  if (!list) {
    if (copy >= 0) ::close(copy);
    return;
  }
  struct Entry {
    std::string name;
    timespec time;
    size_t bytes;
  };
  std::vector<Entry> entries;
  size_t total = 0;
  const time_t now = std::time(nullptr);
  while (const dirent* const found = ::readdir(list)) {
    const std::string_view name = found->d_name;
    const bool temporary = name.starts_with(kTemporary);
    struct stat s {};
    if ((name.size() != kDigits && !temporary) ||
        ::fstatat(folder_, found->d_name, &s, AT_SYMLINK_NOFOLLOW) != 0 || S_ISDIR(s.st_mode))
      continue;
    if (temporary) {  // of a process that was killed, if it is old
      if (now - s.st_mtime > kHour) ::unlinkat(folder_, found->d_name, 0);
      continue;
    }
    entries.push_back({std::string(name), s.st_mtim, static_cast<size_t>(s.st_size)});
    total += entries.back().bytes;
  }
  ::closedir(list);
  if (total <= limit_) return;
  std::ranges::sort(entries, {},
                    [](const Entry& e) { return std::pair(e.time.tv_sec, e.time.tv_nsec); });
  for (const Entry& e : entries) {
    if (total <= limit_ / 5 * 4) break;
    ::unlinkat(folder_, e.name.c_str(), 0);
    total -= e.bytes;
  }
}

void KernelCache::say(Trouble trouble, const std::string& text) {
  if (!said_[trouble].exchange(true)) std::fprintf(stderr, "locus: %s\n", text.c_str());
}

std::unique_ptr<KernelCache> cache_of_environment() {
  const auto variable = [](const char* name) {
    const char* const value = std::getenv(name);
    return std::string(value ? value : "");
  };
  const size_t limit = environment_bytes("LOCUS_KERNEL_CACHE_SIZE").value_or(size_t{256} << 20);
  if (const std::string folder = variable("LOCUS_KERNEL_CACHE"); !folder.empty())
    return std::make_unique<KernelCache>(folder == "off" ? "" : folder, limit);
  std::string folder = variable("XDG_CACHE_HOME");
  if (folder.empty() && !variable("HOME").empty()) folder = variable("HOME") + "/.cache";
  if (!folder.empty()) return std::make_unique<KernelCache>(folder + "/locus/kernels", limit, 2);
  std::fprintf(stderr,
               "locus: there is no HOME for the kernel cache; kernels are kept in memory. "
               "Set LOCUS_KERNEL_CACHE to a folder\n");
  return std::make_unique<KernelCache>("", limit);
}

KernelCache& kernel_cache() {
  static KernelCache& cache = *cache_of_environment().release();
  return cache;
}

}  // namespace locus
