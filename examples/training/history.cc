#include "training/history.h"

#include <cmath>

#include <fmt/format.h>

#include "common/measure.h"

namespace training {

void LossCurve::add(const std::vector<double>& losses) {
  for (const double loss : losses) {
    sum_ += loss;
    if (++step_ % stride_ != 0) continue;
    points_.push_back({static_cast<double>(step_) / static_cast<double>(steps_per_epoch_),
                       sum_ / static_cast<double>(stride_)});
    sum_ = 0;
  }
}

std::vector<double> LossCurve::state() const {
  std::vector<double> all{static_cast<double>(step_), sum_};
  for (const LossPoint& p : points_) all.insert(all.end(), {p.epoch, p.loss});
  return all;
}

void LossCurve::set_state(const std::vector<double>& state) {
  step_ = static_cast<long long>(state.at(0));
  sum_ = state.at(1);
  points_.clear();
  for (size_t i = 2; i + 1 < state.size(); i += 2) points_.push_back({state[i], state[i + 1]});
}

namespace {

constexpr double Epoch::*kNumbers[] = {
    &Epoch::train_loss,    &Epoch::test_loss, &Epoch::accuracy,
    &Epoch::learning_rate, &Epoch::seconds,   &Epoch::samples_per_second,
};

}  // namespace

std::vector<double> state_of(const std::vector<Epoch>& epochs) {
  std::vector<double> all;
  for (const Epoch& e : epochs) {
    all.push_back(e.number);
    all.push_back(static_cast<double>(e.steps));
    for (const auto number : kNumbers) all.push_back(e.*number);
  }
  return all;
}

std::vector<Epoch> epochs_of(const std::vector<double>& state) {
  constexpr size_t kEach = 2 + std::size(kNumbers);
  std::vector<Epoch> epochs(state.size() / kEach);
  for (size_t i = 0; i < epochs.size(); ++i) {
    const double* v = state.data() + i * kEach;
    epochs[i].number = static_cast<int>(*v++);
    epochs[i].steps = static_cast<long long>(*v++);
    for (const auto number : kNumbers) epochs[i].*number = *v++;
  }
  return epochs;
}

std::string table(const History& history) {
  const bool accuracy = !history.epochs.empty() && !std::isnan(history.epochs[0].accuracy);
  std::string text = fmt::format(
      "epoch  train loss  test loss{}  samples/s  seconds\n"
      "-----  ----------  ---------{}  ---------  -------\n",
      accuracy ? "  test accuracy" : "", accuracy ? "  -------------" : "");
  for (const Epoch& e : history.epochs) {
    text += fmt::format("{:5}  {:10.4f}  {:9.4f}", e.number, e.train_loss, e.test_loss);
    if (accuracy) text += fmt::format("  {:11.2f} %", 100 * e.accuracy);
    text += fmt::format("  {:9.0f}  {:7.2f}\n", e.samples_per_second, e.seconds);
  }
  return text;
}

void write_csv(const History& history, const std::string& path) {
  std::string text =
      "epoch,steps,train_loss,test_loss,test_accuracy,learning_rate,seconds,samples_per_second\n";
  for (const Epoch& e : history.epochs) {
    text += fmt::format("{},{},{:.9g},{:.9g},{:.6g},{:.6g},{:.4f},{:.1f}\n", e.number, e.steps,
                        e.train_loss, e.test_loss, e.accuracy, e.learning_rate, e.seconds,
                        e.samples_per_second);
  }
  examples::write_file(path, text);
}

}  // namespace training
