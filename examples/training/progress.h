// Progress of an epoch: a bar on a terminal, else a few lines.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include <locus/core/tensor.h>

namespace training {

class Progress {
 public:
  Progress(int epochs, int64_t samples_per_epoch);

  // `seconds`: time the epoch took in an earlier process.
  void start(int epoch, double seconds = 0);
  void show(int64_t samples, double loss);  // so far in this epoch; redraws at intervals
  // The epoch's closing line replaces the bar.
  void finish(const std::string& line);
  void clear();  // erases the bar

  double seconds() const;  // since start()

 private:
  using Clock = std::chrono::steady_clock;
  bool terminal_;
  int epochs_, epoch_ = 0;
  int64_t samples_;
  int quarter_ = 0;
  bool drawn_ = false;
  Clock::time_point started_, redraw_;
  double before_ = 0;
};

struct Diverged {
  int64_t step = 0;  // from 1, since the start of the run
  double loss = 0;
};

// The losses of the last steps, kept on their device. Reading every step would make the host wait
// for each.
class LossLog {
 public:
  static constexpr int64_t kInterval = 50;  // steps

  void add(const locus::Tensor& loss);  // (batch,)
  bool due() const { return static_cast<int64_t>(waiting_.size()) >= kInterval; }
  // The mean loss of each step since the last read, over all ranks, in order. Waits. Throws
  // Diverged with the first step whose loss is not finite.
  std::vector<double> read();
  bool empty() const { return waiting_.empty(); }
  int64_t steps() const { return steps_; }
  // Since reset().
  double mean() const { return samples_ == 0 ? 0 : sum_ / static_cast<double>(samples_); }
  void reset();
  // For checkpoints; call read() first.
  std::vector<double> state() const;
  void set_state(const std::vector<double>& state);

 private:
  locus::Tensors waiting_;
  int64_t steps_ = 0, samples_ = 0;
  double sum_ = 0;
};

}  // namespace training
