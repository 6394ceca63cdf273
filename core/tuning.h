// Which of several ways to compute the same is taken: by a key that says what is computed and on
// which hardware, and the name of the way.
//
// Ways differ in how they round, so a measurement or a file decides only where the user says so:
// ops have a rule of their own for what to take, and that alone counts by default. With
// LOCUS_TUNE=1 an op that meets a new key times its ways on its device, takes the fastest, and adds
// it to LOCUS_TUNE_FILE, else $XDG_CACHE_HOME/locus/plans.json, else ~/.cache/locus/plans.json,
// which is read then, and only then. Processes may share the file. While work is captured nothing
// can be timed, and a new key there is computed by the rule; what is compiled (compile.h) runs
// first, and is timed then.
//
// A checkpoint (nn/checkpoint.h) holds all choices of its process, so that a resumed run computes
// with the same ones, with LOCUS_TUNE and the file or without. What was captured or compiled before
// it was loaded keeps its ways.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>

#include <locus/core/kernel.h>
#include <locus/core/mutex.h>
#include <locus/core/noncopyable.h>

namespace locus::tuning {

using Table = std::map<std::string, std::string>;  // by key

// As JSON and back. FormatError, naming `where` the text is from, when it is something else.
std::string to_json(const Table& table);
Table from_json(const std::string& text, const std::string& where);

// Threads: any, at once.
class Choices : NonCopyable {
 public:
  // With the choices of the file, if there is one; "": without. FormatError when it is damaged.
  explicit Choices(std::string file = "");

  bool any() const { return any_.load(std::memory_order_relaxed); }
  std::optional<std::string> find(const std::string& key) const;
  Table table() const;
  // These count from now on, here and not in the file.
  void set(const Table& table);

  // What is fastest of `ways`, the first of equals, found by running each several times:
  // milliseconds(i) runs the i-th once. One that throws OutOfMemory is left out, unless all do.
  // What another process has put in the file meanwhile counts instead. Throws Error, before
  // anything runs, when the file cannot be written.
  std::string fastest(const std::string& key, std::span<const std::string> ways,
                      const std::function<double(size_t)>& milliseconds);

 private:
  const std::string file_;
  std::atomic<bool> any_{false};
  mutable Mutex mutex_;
  Table table_ LOCUS_GUARDED_BY(mutex_);
};

bool measures();     // LOCUS_TUNE=1
Choices& choices();  // the process's; with the file where measures()

// For kernel functions: the device's time for what `run` enqueues on the call's stream, whose
// Scratches are not kept for a replay. Waits; so not while the stream is captured. On a host
// context use a clock.
double milliseconds(const Call& call, const std::function<void()>& run);

}  // namespace locus::tuning
