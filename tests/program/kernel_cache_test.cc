// The kernel cache: what it keeps, for several threads and processes, and its bound.
#include "tests/program/kernel_cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <thread>

#include <locus/core/error.h>
#include "tests/support/variable.h"

namespace locus::test {
namespace {

TEST_F(KernelCacheTest, KeepsCodeForOtherProcesses) {
  const std::string code("a\0b\n", 4);
  EXPECT_EQ(get("k", code), code);
  EXPECT_EQ(get("k"), code);
  EXPECT_EQ(get("l", "other"), "other");
  EXPECT_EQ(compiles_, 2);
  EXPECT_EQ(code_files(path_).size(), 2u);
}

TEST_F(KernelCacheTest, MakesItsFolderForThisUserAlone) {
  const std::string path = folder_ / "a/b/locus/kernels";
  KernelCache cache(path, kLarge, 2);
  get(cache, "k");
  for (const fs::path& own : {fs::path(path), fs::path(path).parent_path()})
    EXPECT_EQ(fs::status(own).permissions(), fs::perms::owner_all) << own;
  EXPECT_EQ(fs::status(fs::path(path) / sha256("k")).permissions(),
            fs::perms::owner_read | fs::perms::owner_write);
}

TEST_F(KernelCacheTest, TakesARelativeFolder) {
  const fs::path before = fs::current_path();
  fs::current_path(folder_.path);
  {
    KernelCache cache("kernels", kLarge);
    get(cache, "k");
  }
  fs::current_path(before);
  get("k");
  EXPECT_EQ(compiles_, 1);
}

TEST_F(KernelCacheTest, InMemoryNeedsNoFolder) {
  KernelCache cache("", kLarge);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(get(cache, "k"), "code");
  EXPECT_EQ(compiles_, 1);
}

TEST_F(KernelCacheTest, KeepsNothingWithoutAKey) {
  KernelCache cache(path_, kLarge);
  EXPECT_EQ(get(cache, "", "a"), "a");
  EXPECT_EQ(get(cache, "", "b"), "b");
  EXPECT_TRUE(code_files(path_).empty());
}

TEST_F(KernelCacheTest, CompilesAgainAfterAnError) {
  KernelCache cache(path_, kLarge);
  EXPECT_THROW(cache.get("k", []() -> std::string { throw SourceError("no"); }), SourceError);
  EXPECT_EQ(get(cache, "k"), "code");
  EXPECT_EQ(get("k"), "code");
  EXPECT_EQ(compiles_, 1);
}

// The limit of a file's size stands for a full disk.
TEST_F(KernelCacheTest, KeepsCodeInMemoryIfTheDiskIsFull) {
  const auto full = [&] {
    KernelCache cache(path_, kLarge);
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{4096, 4096};
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) std::_Exit(2);
    const std::string code(10000, 'x');
    for (int i = 0; i < 2; ++i)
      if (get(cache, "k", code) != code || get(cache, "l", code) != code) std::_Exit(3);
    const bool no_file = std::distance(fs::directory_iterator(path_), {}) == 0;
    std::_Exit(compiles_ == 2 && no_file ? 0 : 4);
  };
  EXPECT_EXIT(full(), testing::ExitedWithCode(0),
              "^locus: the kernel cache .* cannot be written: .*; kernels are kept in memory\n");
}

// --- Environment variables.

TEST_F(KernelCacheTest, ReadsItsFolderAndSizeFromTheEnvironment) {
  const Variable folder("LOCUS_KERNEL_CACHE", path_), size("LOCUS_KERNEL_CACHE_SIZE", "1K");
  get(*cache_of_environment(), "k");
  EXPECT_EQ(code_files(path_).size(), 1u);
  get(*cache_of_environment(), "l", std::string(2000, 'x'));
  EXPECT_TRUE(code_files(path_).empty());
}

TEST_F(KernelCacheTest, LiesInTheUsersCacheByDefault) {
  const Variable folder("LOCUS_KERNEL_CACHE", ""), home("HOME", folder_ / "home");
  const Variable none("XDG_CACHE_HOME", "");
  get(*cache_of_environment(), "k");
  EXPECT_EQ(code_files(folder_ / "home/.cache/locus/kernels").size(), 1u);
  const Variable xdg("XDG_CACHE_HOME", folder_ / "xdg");
  get(*cache_of_environment(), "k");
  EXPECT_EQ(code_files(folder_ / "xdg/locus/kernels").size(), 1u);
}

TEST_F(KernelCacheTest, MayBeOff) {
  const fs::path before = fs::current_path();
  fs::current_path(folder_.path);
  const Variable off("LOCUS_KERNEL_CACHE", "off");
  for (int i = 0; i < 2; ++i) get(*cache_of_environment(), "k");
  fs::current_path(before);
  EXPECT_EQ(compiles_, 2);
  EXPECT_TRUE(fs::is_empty(folder_.path));
}

TEST_F(KernelCacheTest, SaysThatThereIsNoHome) {
  const Variable folder("LOCUS_KERNEL_CACHE", ""), home("HOME", ""), xdg("XDG_CACHE_HOME", "");
  testing::internal::CaptureStderr();
  get(*cache_of_environment(), "k");
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              testing::HasSubstr("locus: there is no HOME for the kernel cache"));
}

TEST_F(KernelCacheTest, RefusesASizeThatMakesNoSense) {
  const Variable size("LOCUS_KERNEL_CACHE_SIZE", "many");
  EXPECT_THAT(message_of<Error>([] { cache_of_environment(); }),
              testing::HasSubstr("LOCUS_KERNEL_CACHE_SIZE=many: expected a number of bytes"));
}

// --- Several at once.

TEST_F(KernelCacheTest, ThreadsCompileAKeyOnce) {
  KernelCache cache(path_, kLarge);
  std::atomic<int> compiles{0};
  const auto compile = [&] {
    ++compiles;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    return std::string("code");
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&] { EXPECT_EQ(*cache.get("k", compile), "code"); });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(compiles, 1);
}

TEST_F(KernelCacheTest, ThreadsThatWaitGetTheError) {
  KernelCache cache(path_, kLarge);
  std::atomic<int> errors{0};
  const auto compile = []() -> std::string {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    throw SourceError("does not compile");
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      try {
        cache.get("k", compile);
      } catch (const SourceError&) {
        ++errors;
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(errors, 4);
}

TEST_F(KernelCacheTest, ProcessesMayWriteAKeyAtOnce) {
  std::vector<pid_t> children;
  for (int i = 0; i < 4; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      bool good = true;
      for (int key = 0; key < 50; ++key) {
        const std::string k = std::to_string(key), code(5000, static_cast<char>('a' + key % 26));
        good = good && get(k, code) == code;
      }
      _exit(good ? 0 : 1);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(code_files(path_).size(), 50u);
  for (int key = 0; key < 50; ++key) get(std::to_string(key));
  EXPECT_EQ(compiles_, 0);
}

// --- The bound.

TEST_F(KernelCacheTest, RemovesTheOldestFilesBeyondItsLimit) {
  constexpr size_t kLimit = 100000;
  const std::string code(8900, 'x');
  using Clock = fs::file_time_type::clock;
  for (int i = 0; i < 10; ++i) {
    get(std::to_string(i), code);
    fs::last_write_time(file_of(std::to_string(i)), Clock::now() - std::chrono::hours(20 - i));
  }
  KernelCache cache(path_, kLimit);
  get(cache, "new", code);  // the folder is listed at the first file
  EXPECT_EQ(code_files(path_).size(), 11u);
  get(cache, "newer", code);
  size_t total = 0;
  for (const fs::path& file : code_files(path_)) total += fs::file_size(file);
  EXPECT_LE(total, kLimit / 5 * 4);
  EXPECT_EQ(code_files(path_).size(), 8u);
  for (const char* old : {"0", "1", "2", "3"}) EXPECT_FALSE(fs::exists(file_of(old))) << old;
  for (const char* kept : {"4", "9", "new", "newer"})
    EXPECT_TRUE(fs::exists(file_of(kept))) << kept;
}

TEST_F(KernelCacheTest, RemembersThatAnOldFileWasUsed) {
  using Clock = fs::file_time_type::clock;
  for (const char* key : {"k", "l"}) {
    get(key);
    fs::last_write_time(file_of(key), Clock::now() - std::chrono::hours(48));
  }
  get("k");
  EXPECT_GT(fs::last_write_time(file_of("k")), Clock::now() - std::chrono::hours(1));
  EXPECT_LT(fs::last_write_time(file_of("l")), Clock::now() - std::chrono::hours(47));
}

TEST_F(KernelCacheTest, RemovesTemporaryFilesOfKilledProcesses) {
  get("k");
  for (const char* name : {"tmp-1-0", "tmp-1-1", "notes"})
    std::ofstream(fs::path(path_) / name) << "half";
  using Clock = fs::file_time_type::clock;
  for (const char* name : {"tmp-1-0", "notes"})
    fs::last_write_time(fs::path(path_) / name, Clock::now() - std::chrono::hours(2));
  get("l");
  EXPECT_FALSE(fs::exists(fs::path(path_) / "tmp-1-0"));
  EXPECT_TRUE(fs::exists(fs::path(path_) / "tmp-1-1"));  // may be in work
  EXPECT_TRUE(fs::exists(fs::path(path_) / "notes"));    // not the cache's
}

TEST_F(KernelCacheTest, DoesNotWaitForAProcessThatRemovesFiles) {
  get("k");
  const int lock = open((path_ + "/lock").c_str(), O_RDWR);
  ASSERT_GE(lock, 0);
  ASSERT_EQ(flock(lock, LOCK_EX), 0);
  KernelCache cache(path_, 1);
  get(cache, "l");
  EXPECT_EQ(code_files(path_).size(), 2u);
  close(lock);
  get(cache, "m");
  EXPECT_TRUE(code_files(path_).empty());
}

}  // namespace
}  // namespace locus::test
