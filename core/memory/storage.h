// The data behind a Tensor handle: memory with its order across streams (Storage), and a strided
// view with its autograd state (TensorImpl). Internal to core and to ops that make views.
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

// A block of one context's memory, and the work in flight on it.
//
// At first the home stream is the stream of the allocation. The stream itself orders work there,
// which costs a number here. For a use on a foreign stream, the Storage keeps the number of that
// work. Later work elsewhere waits for this number on the device (timeline.h), and so does the pool
// before it reuses the block.
//
// Threads: a mutex guards the order, and is locked only if a foreign stream is involved. Any number
// of threads may read at once. The program orders a write with other threads' reads and writes, as
// for any object.
class Storage : NonCopyable {
 public:
  // `owner`: provides the block; null: the context's pool.
  Storage(Context context, size_t bytes, StreamView home, std::shared_ptr<Arena> owner = nullptr);
  ~Storage();

  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  Context context() const { return context_; }
  const Arena* owner() const { return owner_.get(); }
  StreamView home();
  uint64_t born() const { return born_; }  // reads.h

  // Call before enqueuing on s: s waits for earlier work as needed. A host stream (id 0) blocks the
  // host.
  void before_read(StreamView s) {
    tell_read();
    order_read(s);
  }
  // before_read() without tell_read().
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
  // lane, and makes compute the home: data uploaded once and used often then needs no waits.
  void hand_over();
  // Makes `to` the home. Work on the old home is done, or `to` waits for it.
  void leave_home(StreamView to);
  void wait_host();  // the host blocks until the pending writes are done

  // Called by before_read() and before_write(), for autograd.
  void tell_read() const {
    if (reads::watched()) [[unlikely]]
      reads::tell(*this);
  }
  void count_write() { version_.fetch_add(1, std::memory_order_relaxed); }
  // The number of writes. Autograd refuses a saved tensor whose storage was written since.
  uint64_t version() const { return version_.load(std::memory_order_relaxed); }
  // The bytes are again those of that version.
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
  // The context of a foreign use in flight.
  std::optional<Context> busy_on() const LOCUS_REQUIRES(mutex_);
  std::vector<EventView> pending_uses() LOCUS_REQUIRES(mutex_);

  void* data_ = nullptr;
  size_t bytes_ = 0;
  Context context_;
  const std::shared_ptr<Arena> owner_;
  const StreamView pool_stream_;  // allocated there, and returned there
  // These three change with mutex_ held. Null and 0 on the host.
  std::atomic<Timeline*> home_;
  std::atomic<uint32_t> home_id_;
  std::atomic<uint64_t> home_write_{0};  // number of the last write at home
  std::atomic<bool> foreign_{false};     // uses_ is not empty
  std::atomic<uint64_t> version_{0};
  Mutex mutex_;
  bool to_compute_ LOCUS_GUARDED_BY(mutex_) = false;  // hand_over() was called
  std::vector<Use> uses_ LOCUS_GUARDED_BY(mutex_);    // foreign, at most two per stream
  const uint64_t born_ = reads::runs.load(std::memory_order_relaxed);
};

// Why a tensor is in no graph, for errors (why_no_graph() in tape.h).
enum class Origin : uint8_t {
  made,                // created, or computed outside of a Record scope from such tensors
  constant,            // recorded, and no tensor that it depends on needs a gradient
  not_differentiable,  // recorded, through an op that has no gradient
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

// A tensor with the layout of `view` in new memory on c, at home on `home`.
Tensor make_tensor(Context c, View view, StreamView home);

}  // namespace locus
