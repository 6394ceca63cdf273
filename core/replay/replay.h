// Replay: recorded kernel launches and copies, run again without inference, dispatch or allocation.
// A Graph (capture.h) or a compiled function (compile.h) owns it. Internal to core, devices and
// ops/collective.
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

// One recorded call. Its memory keeps its addresses.
struct ReplayCall {
  Context context;         // enqueues the call
  const Op* op = nullptr;  // null: a copy
  // For an op:
  Kernel kernel = nullptr;
  const char* launch_name = nullptr;  // NamedCalls::name(); null: the op's
  std::vector<View> views = {};       // inputs, then results
  int n_in = 0;
  Attrs attrs = {};
  // Scratch memory and choices (tuning.h), in the order of the kernel's requests. Memory is null
  // until finish().
  struct Scratch {
    std::byte* data = nullptr;
    size_t bytes = 0;
  };
  std::vector<Scratch> scratch = {};
  std::vector<std::shared_ptr<const void>> choices = {};
  // For a copy, and for an op that copies between two host contexts:
  void* dst = nullptr;
  const void* src = nullptr;
  Context to = {}, from = {};
  size_t bytes = 0;
  Caller caller = {};

  // Indices of the calls of the same segment that this call waits for.
  std::vector<int> after = {};
  int branch = 0;
  std::vector<std::pair<size_t, int>> across = {};  // in other segments: segment and index

  const char* name() const { return op ? op->name.c_str() : "copyto"; }
  const char* full_name() const { return launch_name ? launch_name : name(); }
  bool crosses() const { return !op && !is_host(to) && !is_host(from); }  // between devices
};

// All bytes of the storage, as a tensor.
Tensor bytes_of(const std::shared_ptr<Storage>& storage);

class Replay : NonCopyable {
 public:
  // `before`: a replay whose calls are all recorded. The new replay may use memory of `before`, and
  // replays of the two run in order.
  explicit Replay(const Replay* before = nullptr);
  ~Replay();  // blocks until its replays are done

  // While recording: adds a call, then the memory that the call uses.
  ReplayCall& add(ReplayCall call);
  void touch(const std::shared_ptr<Storage>& storage, bool write);
  // The last call waits for other devices: such calls of one device run in order.
  void order_peer_calls(Context c);
  void copied(Context from, Context to, size_t bytes, Caller caller);  // by the last call
  void ran_on(StreamView s);                                           // the last call, at once
  // Whether the storage is in an arena of this replay or of `before`.
  bool owns(const Storage& storage) const;
  // `reserves`: only addresses (arena.h).
  const std::shared_ptr<Arena>& arena(Context c, bool reserves = false);
  // A block of the arena. Replays wait for the current stream's earlier use of the block.
  void* block(Context c, size_t bytes);
  // Device memory. `fill` provides its bytes before each replay, and with `now` also at once.
  const void* slot(Context c, size_t bytes, std::function<void(void*)> fill, bool now);
  // New memory of an arena. Reading it before a recorded write is an error.
  void allocated(const Storage& storage) {
    if (storage.bytes() > 0) unwritten_.insert(storage.data());
  }
  void filled(const Storage& storage) { unwritten_.erase(storage.data()); }  // before each replay
  bool is_unwritten(const Storage& storage) const { return unwritten_.contains(storage.data()); }
  // The program sees this memory of an arena.
  void show(const std::shared_ptr<Storage>& storage) { shown_.push_back(storage); }
  // Ends the recording: computes dependencies and makes the devices' graphs. Calls with constant
  // results run only once: during the recording if the calls `ran` then, else now.
  void finish(bool ran);

  // After finish(), for storages that the program may use, too: from outside, or shown.
  bool uses(const Storage& storage) const { return used_.contains(&storage); }
  bool writes(const Storage& storage) const;

  // Enqueues all calls, ordered with other work on the same memory as one op. `from`: for errors.
  void replay(Caller from);

  // The calls (compile.h), without times.
  std::vector<CompiledCall> calls() const;
  // The calls with times. Runs each call a few times, then restores all memory. Waits.
  std::vector<CompiledCall> measured();
  std::string describe();   // measured() as a table
  std::string dot() const;  // for Graphviz

  // Runs one call on s. `traced`: reports it to listeners (trace.h).
  void run(ReplayCall& call, StreamView s, bool traced);

  // The next scratch memory of the call that runs in this thread; null unless of_replay.
  static void* scratch(size_t bytes, bool& of_replay);
  // The call's next place for a choice, valid until the next request; null outside of run().
  static std::shared_ptr<const void>* next_choice();
  // While it lives, this thread's kernels are only measured (tuning.h), outside of run().
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
    bool needs_peers = false;  // a call waits for kernels of other devices
    std::vector<ReplayCall> calls = {};
    std::vector<Use> uses = {};
    std::unique_ptr<RecordedWork> graph = {};
  };
  // Host numbers that a replay reads from device memory. `sent`: their values there.
  struct Numbers {
    Context context;
    std::byte* memory;
    std::vector<std::byte> sent, now;
  };
  struct Number {
    std::function<void(void*)> fill;
    size_t numbers, offset;
  };
  // A stream of the last work on a context: one, or those of the recording.
  struct Last {
    Context context;
    Timeline* line;
    uint64_t at;
  };
  // Scratch memory shared by the calls of one branch. `ask`: index of the request within a call.
  struct SharedScratch {
    Context context;
    int branch;
    size_t ask;
    ReplayCall::Scratch memory;
  };
  class Running;

  bool made(const Storage& storage) const;  // in an arena of this replay
  void take_constants(bool ran);
  size_t segment_for(const ReplayCall& call, size_t first);
  void use(Segment& segment, const Touch& t);
  void make_graphs();
  ReplayCall::Scratch scratch_for(const ReplayCall& call, size_t ask, size_t bytes);
  void send_numbers(Context c, StreamView s);
  static void mark(const Segment& segment, StreamView s);  // s uses the segment's memory
  void enqueue(Segment& segment, Caller from);
  void mark_broken();
  void run_each(Segment& segment, StreamView s, Caller from);

  std::vector<std::shared_ptr<Arena>> arenas_;          // one per context
  std::vector<std::shared_ptr<Arena>> earlier_arenas_;  // of `before`
  std::deque<ReplayCall> calls_;                        // until finish()
  std::vector<std::vector<Touch>> touches_;
  std::map<const void*, std::shared_ptr<Storage>> seen_;  // by address: others may use these, too
  std::vector<std::shared_ptr<Storage>> shown_;
  std::unordered_set<const void*> unwritten_;
  std::vector<SharedScratch> scratches_;
  bool whole_ = false;        // all calls are in segments
  bool needs_peers_ = false;  // of a segment
  bool broken_ = false;       // some calls that need peers were enqueued without them
  std::vector<Segment> segments_;
  std::unordered_map<const Storage*, bool> used_;  // of all segments; true: written
  std::deque<Numbers> numbers_;
  std::vector<Number> fills_;
  std::shared_ptr<std::vector<Last>> last_ = std::make_shared<std::vector<Last>>();
};

}  // namespace locus
