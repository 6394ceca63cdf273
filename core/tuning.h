// Chooses between several algorithms ("ways") for the same result. A choice maps a key to the name
// of a way. The key describes the computation and the hardware.
//
// By default each op chooses by its own rule. With LOCUS_TUNE=1, an op times its ways on its device
// for each new key, takes the fastest, and adds the choice to a file: LOCUS_TUNE_FILE, else
// $XDG_CACHE_HOME/locus/choices.json, else ~/.cache/locus/choices.json. The file is read only with
// LOCUS_TUNE=1. Processes may share the file. Ways round differently, so nothing is measured unless
// the user asks.
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

// To JSON and back. Invalid text throws FormatError, which names `where` the text is from.
std::string to_json(const Table& table);
Table from_json(const std::string& text, const std::string& where);

// Threads may use one Choices at the same time.
class Choices : NonCopyable {
 public:
  // Reads the choices of the file, if the file exists; "": no file. FormatError if the file is
  // damaged, Error if the file exists but cannot be read.
  explicit Choices(std::string file = "");

  bool any() const { return generation() > 0; }
  // A number that differs after each change.
  uint64_t generation() const { return generation_.load(std::memory_order_acquire); }
  std::optional<std::string> find(const std::string& key) const;
  Table table() const;
  // Sets these choices in memory, not in the file.
  void set(const Table& table);

  // Runs each of `ways` several times and returns the fastest; the first one, if equal.
  // milliseconds(i) runs way i once. Ways that throw OutOfMemory are skipped, unless all throw. If
  // another thread, or another process through the file, has chosen meanwhile, that choice is
  // returned. Threads of a process measure one at a time. If the file cannot be written, throws
  // Error before anything runs.
  std::string fastest(const std::string& key, std::span<const std::string> ways,
                      const std::function<double(size_t)>& milliseconds);

 private:
  const std::string file_;
  std::atomic<uint64_t> generation_{0};
  Mutex measuring_;  // locked before mutex_
  mutable Mutex mutex_;
  Table table_ LOCUS_GUARDED_BY(mutex_);
};

bool measures();     // LOCUS_TUNE=1
Choices& choices();  // of the process; uses the file if measures()

// A cache of choices for repeated calls. Makes a key's text and reads the way's name once per key,
// and again after choices change. Threads may use one Lookup at the same time.
template <class Key, class Way, class Hash>
class Lookup : NonCopyable {
 public:
  explicit Lookup(const Choices& choices) : choices_(choices) {}

  // Returns read(name) for the way chosen under text(); nullopt: no choice.
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

// The slot for the next choice of the recorded call whose kernel function runs. Null: the call is
// not recorded, or is only timed.
std::shared_ptr<const void>* kept_place();
// For kernel functions: returns choose(). A recorded call returns the value of its first run. Call
// kept() in the same order each time, and not inside another kept().
template <class T>
T kept(const auto& choose) {
  std::shared_ptr<const void>* const place = kept_place();
  if (place && *place) return *static_cast<const T*>(place->get());
  T chosen = choose();
  if (place) *place = std::make_shared<const T>(chosen);
  return chosen;
}

// For kernel functions: measures the device time of the work that `run` enqueues on the call's
// stream. Scratches of `run` are not kept for replays. Not allowed while the stream is captured. On
// a host context use a clock.
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

// Captured work cannot be timed, so a new key uses the op's rule there. A compiled function
// (compile.h) is timed when it runs for recording. A recorded call keeps the way of its first run:
// later choices or files change neither its numbers nor its memory.

// A checkpoint (nn/checkpoint.h) stores all choices of its process. A resumed run uses the same
// choices, with or without LOCUS_TUNE and the file.

// If a choice names a way that the op does not have, as in an edited file, the op throws
// FormatError with the key and the way. No other way replaces it.

}  // namespace locus::tuning
