#include <locus/nn/checkpoint.h>

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <climits>
#include <filesystem>
#include <fstream>
#include <set>

#include <nlohmann/json.hpp>

#include <locus/core/base/at_line.h>
#include <locus/core/cluster.h>
#include <locus/core/error.h>
#include <locus/core/io/atomic_file.h>
#include <locus/core/observe/memory_events.h>
#include <locus/core/tuning.h>
#include <locus/ops/create.h>

namespace locus::checkpoint {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::string_view kPrefix = "checkpoint-";
constexpr uint64_t kLast = uint64_t{1} << 62;  // folders' numbers are smaller
constexpr const char *kManifest = "manifest.json", *kFormat = "locus checkpoint",
                     *kSuffix = ".params";
constexpr int kVersion = 1;

struct Found {
  uint64_t number;
  fs::path path;
};

// The checkpoints of a directory, newest first.
std::vector<Found> checkpoints(const std::string& directory) {
  std::vector<Found> all;
  std::error_code why;
  for (const auto& entry : fs::directory_iterator(directory, why)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with(kPrefix)) continue;
    uint64_t n = 0;
    const char* const end = name.data() + name.size();
    const auto [stop, error] = std::from_chars(name.data() + kPrefix.size(), end, n);
    if (error == std::errc() && stop == end && n < kLast) all.push_back({n, entry.path()});
  }
  if (why && why != std::errc::no_such_file_or_directory)
    throw Error("checkpoint: cannot read ", directory, ": ", why.message());
  std::ranges::sort(all, std::greater(), &Found::number);
  return all;
}

struct Sum {
  uint64_t bytes = 0;
  uint32_t crc = 0;
};

Sum sum_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw FormatError(path.string(), " cannot be opened");
  Sum sum;
  std::vector<char> piece(size_t{1} << 20);
  while (file) {
    file.read(piece.data(), static_cast<std::streamsize>(piece.size()));
    const auto n = static_cast<size_t>(file.gcount());
    sum.crc = static_cast<uint32_t>(
        crc32_z(sum.crc, reinterpret_cast<const unsigned char*>(piece.data()), n));
    sum.bytes += n;
  }
  if (file.bad()) throw FormatError(path.string(), " cannot be read");
  return sum;
}

json entry_of(const std::string& name, const Sum& sum) {
  return {{"name", name}, {"bytes", sum.bytes}, {"crc32", sum.crc}};
}

// The part names of a complete checkpoint, else FormatError.
std::set<std::string> check(const fs::path& path) {
  const fs::path file = path / kManifest;
  std::set<std::string> names;
  try {
    std::ifstream in(file);
    if (!in) throw FormatError("it has no ", kManifest);
    const json manifest = json::parse(in);
    if (manifest.at("format") != kFormat)
      throw FormatError(kManifest, " is of the format ", manifest.at("format").dump());
    if (manifest.at("version") != kVersion)
      throw FormatError("it is of version ", manifest.at("version").dump(), "; expected ",
                        kVersion);
    for (const json& part : manifest.at("parts")) {
      const std::string name = part.at("name");
      const Sum sum = sum_of(path / (name + kSuffix));
      if (entry_of(name, sum) != part)
        throw FormatError(name, kSuffix, " has ", sum.bytes, " bytes with CRC-32 ", sum.crc,
                          "; expected ", part.at("bytes").dump(), " with ",
                          part.at("crc32").dump());
      names.insert(name);
    }
  } catch (const json::exception& e) {
    throw FormatError(kManifest, " is damaged: ", e.what());
  } catch (const std::ios_base::failure& e) {
    throw FormatError(kManifest, " cannot be read: ", e.what());
  }
  return names;
}

// "-HOST-": process numbers are local to a host.
std::string host_part() {
  char host[HOST_NAME_MAX + 1] = "";
  ::gethostname(host, sizeof host - 1);
  return "-" + std::string(host) + "-";
}

std::string hidden_name(const std::string& name) {
  return "." + name + host_part() + std::to_string(getpid());
}

// Serializes saves into one folder, also across processes. Without effect if the folder cannot be
// locked, as on some network file systems.
class FolderLock : NonCopyable {
 public:
  explicit FolderLock(const std::string& directory)
      : folder_(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    while (folder_ >= 0 && ::flock(folder_, LOCK_EX) != 0 && errno == EINTR) {
    }
  }
  ~FolderLock() {
    if (folder_ >= 0) ::close(folder_);
  }

 private:
  const int folder_;
};

// A folder that is removed unless publish_as() is called.
class Draft : NonCopyable {
 public:
  explicit Draft(fs::path path) : path_(std::move(path)) {
    std::error_code why;
    fs::create_directories(path_, why);
    if (why) throw Error("checkpoint: cannot create ", path_.string(), ": ", why.message());
  }
  ~Draft() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  void publish_as(const fs::path& path) {
    flush_folder(path_.string());
    std::error_code why;
    fs::rename(path_, path, why);
    if (why)
      throw Error("checkpoint: cannot rename ", path_.string(), " to ", path.string(), ": ",
                  why.message());
    flush_folder(path.parent_path().string());
  }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

// Removes drafts and discarded checkpoints that killed processes of this host left. Names end with
// host and process. Other hosts' folders stay: their processes may be alive.
void sweep(const fs::path& directory) {
  const std::string host = host_part();
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(directory, ignored)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(".checkpoint-")) continue;
    const size_t at = name.rfind(host);
    const auto process =
        at == name.npos ? std::nullopt : number_in<pid_t>(name.substr(at + host.size()));
    if (!process) continue;
    if (*process == getpid() || (::kill(*process, 0) != 0 && errno == ESRCH))
      fs::remove_all(entry.path(), ignored);
  }
}

// Hides a checkpoint before removing it, so no half is taken for one.
void discard(const fs::path& path) {
  const fs::path hidden = path.parent_path() / hidden_name(path.filename().string());
  std::error_code ignored;
  fs::rename(path, hidden, ignored);
  if (!ignored) fs::remove_all(hidden, ignored);
}

std::string write(const std::string& directory, const Parts& parts, const SaveOptions& options,
                  Caller from) {
  if (options.keep < 1) throw ValueError("checkpoint: keep ", options.keep, "; expected >= 1");
  const Parts all = with_own(parts);
  std::error_code why;
  fs::create_directories(directory, why);
  if (why) throw Error("checkpoint: cannot create ", directory, ": ", why.message());
  const FolderLock lock(directory);
  const std::vector<Found> before = checkpoints(directory);
  const uint64_t number = before.empty() ? 1 : before[0].number + 1;
  std::string digits = std::to_string(number);
  digits.insert(0, digits.size() < 6 ? 6 - digits.size() : 0, '0');
  const std::string name = std::string(kPrefix) + digits;
  const fs::path path = fs::path(directory) / name;

  sweep(directory);
  Draft draft(fs::path(directory) / hidden_name(name));
  json manifest{{"format", kFormat}, {"version", kVersion}, {"parts", json::array()}};
  for (const Part& p : all) {
    if (p.name() == kTuning && !tuning::choices().any()) continue;
    const fs::path file = draft.path() / (p.name() + kSuffix);
    locus::save(file.string(), p.state(), from);
    manifest["parts"].push_back(entry_of(p.name(), sum_of(file)));
  }
  const std::string text = manifest.dump(2) + "\n";
  AtomicFile file("checkpoint", (draft.path() / kManifest).string());
  file.write(text.data(), text.size());
  file.commit();
  draft.publish_as(path);
  for (size_t i = static_cast<size_t>(options.keep) - 1; i < before.size(); ++i)
    if (fs::exists(before[i].path / kManifest))
      discard(before[i].path);  // without a manifest: not
                                // ours
  return path.string();
}

// Rank 0's path, on every rank.
std::string of_root(const std::string& path, Caller from) {
  if (cluster::size() == 1) return path;
  const Tensor length = array(std::vector<int64_t>{std::ssize(path)}, {cpu(), i64});
  cluster::broadcast({length}, 0, from);
  std::vector<uint8_t> bytes(path.begin(), path.end());
  bytes.resize(static_cast<size_t>(length.item<int64_t>()));
  const Tensor text = array(bytes, {cpu(), u8});
  cluster::broadcast({text}, 0, from);
  bytes = text.to_vector<uint8_t>();
  return {bytes.begin(), bytes.end()};
}

// The newest complete checkpoint, and functions that restore its parts.
struct Read {
  std::optional<Loaded> loaded;
  std::vector<std::function<void()>> apply;
};

Read read(const std::string& directory, const Parts& parts, Caller from) {
  Parts all = with_own(parts);
  std::stable_partition(all.begin(), all.end(), [](const Part& p) { return p.is_network(); });
  Loaded loaded;
  for (const Found& found : checkpoints(directory)) {
    loaded.path = found.path.string();
    std::set<std::string> names;
    try {
      names = check(found.path);
    } catch (const FormatError& e) {
      loaded.skipped.push_back(loaded.path + ": " + e.what());
      continue;
    }
    std::vector<std::function<void()>> apply;
    nn::ShapesToCome to_come;
    for (const Part& p : all) {
      if (p.name() == kTuning && !names.contains(kTuning)) continue;
      if (!names.contains(p.name()))
        throw FormatError("checkpoint: ", loaded.path, " has no part '", p.name(),
                          "'; it has: ", listed(names, [](const std::string& n) { return n; }));
      const std::string file = (found.path / (p.name() + kSuffix)).string();
      apply.push_back(p.restore(locus::load(file, cpu(), from), file, to_come));
    }
    return {std::move(loaded), std::move(apply)};
  }
  if (loaded.skipped.empty()) return {};
  throw FormatError("checkpoint: no checkpoint in ", directory, " is whole: ",
                    listed(
                        loaded.skipped, [](const std::string& s) { return s; }, "; "));
}

}  // namespace

std::string save(const std::string& directory, const Parts& parts, const SaveOptions& options,
                 Caller from) try {
  const UserLine user_line(from);
  std::string path;
  cluster::on_root([&] { path = write(directory, parts, options, from); }, from);
  return of_root(path, from);
} catch (const Error&) {
  rethrow_at(from);
}

std::optional<Loaded> load(const std::string& directory, const Parts& parts, Caller from) try {
  const UserLine user_line(from);
  Read mine;
  cluster::together([&] { mine = read(directory, parts, from); }, from);
  const std::string path = mine.loaded ? mine.loaded->path : "";
  const std::string expected = of_root(path, from);
  cluster::together(
      [&] {
        if (path != expected)
          throw FormatError("checkpoint: the newest of ", directory, " is '", path, "' here and '",
                            expected, "' for rank 0; expected a folder that all ranks see");
      },
      from);
  cluster::together(
      [&] {
        for (const auto& put : mine.apply) put();
      },
      from);
  return mine.loaded;
} catch (const Error&) {
  rethrow_at(from);
}

}  // namespace locus::checkpoint
