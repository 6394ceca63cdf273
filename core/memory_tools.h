// Tools that show where memory goes: hooks on every block, a profile, a summary, a list of leaks.
//
//   MemoryProfile profile;
//   Tensor y;
//   { MemoryScope s("conv1");  y = net(x); }
//   std::cout << profile.table();           // by scope and by line: current, peak, total
//   std::cout << memory_summary(gpu(0));    // what the driver's tools show, part by part
//
// The tools watch the memory pools of all contexts. The caller owns hooks and profiles. Threads:
// any. While there is no hook and no profile, an allocation pays one relaxed load and a branch.
//
// The environment variable LOCUS_MEMORY starts a tool with the program:
//   leaks         prints on stderr, when the program ends, the blocks that were not freed
//   redzones      finds writes outside of a block
//   memory.jsonl  writes every event to this file. The name of a file contains a . or a /
#pragma once

#include <cstdint>
#include <iosfwd>
#include <memory>
#include <string>
#include <vector>

#include <locus/core/caller.h>
#include <locus/core/context.h>
#include <locus/core/error.h>

namespace locus {

enum class MemoryEventKind : uint8_t {
  request,   // a block is asked for. If memory is short, no served follows, but OutOfMemory
  served,    // the pool returns the block
  upstream,  // the pool has taken memory from the driver
  released,  // the pool returns memory to the driver
  freed,     // a block is given back to the pool
};
const char* name(MemoryEventKind kind);

// What a pool does, and on whose behalf.
struct MemoryEvent {
  MemoryEventKind kind = MemoryEventKind::request;
  Context context;
  uint32_t stream = 0;         // of the block, as in StreamView; 0: the host, upstream, released
  size_t bytes = 0;            // asked for
  size_t block = 0;            // after rounding: what MemoryStats::in_use counts
  const void* data = nullptr;  // null in a request
  const char* op = "";         // that runs on this thread, else ""; valid as long as the program
  const char* scope = "";      // "step/conv1", else ""; valid as long as the program
  // The innermost line of the user's code on this thread. to_string(caller) is its text; the file
  // is null if no line is known, as when memory is freed.
  Caller caller = {};
};

class MemoryHook {
 public:
  virtual ~MemoryHook() = default;
  // Called on the thread that causes the event, outside of the pool's lock. Several threads may
  // call at once. Events that on() itself causes are not reported.
  virtual void on(const MemoryEvent& event) noexcept = 0;
};

// While it lives, the hook gets the events of all threads. Several scopes may live at once, in any
// order. ValueError if the hook is in a scope already.
class [[nodiscard]] MemoryHookScope : NonCopyable {
 public:
  explicit MemoryHookScope(MemoryHook& hook);
  // Waits for calls of the hook on other threads. Not for use inside on().
  ~MemoryHookScope();

 private:
  MemoryHook& hook_;
};

// Writes one JSON object per line and event:
//   {"event":"served","context":"gpu(0)","stream":2,"bytes":4,"block":512,"data":"0x7f…",
//    "op":"add","scope":"step/conv1","line":"train.cc:12"}
// (here cut in two). Unknown values are left out. Borrows `os`; errors of `os` stay in its state.
class JsonLines final : public MemoryHook {
 public:
  explicit JsonLines(std::ostream& os);
  ~JsonLines() override;
  void on(const MemoryEvent& event) noexcept override;

 private:
  struct Output;
  std::unique_ptr<Output> output_;
};

// Names the memory that this thread asks for during the scope. Scopes nest: "step/conv1". Other
// threads begin without a scope. Labels stay in memory until the process ends: use a fixed set of
// them. ValueError if the label is empty.
class [[nodiscard]] MemoryScope : NonCopyable {
 public:
  explicit MemoryScope(const std::string& label);
  ~MemoryScope();

 private:
  const char* const outer_;
};

// Blocks of one context that were asked for in one scope or line, in bytes after rounding.
struct MemoryEntry {
  Context context;
  std::string name;     // a scope or a line; "": all blocks
  size_t current = 0;   // live now
  size_t peak = 0;      // the most at one time
  size_t total = 0;     // of all blocks, freed ones included
  size_t upstream = 0;  // taken from the driver for them
  uint64_t blocks = 0;  // the number of all blocks
};

// A record of the blocks that any thread asks for during its lifetime. Older blocks do not count.
class [[nodiscard]] MemoryProfile : NonCopyable {
 public:
  MemoryProfile();
  ~MemoryProfile();

  // For each context: all blocks, then each scope. A scope includes the scopes inside it.
  std::vector<MemoryEntry> by_scope() const;
  // For each context: all blocks, then each line of the user's code, the largest peak first.
  std::vector<MemoryEntry> by_line() const;
  std::string table() const;  // of both
  // The blocks that live now, with op, scope and line; the most bytes first.
  std::string live_blocks() const;

 private:
  struct Records;
  std::unique_ptr<Records> records_;
  MemoryHookScope hook_;
};

// live_blocks() since the program began. Error if it runs without LOCUS_MEMORY=leaks.
std::string live_blocks();

// Memory outside of a block was written. The text names the block: bytes, context, op, scope and
// line; and the first wrong byte of each side, as an offset from the block's first byte.
class MemoryError : public Error {
  using Error::Error;
};
// With LOCUS_MEMORY=redzones, each block has guard bytes before and after it, with a known pattern.
// check_red_zones() waits as wait_all() does. Then it checks the guard bytes of all blocks that
// live, and those of blocks that were freed since the last check. MemoryError if any were written.
// Error if the program runs without LOCUS_MEMORY=redzones. wait_all() makes the same check.
void check_red_zones(Caller from = Caller::here());

// What is used of the context's memory, in parts that sum up: live blocks, free blocks that the
// pool keeps, and all else. DeviceError if there is no such device.
std::string memory_summary(Context c);

// --- Details ---
//
// - A block that is freed while another stream uses it counts as freed at once. MemoryStats::in_use
//   counts the block until that stream is done.
// - Recorded work (capture.h) asks for its blocks when it is recorded. Replays ask for none.
// - Threads of the library have no scope and no line of their own, among them those that run the
//   kernels of emulated GPUs.
// - A function of the program that calls invoke() has no line of its own. Its blocks count at the
//   line that called the library before, or at "(line not known)".
// - A device from outside that has an allocator of its own reports no events.
// - Red zones cost 1 KiB a block, which MemoryStats counts, and two copies to the host. They find
//   writes at most 512 bytes outside of a block, except writes of the pattern. A damaged block is
//   reported once.
// - The guard bytes of a freed block are read in the order of its stream, after all work on it.
// - Damage that no call has thrown is printed on stderr when the program ends. Memory of a real GPU
//   is no longer read then: call wait_all() before.
// - Once the driver unloads, global objects leave their memory to the system. Blocks of global
//   tensors still count as freed then; those of recorded work count as live.

}  // namespace locus
