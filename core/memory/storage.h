// What a Tensor handle points at: memory with its order (Storage), and a strided view of it with
// its place in the autograd graph (TensorImpl). Internal to core and to ops that make views.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include <locus/core/base/mutex.h>
#include <locus/core/device.h>
#include <locus/core/kernel.h>
#include <locus/core/memory/timeline.h>
#include <locus/core/tape/reads.h>

namespace locus {

struct GraphState;  // tape.h
class Arena;
class Tensor;

// A block of one context's memory and what is still in flight on it.
//
// The home stream is the one it was allocated on. Work there is ordered by the stream itself and
// costs a number here. Another stream that reads or writes leaves the number of its work; later
// work elsewhere waits for it on the device (timeline.h), and so does the pool before it reuses the
// block.
//
// Threads: the order is guarded by a mutex, taken only once a foreign stream is involved. Any
// number of threads may read at once. A write beside another thread's read or write is ordered by
// the program, as for any object; afterwards the order holds for everybody again.
class Storage : NonCopyable {
 public:
  // `owner`: the memory is a block of its; null: of the context's pool.
  Storage(Context context, size_t bytes, StreamView home, std::shared_ptr<Arena> owner = nullptr);
  ~Storage();

  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  Context context() const { return context_; }
  const Arena* owner() const { return owner_.get(); }
  StreamView home();
  uint64_t born() const { return born_; }  // reads.h

  // Call before enqueuing on s: s waits for whatever it must. A host stream (id 0) blocks the host.
  void before_read(StreamView s) {
    tell_read();
    order_read(s);
  }
  // The same where tell_read() was called already.
  void order_read(StreamView s) {
    if (s.id != home_id_.load(std::memory_order_acquire) ||
        foreign_.load(std::memory_order_acquire))
      order(s, false);
  }
  void before_write(StreamView s) {
    count_write();
    if (s.id != home_id_.load(std::memory_order_acquire) ||
        foreign_.load(std::memory_order_acquire))
      order(s, true);
  }
  // Call after enqueuing on s.
  void after_read(StreamView s) {
    if (s.id != home_id_.load(std::memory_order_acquire)) mark(s, false);
  }
  void after_write(StreamView s) {
    if (s.id != home_id_.load(std::memory_order_acquire)) {
      mark(s, true);
    } else if (s.id != 0) {
      home_write_.store(home_.load(std::memory_order_acquire)->advance(),
                        std::memory_order_release);
    }
  }
  // Call after a copy lane filled new memory. The first op on the compute stream waits for the
  // lane's work up to now, and makes that stream the home: what is uploaded once and used often is
  // ordered by the compute stream itself.
  void hand_over();
  // Its stream is done with it and will be another's: from now on `to` is its home.
  void leave_home(StreamView to);
  void wait_host();  // the host blocks until the pending writes are done

  // What the two above do for autograd.
  void tell_read() const {
    if (reads::watched()) [[unlikely]]
      reads::tell(*this);
  }
  void count_write() { version_.fetch_add(1, std::memory_order_relaxed); }
  // Counts writes in place; autograd refuses to use a saved tensor whose storage changed.
  uint64_t version() const { return version_.load(std::memory_order_relaxed); }
  // It has the bytes again that it had at that version.
  void restored(uint64_t version) { version_.store(version, std::memory_order_relaxed); }

 private:
  struct Use {
    Timeline* line;
    uint64_t at;
    bool write;
  };
  void order(StreamView s, bool write);
  void mark(StreamView s, bool write);
  void drop_finished() LOCUS_REQUIRES(mutex_);
  void move_home(Timeline& to) LOCUS_REQUIRES(mutex_);
  // Whose foreign use is under way.
  std::optional<Context> busy_on() const LOCUS_REQUIRES(mutex_);
  std::vector<EventView> pending_uses() LOCUS_REQUIRES(mutex_);

  void* data_ = nullptr;
  size_t bytes_ = 0;
  Context context_;
  const std::shared_ptr<Arena> owner_;
  const StreamView arena_;  // of the pool: whose memory it is, and where it returns to
  // The three move with mutex_ held. Null, and 0, on the host.
  std::atomic<Timeline*> home_;
  std::atomic<uint32_t> home_id_;
  std::atomic<uint64_t> home_write_{0};  // the last write's number at home
  std::atomic<bool> foreign_{false};     // uses_ is not empty
  std::atomic<uint64_t> version_{0};
  Mutex mutex_;
  bool to_compute_ LOCUS_GUARDED_BY(mutex_) = false;  // hand_over() was called
  std::vector<Use> uses_ LOCUS_GUARDED_BY(mutex_);    // foreign ones, at most two a stream
  const uint64_t born_ = reads::runs.load(std::memory_order_relaxed);
};

// How a tensor that is in no graph came about: what errors tell of it (why_no_graph() in tape.h).
enum class Origin : uint8_t {
  made,                // created, or computed outside of a Record scope from such tensors
  constant,            // recorded, and no tensor that it depends on needs a gradient
  not_differentiable,  // recorded, behind an op that has no gradient
  unrecorded,          // computed outside of a Record scope from a tensor that needs a gradient
  from_unrecorded,     // recorded, from such a tensor
};

struct TensorImpl {
  View view;  // view.data points at the first element
  Context context;
  bool contiguous = true;
  std::shared_ptr<Storage> storage;
  std::shared_ptr<GraphState> graph;  // null until recorded or attach_grad
  Origin origin = Origin::made;
};

// New memory on c, at home on `home`, seen through `view` (whose data it becomes).
Tensor make_tensor(Context c, View view, StreamView home);

}  // namespace locus
