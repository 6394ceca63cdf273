// The faults that kernels of one device report, such as an index out of range. Internal to
// devices/cuda.
#pragma once

#include <atomic>

#include <locus/core/base/mutex.h>
#include <locus/core/context.h>
#include <locus/devices/cuda.h>

namespace locus::cuda {

// One word for each op, so that the word that is raised names the op. Any thread.
class Faults {
 public:
  void open(cudaStream_t s);
  Fault* word(const char* op);
  // Throws the error of the earliest report and forgets all reports: on `s`, which the host waits
  // for. Kernels that other streams still have queued report again.
  void check(Context context, cudaStream_t s);

 private:
  static constexpr int kWords = 128;
  Mutex mutex_;  // held to add a word, and to take reports
  std::atomic<int> size_{0};
  const char* ops_[kWords] = {};
  Fault* words_ = nullptr;
  int* taken_ = nullptr;  // kWords, in device memory
};

}  // namespace locus::cuda
