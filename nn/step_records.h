// A Trainer's own part of steps that come again and again. What it costs the host is mostly two
// launches a GPU, each with its checks, and the way to their threads: recorded (core/compile.h) it
// is one launch a GPU. Internal to nn.
#pragma once

#include <functional>
#include <list>
#include <optional>
#include <vector>

#include <locus/core/caller.h>
#include <locus/core/compile.h>
#include <locus/core/noncopyable.h>

namespace locus::nn {

class StepRecords : NonCopyable {
 public:
  // What a recording has as it was when it was made.
  struct Key {
    double rescale;
    std::vector<bool> fresh;
    bool summed;
    friend bool operator==(const Key&, const Key&) = default;
  };
  struct Work {
    std::function<void()> step;
    std::function<bool()> left;     // whether it is still to be done
    std::function<bool()> counted;  // whether all its updates are
    std::function<void()> undo;     // what a replay that failed did, and counted
  };
  // Steps as they are, before one is recorded.
  static constexpr int kBefore = 8;
  // Also of devices that do not reach each other's memory, where a recording keeps what its copies
  // take: for tests.
  static inline bool anywhere = false;

  // Does the step, or replays it. One that cannot be recorded stays as it is. Errors: the step's,
  // and a replay's, behind undo().
  void run(const Key& key, const Work& work, Caller from);

 private:
  struct Known {
    Key key;
    int before = 0;
    bool never = false, recording = false, done = false;
    const Work* work = nullptr;  // the one that runs
    std::optional<Compiled> recorded = {};
  };
  Known& find(const Key& key);

  std::list<Known> known_;  // the one used last is first
};

}  // namespace locus::nn
