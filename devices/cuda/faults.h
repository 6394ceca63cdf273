// The faults that kernels of one device report, such as an index out of range. Internal to
// devices/cuda.
#pragma once

#include <atomic>

#include <locus/core/base/mutex.h>
#include <locus/core/context.h>
#include <locus/devices/cuda.h>

namespace locus::cuda {

// One word per op, so a raised word identifies the op. Threads: any.
class Faults {
 public:
  void open(cudaStream_t s);
  Fault* word(const char* op, ThrowParameter);
  // If there are reports, clears all of them on `s`, waits for `s` and throws the earliest. Kernels
  // that other streams have queued may report again.
  void check(Context context, cudaStream_t s);

 private:
  static constexpr int kWords = 128;
  Mutex mutex_;  // held to add a word and to take reports
  std::atomic<int> size_{0};
  const char* ops_[kWords] = {};
  ThrowParameter throw_parameter_[kWords] = {};
  Fault* words_ = nullptr;
  int* taken_ = nullptr;  // kWords, in device memory
};

}  // namespace locus::cuda
