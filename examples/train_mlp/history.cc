#include "train_mlp/history.h"

#include <fmt/format.h>

#include "common/measure.h"
#include "train_mlp/chart.h"

namespace train_mlp {
void LossCurve::add(const std::vector<double>& losses) {
  for (const double loss : losses) {
    sum_ += loss;
    if (++step_ % stride_ != 0) continue;
    points_.push_back({static_cast<double>(step_) / static_cast<double>(steps_per_epoch_),
                       sum_ / static_cast<double>(stride_)});
    sum_ = 0;
  }
}

std::string table(const History& history) {
  std::string text =
      "epoch  train loss  test loss  test accuracy  samples/s  seconds\n"
      "-----  ----------  ---------  -------------  ---------  -------\n";
  for (const Epoch& e : history.epochs) {
    text +=
        fmt::format("{:5}  {:10.4f}  {:9.4f}  {:11.2f} %  {:9.0f}  {:7.2f}\n", e.number,
                    e.train_loss, e.test_loss, 100 * e.accuracy, e.samples_per_second, e.seconds);
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

void write_svg(const History& history, const std::string& path) {
  examples::write_file(path, chart(history));
}

}  // namespace train_mlp
