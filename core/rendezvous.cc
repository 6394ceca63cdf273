#include <locus/core/rendezvous.h>

#include <algorithm>
#include <utility>

#include <locus/core/error.h>
#include <locus/core/reads.h>

namespace locus {
namespace {

thread_local Rendezvous::Seat* taken = nullptr;

std::string text(const Rendezvous::Place& p) {
  return text_of(p.weights    ? "the weights of "
                 : p.gradient ? "the gradient of "
                              : "",
                 p.what, " #", p.number);
}

}  // namespace

Rendezvous::Rendezvous(std::span<const Context> contexts)
    : contexts_(contexts.begin(), contexts.end()), threads_(contexts.size()) {}

bool Rendezvous::forsaken(size_t i) {
  const MutexLock lock(mutex_);
  return threads_[i].forsaken;
}

Rendezvous::Seat::Seat(Rendezvous& meeting, size_t i)
    : meeting_(meeting), at_(i), contexts_(meeting.contexts_), outer_(taken) {
  taken = this;
}

Rendezvous::Seat::~Seat() {
  taken = outer_;
  const MutexLock lock(meeting_.mutex_);
  meeting_.threads_[at_].gone = true;
  meeting_.changed_.notify_all();
}

Rendezvous::Seat* Rendezvous::Seat::here() { return taken; }

Rendezvous::Seat::Among::Among(std::span<const Context> contexts) : seat_(taken) {
  if (!seat_) return;
  LOCUS_CHECK(contexts.size() == seat_->contexts_.size(), "one context for each thread");
  before_ = std::exchange(seat_->contexts_, contexts);
}
Rendezvous::Seat::Among::~Among() {
  if (seat_) seat_->contexts_ = before_;
}

void Rendezvous::Seat::meet(const Place& place, void* mine, const Combine& combine) {
  meeting_.meet(at_, place, mine, combine);
}

void Rendezvous::meet(size_t i, const Place& place, void* mine, const Combine& f) {
  MutexLock lock(mutex_);
  const auto expect_all = [&]() LOCUS_REQUIRES(mutex_) {
    auto gone = std::ranges::find_if(threads_, [](auto& t) { return t.gone && !t.forsaken; });
    if (gone == threads_.end()) gone = std::ranges::find(threads_, true, &Thread::gone);
    if (gone != threads_.end()) forsake(i, static_cast<size_t>(gone - threads_.begin()), place);
  };
  if (failure_) std::rethrow_exception(failure_);
  expect_all();  // or what a thread that is gone had brought would count
  threads_[i].place = place;
  threads_[i].brought = mine;
  const uint64_t meeting = meetings_;
  if (++waiting_ == threads_.size()) combine(f);
  while (meetings_ == meeting) {
    expect_all();
    lock.wait(changed_);
  }
  if (failure_) std::rethrow_exception(failure_);
}

void Rendezvous::combine(const Combine& f) {
  try {
    check_places();
    std::vector<void*> all;
    for (const Thread& t : threads_) all.push_back(t.brought);
    const reads::Aside for_all;
    f(all);
  } catch (...) {
    failure_ = std::current_exception();
  }
  waiting_ = 0;
  ++meetings_;
  changed_.notify_all();
}

void Rendezvous::check_places() {
  for (size_t i = 1; i < threads_.size(); ++i)
    if (threads_[i].place != threads_[0].place)
      throw Error("parallel: ", contexts_[0], " came to ", text(threads_[0].place), ", ",
                  contexts_[i], " to ", text(threads_[i].place),
                  "; expected all contexts to run the same layers in the same order");
}

void Rendezvous::forsake(size_t i, size_t gone, const Place& place) {
  threads_[i].forsaken = true;
  throw Error("parallel: ", contexts_[i], " came to ", text(place), ", and ", contexts_[gone],
              " ended without; expected every context to come there");
}

}  // namespace locus
