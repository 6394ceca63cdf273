#include <locus/devices/cuda/faults.h>

#include <atomic>
#include <exception>
#include <string>

#include <locus/core/call/named_calls.h>
#include <locus/core/error.h>
#include <locus/devices/cuda/check.h>
#include <locus/devices/cuda/driver.h>

namespace locus::cuda {
namespace {

// The same texts as on the host, which throws at the call.
[[noreturn]] void throw_finding(const char* op, const Finding& f, ThrowParameter throw_parameter,
                                Context context) {
  const std::string found = found_later(context);
  const auto value = [&](const char* inexact) {
    return f.exact ? std::to_string(f.value) : inexact;
  };
  switch (f.kind) {
    case FaultKind::index:
      throw IndexError(op, ": index ", value("nan or past 64 bits"), " is out of bounds for axis ",
                       f.at, " with size ", f.limit, "; expected ", -f.limit, " to ", f.limit - 1,
                       found);
    case FaultKind::position:
      throw IndexError(op, ": index ", f.value, " is out of bounds for axis ", f.at, " with size ",
                       f.limit, "; expected 0 to ", f.limit - 1, found);
    case FaultKind::label:
      throw IndexError(op, ": label ", value("nan, with a fraction or past 64 bits"), " of row ",
                       f.at, " is out of range for ", f.limit,
                       " classes; expected whole numbers in [0, ", f.limit, ")", found);
    case FaultKind::parameter:
      try {
        throw_parameter(f);
      } catch (const Error&) {
        std::rethrow_exception(reworded(
            [&](const std::string& text) { return NamedCalls::in_front(op, text) + found; }));
      }
      break;
    case FaultKind::late_peer:
      throw DeviceError(op, ": device ", f.value, " of the group did not join within ", f.limit,
                        " s; every context of a group takes part in its collectives, in one order",
                        found);
  }
  throw Error(op, ": a fault of kind ", static_cast<int>(f.kind), found);
}

}  // namespace

void Faults::open(cudaStream_t s) {
  LOCUS_CUDA(cudaHostAlloc(reinterpret_cast<void**>(&words_), kWords * sizeof(Fault),
                           cudaHostAllocMapped | cudaHostAllocPortable));
  LOCUS_CUDA(cudaMalloc(reinterpret_cast<void**>(&taken_), kWords * sizeof(int)));
  LOCUS_CUDA(cudaMemsetAsync(taken_, 0, kWords * sizeof(int), s));
  LOCUS_CUDA(cuda::synchronize(s));  // other streams do not wait for it
  for (int i = 0; i < kWords; ++i) {
    words_[i] = Fault{};
    words_[i].taken = taken_ + i;
  }
}

Fault* Faults::word(const char* op, ThrowParameter throw_parameter) {
  const auto find = [&](int from, int n) {
    for (int i = from; i < n; ++i)
      if (ops_[i] == op) return i;
    return -1;
  };
  const int n = size_.load(std::memory_order_acquire);
  int i = find(0, n);
  if (i < 0) {
    const MutexLock lock(mutex_);
    const int now = size_.load(std::memory_order_relaxed);
    i = find(n, now);
    if (i < 0) {
      LOCUS_CHECK(now < kWords, "more than ", kWords, " ops report faults");
      ops_[i = now] = op;
      throw_parameter_[i] = throw_parameter;
      size_.store(now + 1, std::memory_order_release);
    }
  }
  return words_ + i;
}

void Faults::check(Context context, cudaStream_t s) {
  const int n = size_.load(std::memory_order_acquire);
  int first = -1;
  for (int i = 0; i < n; ++i) {
    if (std::atomic_ref(words_[i].raised).load(std::memory_order_acquire) != 1) continue;
    if (first < 0 || words_[i].when < words_[first].when) first = i;
  }
  if (first < 0) [[likely]]
    return;
  const MutexLock lock(mutex_);
  const Fault fault = words_[first];
  if (fault.raised != 1) return;  // another thread throws it
  for (int i = 0; i < n; ++i) {
    std::atomic_ref raised(words_[i].raised);
    if (raised.load(std::memory_order_acquire) == 1) raised.store(0, std::memory_order_release);
  }
  const Guard guard(context.index);
  LOCUS_CUDA(cudaMemsetAsync(taken_, 0, kWords * sizeof(int), s));
  LOCUS_CUDA(cuda::synchronize(s));
  throw_finding(ops_[first], fault.finding, throw_parameter_[first], context);
}

}  // namespace locus::cuda
