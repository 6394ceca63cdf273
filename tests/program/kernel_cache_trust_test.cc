// Files and folders that the kernel cache refuses.
#include "tests/program/kernel_cache.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

namespace locus::test {
namespace {

using testing::HasSubstr;
using testing::internal::CaptureStderr;
using testing::internal::GetCapturedStderr;

class KernelCacheTrust : public KernelCacheTest {
 protected:
  // The file of "k" is refused with these words, compiled again and replaced.
  void expect_replaced(const std::string& words) {
    CaptureStderr();
    EXPECT_EQ(get("k", "new"), "new");
    const std::string said = GetCapturedStderr();
    EXPECT_THAT(said, HasSubstr("locus: the kernel cache's file " + file_of("k").string() + " " +
                                words + "; the kernel is compiled again\n"));
    const int before = compiles_;
    CaptureStderr();
    EXPECT_EQ(get("k", "newer"), "new");
    EXPECT_EQ(GetCapturedStderr(), "");
    EXPECT_EQ(compiles_, before);
  }
  // The folder is refused with these words, and two kernels are kept in memory.
  void expect_refused(const std::string& path, const std::string& words, int own = 1) {
    CaptureStderr();
    KernelCache cache(path, kLarge, own);
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(get(cache, "k"), "code");
      EXPECT_EQ(get(cache, "l"), "code");
    }
    EXPECT_EQ(compiles_, 2);
    EXPECT_EQ(GetCapturedStderr(),
              "locus: the kernel cache " + path + words + "; kernels are kept in memory\n");
  }
};

// --- Files that are not used.

TEST_F(KernelCacheTrust, ReplacesAFileWithAnyChangedByte) {
  get("k");
  const std::string good = content(file_of("k"));
  for (size_t at = 0; at < good.size(); ++at) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 1);
    std::ofstream(file_of("k"), std::ios::binary) << bad;
    const int before = compiles_;
    CaptureStderr();
    EXPECT_EQ(get("k"), "code");
    EXPECT_THAT(GetCapturedStderr(), HasSubstr("is damaged")) << at;
    EXPECT_EQ(compiles_, before + 1) << at;
    EXPECT_EQ(content(file_of("k")), good);
  }
}

TEST_F(KernelCacheTrust, ReplacesATruncatedFile) {
  get("k");
  const size_t size = fs::file_size(file_of("k"));
  for (const size_t left : {size - 1, size / 2, size_t{10}, size_t{0}}) {
    get("k");
    fs::resize_file(file_of("k"), left);
    expect_replaced("is damaged");
    fs::remove(file_of("k"));
  }
}

TEST_F(KernelCacheTrust, ReplacesALongerFile) {
  get("k");
  std::ofstream(file_of("k"), std::ios::app) << "more";
  expect_replaced("is damaged");
}

TEST_F(KernelCacheTrust, ReplacesAnotherKeysFile) {
  get("k");
  get("l", "other");
  fs::remove(file_of("k"));
  fs::rename(file_of("l"), file_of("k"));
  expect_replaced("is damaged");
}

TEST_F(KernelCacheTrust, DoesNotFollowASymbolicLink) {
  get("k");
  fs::rename(file_of("k"), folder_ / "elsewhere");
  fs::create_symlink(folder_ / "elsewhere", file_of("k"));
  expect_replaced("is a symbolic link");
  EXPECT_THAT(content(folder_ / "elsewhere"), HasSubstr("code"));  // not written through the link
}

TEST_F(KernelCacheTrust, DoesNotReadAFileWithHardLinks) {
  get("k");
  fs::create_hard_link(file_of("k"), folder_ / "other_name");
  expect_replaced("has hard links");
}

TEST_F(KernelCacheTrust, DoesNotReadAFileThatOthersCanWrite) {
  get("k");
  fs::permissions(file_of("k"), fs::perms::group_write, fs::perm_options::add);
  expect_replaced("can be written by other users");
}

TEST_F(KernelCacheTrust, DoesNotWaitForAPipe) {
  get("k");
  fs::remove(file_of("k"));
  ASSERT_EQ(mkfifo(file_of("k").c_str(), 0600), 0);
  expect_replaced("is not a file");
}

TEST_F(KernelCacheTrust, KeepsCodeInMemoryIfItsNameIsAFolder) {
  get("k");
  fs::remove(file_of("k"));
  fs::create_directory(file_of("k"));
  CaptureStderr();
  KernelCache cache(path_, kLarge);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(get(cache, "k"), "code");
  EXPECT_EQ(compiles_, 2);
  const std::string said = GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr("is not a file"));
  EXPECT_THAT(said, HasSubstr("cannot be written"));
}

TEST_F(KernelCacheTrust, DoesNotReadAnotherUsersFile) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to give a file away";
  get("k");
  ASSERT_EQ(chown(file_of("k").c_str(), 65534, 65534), 0);
  expect_replaced("belongs to another user");
}

TEST_F(KernelCacheTrust, SaysOnceThatFilesAreNotUsed) {
  for (const char* key : {"k", "l"}) {
    get(key);
    fs::resize_file(file_of(key), 3);
  }
  CaptureStderr();
  KernelCache cache(path_, kLarge);
  get(cache, "k");
  get(cache, "l");
  const std::string said = GetCapturedStderr();
  EXPECT_EQ(std::ranges::count(said, '\n'), 1) << said;
}

// --- Folders that are not used.

// As a user without rights, because root may write everywhere.
class Unprivileged : NonCopyable {
 public:
  Unprivileged() { EXPECT_EQ(root_ ? seteuid(65534) : 0, 0); }
  ~Unprivileged() { EXPECT_EQ(root_ ? seteuid(0) : 0, 0); }

 private:
  const bool root_ = geteuid() == 0;
};

TEST_F(KernelCacheTrust, DoesNotUseASymbolicLink) {
  fs::create_directory(folder_ / "real");
  fs::permissions(folder_ / "real", fs::perms::owner_all);
  fs::create_directory_symlink(folder_ / "real", path_);
  expect_refused(path_, " is a symbolic link and is not used");
  EXPECT_TRUE(fs::is_empty(folder_ / "real"));
}

TEST_F(KernelCacheTrust, DoesNotUseAFolderBelowASymbolicLink) {
  fs::create_directories(folder_ / "real/kernels");
  fs::create_directory_symlink(folder_ / "real", folder_ / "locus");
  expect_refused(folder_ / "locus/kernels", " (locus) is a symbolic link and is not used", 2);
}

TEST_F(KernelCacheTrust, MayLieBelowALinkThatIsNotItsOwn) {
  fs::create_directory(folder_ / "disk");
  fs::create_directory_symlink(folder_ / "disk", folder_ / "cache");
  KernelCache cache(folder_ / "cache/locus/kernels", kLarge, 2);
  get(cache, "k");
  EXPECT_EQ(code_files(folder_ / "disk/locus/kernels").size(), 1u);
}

TEST_F(KernelCacheTrust, DoesNotUseAFolderThatOthersCanWrite) {
  for (const fs::perms writable : {fs::perms::group_write, fs::perms::others_write}) {
    compiles_ = 0;
    fs::remove_all(path_);
    fs::create_directory(path_);
    fs::permissions(path_, fs::perms::owner_all | writable);
    expect_refused(path_, " can be written by other users and is not used");
    EXPECT_TRUE(fs::is_empty(path_));
  }
}

TEST_F(KernelCacheTrust, DoesNotUseAnotherUsersFolder) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to give a folder away";
  fs::create_directory(path_);
  fs::permissions(path_, fs::perms::owner_all);
  ASSERT_EQ(chown(path_.c_str(), 65534, 65534), 0);
  expect_refused(path_, " belongs to another user and is not used");
  EXPECT_TRUE(fs::is_empty(path_));
}

TEST_F(KernelCacheTrust, MayLieInAFolderThatCannotBeListed) {
  fs::permissions(folder_.path, fs::perms::all);
  const Unprivileged user;
  fs::create_directories(folder_ / "home/cache");
  fs::permissions(folder_ / "home/cache", fs::perms::owner_write | fs::perms::owner_exec);
  KernelCache cache(folder_ / "home/cache/kernels", kLarge);
  get(cache, "l");
  fs::permissions(folder_ / "home/cache", fs::perms::owner_all);
  EXPECT_EQ(code_files(folder_ / "home/cache/kernels").size(), 1u);
}

TEST_F(KernelCacheTrust, DoesNotUseAFile) {
  std::ofstream(path_) << "text";
  expect_refused(path_, " is not a folder and is not used");
}

TEST_F(KernelCacheTrust, NamesAFolderThatCannotBeMade) {
  std::ofstream(folder_ / "file") << "text";
  const std::string path = folder_ / "file/kernels";
  expect_refused(path, " cannot be used: " + folder_.path.string() + "/file: Not a directory");
}

TEST_F(KernelCacheTrust, ReadsAReadOnlyFolderAndKeepsNewCodeInMemory) {
  fs::permissions(folder_.path, fs::perms::all);
  const Unprivileged user;
  get("k");
  fs::permissions(path_, fs::perms::owner_read | fs::perms::owner_exec);
  CaptureStderr();
  {
    KernelCache cache(path_, kLarge);
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(get(cache, "k", "new"), "code");
      EXPECT_EQ(get(cache, "l", "new"), "new");
      EXPECT_EQ(get(cache, "m", "new"), "new");
    }
  }
  EXPECT_EQ(GetCapturedStderr(), "locus: the kernel cache " + path_ +
                                     " cannot be written: Permission denied; kernels are kept in "
                                     "memory\n");
  EXPECT_EQ(compiles_, 3);
  fs::permissions(path_, fs::perms::owner_all);
}

TEST_F(KernelCacheTrust, NamesAFolderThatMayNotBeMade) {
  constexpr fs::perms kWrite =
      fs::perms::owner_write | fs::perms::group_write | fs::perms::others_write;
  fs::permissions(folder_.path, fs::perms::all & ~kWrite);
  {
    const Unprivileged user;
    expect_refused(path_, " cannot be used: Permission denied");
  }
  fs::permissions(folder_.path, fs::perms::owner_all);
}

}  // namespace
}  // namespace locus::test
