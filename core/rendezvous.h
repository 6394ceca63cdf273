// Rendezvous: where the threads of one parallel() meet, so that each can use what all of them have.
// Internal to core, ops and nn.
//
// All threads come to the same places in the same order. One that has ended is an Error on every
// thread that would meet it, at once and from then on: no thread waits for one that does not come.
// One that comes to another place than the others is an Error on all when the last has come.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include <locus/core/context.h>
#include <locus/core/mutex.h>

namespace locus {

class Rendezvous : NonCopyable {
 public:
  struct Place {
    const char* what;  // "SyncBatchNorm"
    uint64_t number;   // of those that have this name
    bool gradient = false;
    bool weights = false;  // what each counts for in the sums that come there next
    friend bool operator==(const Place&, const Place&) = default;
  };
  // Called once a meeting, by the thread that came last, with what each of them brought; its
  // exception is one of all threads.
  using Combine = std::function<void(std::span<void* const> brought)>;

  explicit Rendezvous(std::span<const Context> contexts);

  // A thread that ended for want of another one: its exception is not what went wrong.
  bool forsaken(size_t i);

  // While it lives, this thread is that of context i, and has not ended.
  class Seat : NonCopyable {
   public:
    Seat(Rendezvous& meeting, size_t i);
    ~Seat();
    // That of this thread; null outside of parallel().
    static Seat* here();

    std::span<const Context> contexts() const { return contexts_; }
    Context context() const { return contexts_[at_]; }
    // Waits for all others to come to this place. `mine` stays this thread's own again afterwards.
    void meet(const Place& place, void* mine, const Combine& combine);

    // While it lives, the threads compute on these contexts, as many as there are threads, as in a
    // stage of a plan that has contexts of its own. Each thread says so. Nothing outside of
    // parallel().
    class Among : NonCopyable {
     public:
      explicit Among(std::span<const Context> contexts);
      ~Among();

     private:
      Seat* const seat_;
      std::span<const Context> before_;
    };

   private:
    Rendezvous& meeting_;
    const size_t at_;
    std::span<const Context> contexts_;
    Seat* const outer_;
  };

 private:
  struct Thread {
    bool gone = false, forsaken = false;
    Place place = {};
    void* brought = nullptr;
  };
  void meet(size_t i, const Place& place, void* mine, const Combine& combine);
  void combine(const Combine& combine) LOCUS_REQUIRES(mutex_);
  void check_places() LOCUS_REQUIRES(mutex_);
  [[noreturn]] void forsake(size_t i, size_t gone, const Place& place) LOCUS_REQUIRES(mutex_);

  const std::vector<Context> contexts_;
  Mutex mutex_;
  std::condition_variable changed_;
  std::vector<Thread> threads_ LOCUS_GUARDED_BY(mutex_);
  size_t waiting_ LOCUS_GUARDED_BY(mutex_) = 0;
  uint64_t meetings_ LOCUS_GUARDED_BY(mutex_) = 0;
  std::exception_ptr failure_ LOCUS_GUARDED_BY(mutex_);  // of a meeting: there are no others then
};

}  // namespace locus
