// Calls of kernels and copies that were recorded, to be run again as they are: no inference, no
// dispatch, no allocation. What a Capture (capture.h) and a compiled function (compile.h) keep.
// Internal to core, but for what devices make graphs of.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include <locus/core/memory/arena.h>
#include <locus/core/memory/storage.h>
#include <locus/core/op.h>

namespace locus {

struct CompiledCall;

// One call, with all that it needs. Its memory stays where it is.
struct ReplayCall {
  Context context;         // that enqueues it
  const Op* op = nullptr;  // null: a copy
  // Of an op's kernel.
  Kernel kernel = nullptr;
  const char* launch_name = nullptr;  // NamedCalls::name(); null: the op's
  std::vector<View> views = {};       // inputs, then results
  int n_in = 0;
  Attrs attrs = {};
  // In the order in which the kernel asks: memory, null until the replay is whole, and what it
  // chose once (tuning.h).
  struct Scratch {
    std::byte* data = nullptr;
    size_t bytes = 0;
  };
  std::vector<Scratch> scratch = {};
  std::vector<std::shared_ptr<const void>> kept = {};
  // Of a copy; of an op's kernel that copies from one context of the host to another, too.
  void* dst = nullptr;
  const void* src = nullptr;
  Context to = {}, from = {};
  size_t bytes = 0;
  Caller asked = {};

  // Calls of the same segment, by number, that come before it; which of the segment's branches it
  // is in.
  std::vector<int> after = {};
  int branch = 0;
  std::vector<std::pair<size_t, int>> across = {};  // of other segments: segment and number

  const char* name() const { return op ? op->name.c_str() : "copyto"; }
  const char* full_name() const { return launch_name ? launch_name : name(); }
  bool crosses() const { return !op && !is_host(to) && !is_host(from); }  // between devices
};

// All of its bytes, as a tensor.
Tensor bytes_of(const std::shared_ptr<Storage>& storage);

class Replay : NonCopyable {
 public:
  // `before`: a replay of which all calls are noted, where this one goes on: it may use memory of
  // that, and replays of the two come one after the other.
  explicit Replay(const Replay* before = nullptr);
  ~Replay();  // blocks until its replays are done

  // While it is recorded: a call, and then the memory that it uses.
  ReplayCall& add(ReplayCall call);
  void touch(const std::shared_ptr<Storage>& storage, bool write);
  const char* last_name() const { return calls_.back().name(); }
  // It meets others: such calls of a device come one after the other.
  void meet_in_turn(Context c);
  void copied(Context from, Context to, size_t bytes, Caller asked);  // that is what the call did
  void ran_on(StreamView s);                                          // the call, at once
  // Whether the storage lies in the replay's arenas, or in those of the replay before it.
  bool owns(const Storage& storage) const;
  // Memory of the replay's own.
  const std::shared_ptr<Arena>& arena(Context c);
  // A block of it. What the current stream had in it before is done when a replay begins.
  void* block(Context c, size_t bytes);
  // Device memory that `fill` gives its bytes before each replay; with `now` also at once.
  const void* slot(Context c, size_t bytes, std::function<void(void*)> fill, bool now);
  // New memory of an arena: a read of it before a recorded write is an error.
  void allocated(const Storage& storage) {
    if (storage.bytes() > 0) unwritten_.insert(storage.data());
  }
  void filled(const Storage& storage) { unwritten_.erase(storage.data()); }  // before each replay
  bool is_unwritten(const Storage& storage) const { return unwritten_.contains(storage.data()); }
  // Memory of its own that the program sees.
  void show(const std::shared_ptr<Storage>& storage) { shown_.push_back(storage); }
  // No more calls: finds what has to wait for what, and makes the devices' graphs. Calls that give
  // the same each time run once: when they were recorded, if they `ran` then, else now.
  void finish(bool ran);

  // After finish(), about storages that the program may use, too: those from outside, and shown
  // ones.
  bool uses(const Storage& storage) const { return used_.contains(&storage); }
  bool writes(const Storage& storage) const;

  // Enqueues all of it, and does not wait. Ordered with other work on what it uses as one op would
  // be. `from`: who asked, for errors.
  void replay(Caller from);

  // The calls (compile.h), not measured.
  std::vector<CompiledCall> calls() const;
  // With the microseconds that each takes by itself: they are run a few times, after which what the
  // program sees has its values again. Waits.
  std::vector<CompiledCall> measured();
  std::string describe();   // these as a table
  std::string dot() const;  // in Graphviz's language

  // Runs one call on s; `traced`: reported to whoever listens.
  void run(ReplayCall& call, StreamView s, bool traced);

  // What a call of a kernel that runs now asks for (scratch.h); null: it is not one of a replay's.
  static void* scratch(size_t bytes, bool& of_replay);
  // Its next place for a choice; null: it is not one of a replay's. Valid until the next is asked
  // for.
  static std::shared_ptr<const void>* kept();
  // Meanwhile no call is a replay's: what runs in this thread is only measured (tuning.h).
  class Trial : NonCopyable {
   public:
    Trial();
    ~Trial();

   private:
    void* const outer_;
  };

 private:
  struct Touch {
    const void* memory;
    bool write;
  };
  struct Use {
    Storage* storage;
    bool write;
  };
  // Calls of one context that are enqueued together.
  struct Segment {
    Context context;
    bool crosses = false;
    bool needs_peers = false;  // a call waits for its like on other devices
    std::vector<ReplayCall> calls = {};
    std::vector<Use> uses = {};
    std::unique_ptr<RecordedWork> graph = {};
  };
  // Numbers of the host that a replay reads from the device, and what the device has of them.
  struct Numbers {
    Context context;
    std::byte* memory;
    std::vector<std::byte> sent, now;
  };
  struct Number {
    std::function<void(void*)> fill;
    size_t numbers, offset;
  };
  // A stream that its work on a context was enqueued on last: one, or those of the recording.
  struct Last {
    Context context;
    Timeline* line;
    uint64_t at;
  };
  // What the calls of one branch have as scratch memory in turn; `ask`: the how many-th of a call.
  struct SharedScratch {
    Context context;
    int branch;
    size_t ask;
    ReplayCall::Scratch memory;
  };
  class Running;

  bool made(const Storage& storage) const;  // in its own arenas
  void take_constants(bool ran);
  size_t segment_for(const ReplayCall& call, size_t first);
  void use(Segment& segment, const Touch& t);
  void make_graphs();
  ReplayCall::Scratch scratch_for(const ReplayCall& call, size_t ask, size_t bytes);
  void send_numbers(Context c, StreamView s);
  static void mark(const Segment& segment, StreamView s);  // work on s uses what it does
  void enqueue(Segment& segment, Caller from);
  void break_off();
  void run_each(Segment& segment, StreamView s, Caller from);

  std::vector<std::shared_ptr<Arena>> arenas_;  // one a context
  std::vector<std::shared_ptr<Arena>> others_;  // of the replay before it
  std::deque<ReplayCall> calls_;                // until finish()
  std::vector<std::vector<Touch>> touches_;
  std::map<const void*, std::shared_ptr<Storage>> seen_;  // by address: what others may use, too
  std::vector<std::shared_ptr<Storage>> shown_;
  std::unordered_set<const void*> unwritten_;
  std::vector<SharedScratch> scratches_;
  bool whole_ = false;        // finish() has all calls in their segments
  bool needs_peers_ = false;  // some wait for their like on other devices
  bool broken_ = false;       // of those, some were enqueued alone
  std::vector<Segment> segments_;
  std::unordered_map<const Storage*, bool> used_;  // by all segments; true: written
  std::deque<Numbers> numbers_;
  std::vector<Number> fills_;
  std::shared_ptr<std::vector<Last>> last_ = std::make_shared<std::vector<Last>>();
};

}  // namespace locus
