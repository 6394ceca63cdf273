// The kernel cache: code compiled at run time, kept on disk and shared by processes. Internal.
//
// A file is named after the SHA-256 of its key, and the key has everything that decides the code.
// Content is verified when it is read. A file that cannot be used is compiled again and replaced. A
// folder that other users could change is not used: code then stays in memory, for this process.
// stderr gives each reason once. Threads: any.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include <locus/core/noncopyable.h>
#include <locus/core/program/once.h>

namespace locus {

class KernelCache : NonCopyable {
 public:
  using Code = std::shared_ptr<const std::string>;

  // The last `own` names of the path are made with mode 0700 if they are missing. They must be
  // folders, not links, that belong to this user and that nobody else can write. "": memory only.
  // Files beyond about `limit` bytes are removed, the oldest first.
  KernelCache(std::string folder, size_t limit, int own = 1);
  ~KernelCache();

  // The code of the key: from disk, from memory, or from compile(). If several threads ask for a
  // key, one of them compiles. With the key "" nothing is kept.
  Code get(const std::string& key, const std::function<std::string()>& compile);

 private:
  enum Trouble { kFolder, kFile, kWrite, kNumTroubles };
  void open(int own);
  Code read(const std::string& name);
  bool write(const std::string& name, const std::string& code);
  void evict();
  void say(Trouble trouble, const std::string& text);  // on stderr, once for each trouble

  const std::string path_;
  const size_t limit_;
  int folder_ = -1;  // descriptor; -1: memory only
  std::atomic<size_t> written_{0};
  std::atomic<bool> said_[kNumTroubles] = {};
  Once<std::string, Code> codes_;  // in work, and those that are not on disk
};

// A cache of LOCUS_KERNEL_CACHE (a folder, or "off") and LOCUS_KERNEL_CACHE_SIZE. Without them
// $XDG_CACHE_HOME/locus/kernels, else ~/.cache/locus/kernels, of 256 MiB. Throws Error for a size
// that makes no sense.
std::unique_ptr<KernelCache> cache_of_environment();
KernelCache& kernel_cache();  // of the process; never destroyed

}  // namespace locus
