// Chooses between several ways to compute the same result. A choice has a key, which says what is
// computed and on which hardware, and the name of the way.
//
// By default each op chooses by a rule of its own. With LOCUS_TUNE=1 an op that meets a new key
// times its ways on its device, takes the fastest, and adds it to a file: LOCUS_TUNE_FILE, else
// $XDG_CACHE_HOME/locus/choices.json, else ~/.cache/locus/choices.json. The file is read only with
// LOCUS_TUNE=1. Processes may share it. Ways differ in how they round, so nothing is measured
// unless the user asks for it.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include <locus/core/base/lru.h>
#include <locus/core/base/mutex.h>
#include <locus/core/device.h>
#include <locus/core/kernel.h>
#include <locus/core/noncopyable.h>

namespace locus::tuning {

using Table = std::map<std::string, std::string>;  // by key

// As JSON and back. FormatError, naming `where` the text is from, when it is something else.
std::string to_json(const Table& table);
Table from_json(const std::string& text, const std::string& where);

// Threads: any, at once.
class Choices : NonCopyable {
 public:
  // With the choices of the file, if there is one; "": without. FormatError when it is damaged,
  // Error when it is there and cannot be read.
  explicit Choices(std::string file = "");

  bool any() const { return generation() > 0; }
  // Another number after each change.
  uint64_t generation() const { return generation_.load(std::memory_order_acquire); }
  std::optional<std::string> find(const std::string& key) const;
  Table table() const;
  // These count from now on, here and not in the file.
  void set(const Table& table);

  // What is fastest of `ways`, the first of equals, found by running each several times:
  // milliseconds(i) runs the i-th once. One that throws OutOfMemory is left out, unless all do.
  // What another thread, or in the file another process, has chosen meanwhile counts instead; the
  // process's threads measure one after the other. Throws Error, before anything runs, when the
  // file cannot be written.
  std::string fastest(const std::string& key, std::span<const std::string> ways,
                      const std::function<double(size_t)>& milliseconds);

 private:
  const std::string file_;
  std::atomic<uint64_t> generation_{0};
  Mutex measuring_;  // taken before the other
  mutable Mutex mutex_;
  Table table_ LOCUS_GUARDED_BY(mutex_);
};

bool measures();     // LOCUS_TUNE=1
Choices& choices();  // the process's; with the file where measures()

// What choices say of an op's keys, for calls that come again and again: a key's text is made, and
// the way's name is read, once a key, and once more after choices change. Threads: any, at once.
template <class Key, class Way, class Hash>
class Lookup : NonCopyable {
 public:
  explicit Lookup(const Choices& choices) : choices_(choices) {}

  // read(the name of the way under text()), a Way; nullopt: there is no choice.
  std::optional<Way> find(const Key& key, const auto& text, const auto& read) {
    const uint64_t now = choices_.generation();
    {
      const MutexLock lock(mutex_);
      if (generation_ != now) known_.clear();
      generation_ = now;
      if (const auto* const way = known_.find(key)) return *way;
    }
    const std::optional<std::string> name = choices_.find(text());
    const std::optional<Way> way = name ? std::optional<Way>(read(*name)) : std::nullopt;
    const MutexLock lock(mutex_);
    if (generation_ == now) known_.put(key, way);
    return way;
  }

 private:
  static constexpr size_t kMost = 4096;
  const Choices& choices_;
  Mutex mutex_;
  uint64_t generation_ LOCUS_GUARDED_BY(mutex_) = 0;
  Lru<Key, std::optional<Way>, Hash> known_ LOCUS_GUARDED_BY(mutex_){kMost};
};

// The place where the recorded call whose kernel function runs keeps its next choice; null: it is
// not recorded, or is only timed.
std::shared_ptr<const void>* kept_place();
// For kernel functions: choose(), but in a recorded call what that gave when it first ran. Several
// in one function: in the same order each time, and not one inside another.
template <class T>
T kept(const auto& choose) {
  std::shared_ptr<const void>* const place = kept_place();
  if (place && *place) return *static_cast<const T*>(place->get());
  T chosen = choose();
  if (place) *place = std::make_shared<const T>(chosen);
  return chosen;
}

// For kernel functions: the device's time for what `run` enqueues on the call's stream, whose
// Scratches are not kept for a replay. Not while the stream is captured. On a host context use a
// clock.
class Timed : NonCopyable {
 public:
  Timed(const Call& call, const std::function<void()>& run);
  double milliseconds() const;  // waits

 private:
  struct Point : NonCopyable {
    explicit Point(StreamView s) : where(device(s.context)), event(where.record_time(s)) {}
    ~Point() { where.release(event); }
    Device& where;
    const EventView event;
  };
  const Point before_;
  std::optional<Point> after_;
};

// --- Details ---

// Captured work cannot be timed: a new key is computed by the op's rule there. A compiled function
// (compile.h) runs before it is recorded, and is timed then. A recorded call keeps the way that it
// ran in first: later choices, and files loaded later, change neither its numbers nor its memory.

// A checkpoint (nn/checkpoint.h) holds all choices of its process. A resumed run computes with the
// same choices, with LOCUS_TUNE and the file or without.

// An op throws FormatError, naming the key and the way, for a way that it does not have, such as
// one from an edited file. No other way is taken instead.

}  // namespace locus::tuning
