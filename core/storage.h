// What a Tensor handle points at: memory with its order (Storage), and a strided view of it with
// its place in the autograd graph (TensorImpl). Internal to core and to ops that make views.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include <locus/core/device.h>
#include <locus/core/kernel.h>

namespace locus {

struct GraphState;  // autograd.cc

// A block of one context's memory and what is still in flight on it.
//
// The home stream is the one it was allocated on. Work there is ordered by the stream itself and
// costs nothing here. Another stream that reads or writes leaves an event; later work elsewhere
// waits for it on the device, once a stream, and the pool waits for it before the block is reused.
//
// Threads: the order is guarded by a mutex, taken only once a foreign stream is involved. Any
// number of threads may read at once. A write beside another thread's read or write is ordered by
// the program, as for any object; afterwards the order holds for everybody again.
class Storage {
 public:
  Storage(Context context, size_t bytes, StreamView home);
  // Borrowed memory: `release` is called instead of freeing.
  Storage(Context context, void* data, size_t bytes, void (*release)(void*), void* owner);
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  Context context() const { return context_; }
  StreamView home();

  // Call before enqueuing on s: s waits for whatever it must. A host stream (id 0) blocks the host.
  void before_read(StreamView s) {
    if (s.id != home_id_.load(std::memory_order_acquire) ||
        foreign_.load(std::memory_order_acquire))
      order_read(s);
  }
  void before_write(StreamView s) {
    version_.fetch_add(1, std::memory_order_relaxed);
    if (s.id != home_id_.load(std::memory_order_acquire) ||
        foreign_.load(std::memory_order_acquire))
      order_write(s);
  }
  // Call after enqueuing on s.
  void after_read(StreamView s) {
    if (s.id != home_id_.load(std::memory_order_acquire)) mark(s, false);
  }
  void after_write(StreamView s) {
    if (s.id == home_id_.load(std::memory_order_acquire)) {
      home_writes_.fetch_add(1, std::memory_order_release);
    } else {
      mark(s, true);
    }
  }
  // Call after a copy lane filled new memory: readers elsewhere wait for the lane's work up to now,
  // and not for what follows it there, such as the next upload. The first op on the compute stream
  // makes that the home, so that what is uploaded once and used often costs no event a use.
  void hand_over();
  // The host blocks until the pending writes (and, for_write, reads) are done.
  void wait_host(bool for_write = false);

  // Counts writes in place; autograd refuses to use a saved tensor whose storage changed.
  uint64_t version() const { return version_.load(std::memory_order_relaxed); }

 private:
  // A point in a stream's work, and the streams that wait for it already.
  struct Fence {
    EventView event;
    std::vector<uint32_t> waiters;
  };
  struct Use {
    uint32_t stream;
    bool write;
    Fence fence;
  };
  static bool waits(const Fence& f, uint32_t stream);
  static void wait(Fence& f, StreamView s);
  static void forget(Fence& f);
  void order_read(StreamView s);
  void order_write(StreamView s);
  void order(StreamView s, bool write);
  void mark(StreamView s, bool write);
  void drop_finished();
  void move_home(StreamView s);
  std::optional<Context> busy_on() const;  // whose foreign use is under way; mutex_ is held
  std::vector<EventView> pending_uses();

  void* data_ = nullptr;
  size_t bytes_ = 0;
  Context context_;
  const StreamView arena_;  // whose memory it is, and where it returns to
  StreamView home_;         // guarded by mutex_; its id also here, for the fast path:
  std::atomic<uint32_t> home_id_;
  bool to_compute_ = false;  // hand_over() was called; guarded by mutex_
  std::atomic<bool> foreign_{false};
  std::atomic<uint64_t> version_{0};
  std::mutex mutex_;
  std::vector<Use> uses_;  // foreign uses, guarded by mutex_
  // The home stream's work up to write number home_fence_at_, guarded by mutex_. Counted after the
  // write is enqueued: an event recorded while another thread enqueues one is not taken for later.
  Fence home_fence_;
  uint64_t home_fence_at_ = 0;
  std::atomic<uint64_t> home_writes_{0};
  void (*release_)(void*) = nullptr;
  void* owner_ = nullptr;
};

struct TensorImpl {
  View view;  // view.data points at the first element
  Context context;
  bool contiguous = true;
  std::shared_ptr<Storage> storage;
  std::shared_ptr<GraphState> graph;  // null until recorded or attach_grad
};

}  // namespace locus
