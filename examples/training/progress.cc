#include "training/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include <fmt/core.h>
#include <locus/core/cluster.h>
#include <locus/ops/create.h>
#include <locus/ops/join.h>

#include "common/status.h"

namespace training {
namespace {

constexpr int kBarWidth = 28;
constexpr const char* kWipe = "\r\x1b[K";

std::string bar(double done) {
  static const char* const kEighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const int eighths = static_cast<int>(std::clamp(done, 0.0, 1.0) * kBarWidth * 8);
  std::string s;
  for (int i = 0; i < eighths / 8; ++i) s += "█";
  s += kEighths[eighths % 8];
  const int used = eighths / 8 + (eighths % 8 != 0);
  return s + std::string(static_cast<size_t>(kBarWidth - used), ' ');
}

}  // namespace

Progress::Progress(int epochs, int64_t samples_per_epoch)
    : terminal_(examples::draws_on(STDOUT_FILENO)), epochs_(epochs), samples_(samples_per_epoch) {}

void Progress::start(int epoch, double seconds) {
  epoch_ = epoch;
  before_ = seconds;
  quarter_ = 0;
  started_ = redraw_ = Clock::now();
}

double Progress::seconds() const {
  return before_ + std::chrono::duration<double>(Clock::now() - started_).count();
}

void Progress::show(int64_t samples, double loss) {
  const double done = static_cast<double>(samples) / static_cast<double>(samples_);
  const double rate = static_cast<double>(samples) / std::max(seconds(), 1e-9);
  if (terminal_) {
    if (Clock::now() < redraw_) return;
    redraw_ = Clock::now() + std::chrono::milliseconds(80);
    drawn_ = true;
    fmt::print("{}epoch {}/{} |{}| {:3.0f} %  {:7.0f} samples/s  loss {:.4f}", kWipe, epoch_,
               epochs_, bar(done), 100 * done, rate, loss);
    std::fflush(stdout);
  } else if (const int quarter = static_cast<int>(done * 4); quarter > quarter_ && quarter < 4) {
    quarter_ = quarter;
    fmt::print("epoch {}/{}  {:3.0f} %  {:7.0f} samples/s  loss {:.4f}\n", epoch_, epochs_,
               100 * done, rate, loss);
    std::fflush(stdout);
  }
}

void Progress::clear() {
  if (drawn_) fmt::print("{}", kWipe);
  drawn_ = false;
  std::fflush(stdout);
}

void Progress::finish(const std::string& line) {
  clear();
  fmt::print("{}\n", line);
  std::fflush(stdout);
}

void LossLog::add(const locus::Tensor& loss) {
  waiting_.push_back(loss.detach());
  ++steps_;
}

std::vector<double> LossLog::read() {
  std::vector<double> means;
  if (waiting_.empty()) return means;
  const std::vector<float> all = locus::concat(waiting_, {.axis = 0}).to_vector<float>();
  const int64_t first = steps_ - static_cast<int64_t>(waiting_.size()) + 1;
  std::vector<double> sums;
  size_t at = 0;
  for (const locus::Tensor& loss : waiting_) {
    double sum = 0;
    for (int64_t i = 0; i < loss.size(); ++i) sum += static_cast<double>(all[at++]);
    sums.push_back(sum);
  }
  if (locus::cluster::size() > 1) {
    const locus::Tensor of_all = locus::array(sums, {locus::cpu(), locus::f64});
    locus::cluster::all_reduce({of_all});
    sums = of_all.to_vector<double>();
  }
  for (size_t i = 0; i < sums.size(); ++i) {
    if (!std::isfinite(sums[i])) throw Diverged{first + static_cast<int64_t>(i), sums[i]};
    const int64_t batch = waiting_[i].size() * locus::cluster::size();
    means.push_back(sums[i] / static_cast<double>(batch));
    sum_ += sums[i];
    samples_ += batch;
  }
  waiting_.clear();
  return means;
}

void LossLog::reset() {
  sum_ = 0;
  samples_ = 0;
}

std::vector<double> LossLog::state() const {
  return {static_cast<double>(steps_), static_cast<double>(samples_), sum_};
}

void LossLog::set_state(const std::vector<double>& state) {
  steps_ = static_cast<int64_t>(state.at(0));
  samples_ = static_cast<int64_t>(state.at(1));
  sum_ = state.at(2);
  waiting_.clear();
}

}  // namespace training
