#include <locus/core/tuning.h>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>
#include <system_error>

#include <nlohmann/json.hpp>

#include <locus/core/base/environment.h>
#include <locus/core/error.h>
#include <locus/core/io/atomic_file.h>
#include <locus/core/replay/replay.h>

namespace locus::tuning {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char *kWho = "LOCUS_TUNE", *kFormat = "locus choices";
constexpr int kVersion = 1, kRuns = 5;

// A lock among processes that write the file. Locks another file, because the file is replaced.
class FileLock : NonCopyable {
 public:
  explicit FileLock(const std::string& file) : path_(file + ".lock") {
    std::error_code why;
    if (const fs::path folder = fs::path(file).parent_path(); !folder.empty())
      fs::create_directories(folder, why);
    fd_ = ::open(path_.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0666);
    if (fd_ < 0) fail();
  }
  ~FileLock() { ::close(fd_); }
  void lock() {
    while (::flock(fd_, LOCK_EX) != 0)
      if (errno != EINTR) fail();
  }

 private:
  [[noreturn]] void fail() const {
    throw Error(kWho, ": cannot remember choices in ", path_, ": ",
                std::generic_category().message(errno),
                "; set LOCUS_TUNE_FILE to a file that can be written");
  }
  const std::string path_;
  int fd_ = -1;
};

Table read(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  std::error_code why;
  if (!in && !fs::exists(file, why) && !why) return {};
  if (!in || !fs::is_regular_file(file, why))
    throw Error(kWho, ": cannot read ", file,
                "; set LOCUS_TUNE_FILE to a file that can be read and written");
  std::ostringstream text;
  text << in.rdbuf();
  return from_json(text.str(), file);
}

std::string default_file() {
  const auto variable = [](const char* name) {
    const char* const value = std::getenv(name);
    return std::string(value ? value : "");
  };
  if (std::string file = variable("LOCUS_TUNE_FILE"); !file.empty()) return file;
  std::string folder = variable("XDG_CACHE_HOME");
  if (folder.empty()) {
    folder = variable("HOME");
    if (folder.empty())
      throw Error(kWho, "=1: there is no HOME for the file of choices; set LOCUS_TUNE_FILE");
    folder += "/.cache";
  }
  return folder + "/locus/choices.json";
}

}  // namespace

std::string to_json(const Table& table) {
  return json{{"format", kFormat}, {"version", kVersion}, {"choices", table}}.dump(1) + "\n";
}

Table from_json(const std::string& text, const std::string& where) {
  try {
    const json all = json::parse(text);
    if (all.at("format") != kFormat || all.at("version") != kVersion)
      throw FormatError(where, " is of format ", all.at("format").dump(), ", version ",
                        all.at("version").dump(), "; expected \"", kFormat, "\", ", kVersion);
    return all.at("choices").get<Table>();
  } catch (const json::exception& e) {
    throw FormatError(where, " is damaged; remove it, and choices are measured again: ", e.what());
  }
}

Choices::Choices(std::string file) : file_(std::move(file)) {
  if (!file_.empty()) set(read(file_));
}

std::optional<std::string> Choices::find(const std::string& key) const {
  const MutexLock lock(mutex_);
  const auto it = table_.find(key);
  return it == table_.end() ? std::nullopt : std::optional(it->second);
}

Table Choices::table() const {
  const MutexLock lock(mutex_);
  return table_;
}

void Choices::set(const Table& table) {
  const MutexLock lock(mutex_);
  for (const auto& [key, way] : table) table_.insert_or_assign(key, way);
  if (!table.empty()) generation_.fetch_add(1, std::memory_order_release);
}

std::string Choices::fastest(const std::string& key, std::span<const std::string> ways,
                             const std::function<double(size_t)>& milliseconds) {
  LOCUS_CHECK(!ways.empty(), "no way to compute ", key);
  const MutexLock measurement(measuring_);  // one measurement at a time
  if (const auto chosen = find(key)) return *chosen;
  std::optional<FileLock> among_processes;
  if (!file_.empty()) among_processes.emplace(file_);

  std::vector<double> least(ways.size(), std::numeric_limits<double>::infinity());
  std::exception_ptr failure;
  // Run 0 warms up. Ways alternate, so that a slow moment does not affect one way alone.
  for (int run = 0; run <= kRuns; ++run)
    for (size_t i = 0; i < ways.size(); ++i) try {
        if (run > 1 && least[i] == std::numeric_limits<double>::infinity()) continue;
        const double ms = milliseconds(i);
        if (run > 0) least[i] = std::min(least[i], ms);
      } catch (const OutOfMemory&) {
        least[i] = std::numeric_limits<double>::infinity();
        failure = std::current_exception();
      }
  const auto best = std::ranges::min_element(least);
  if (*best == std::numeric_limits<double>::infinity() && failure) std::rethrow_exception(failure);
  std::string way = ways[static_cast<size_t>(best - least.begin())];

  if (among_processes) {
    among_processes->lock();
    Table all = read(file_);
    const auto [it, added] = all.emplace(key, way);
    way = it->second;
    if (added) {
      const std::string text = to_json(all);
      AtomicFile file(kWho, file_);
      file.write(text.data(), text.size());
      file.commit();
    }
  }
  const MutexLock lock(mutex_);
  way = table_.emplace(key, way).first->second;  // another thread's, if it was first
  generation_.fetch_add(1, std::memory_order_release);
  return way;
}

bool measures() {
  static const bool on = environment_choice(kWho, {"0", "1"}).value_or(0) == 1;
  return on;
}

Choices& choices() {
  static Choices& all = *new Choices(measures() ? default_file() : "");
  return all;
}

std::shared_ptr<const void>* kept_place() { return Replay::next_choice(); }

Timed::Timed(const Call& call, const std::function<void()>& run) : before_(call.stream) {
  const Replay::Trial trial;
  run();
  after_.emplace(call.stream);
}

double Timed::milliseconds() const {
  after_->where.wait_host(after_->event);
  return after_->where.elapsed_ms(before_.event, after_->event);
}

}  // namespace locus::tuning
