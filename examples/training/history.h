// The results of a training run: numbers, a table, a CSV file and a picture.
#pragma once

#include <string>
#include <vector>

namespace training {

struct Epoch {
  int number = 0;       // from 1
  long long steps = 0;  // since the start of the run
  double train_loss = 0, test_loss = 0;
  double accuracy = 0;                         // on the test images, 0 to 1; NaN: none
  double learning_rate = 0;                    // of the last step
  double seconds = 0, samples_per_second = 0;  // of training, without the test
};

struct LossPoint {
  double epoch;  // 1.5: half of the second epoch is done
  double loss;   // mean over the steps since the last point
};

// The training loss as a curve of about 150 points for any length of run.
class LossCurve {
 public:
  LossCurve(long long steps_per_epoch, int epochs)
      : steps_per_epoch_(steps_per_epoch), stride_(1 + steps_per_epoch * epochs / 150) {}
  void add(const std::vector<double>& losses);  // one a step, in order
  const std::vector<LossPoint>& points() const { return points_; }
  // For checkpoints.
  std::vector<double> state() const;
  void set_state(const std::vector<double>& state);

 private:
  long long steps_per_epoch_, stride_, step_ = 0;
  double sum_ = 0;
  std::vector<LossPoint> points_;
};

struct History {
  std::string network, data, context;
  std::vector<Epoch> epochs;
  std::vector<LossPoint> losses;
};
// For checkpoints.
std::vector<double> state_of(const std::vector<Epoch>& epochs);
std::vector<Epoch> epochs_of(const std::vector<double>& state);

std::string table(const History& history);
// Writes a temporary file and renames it. std::runtime_error names the file.
void write_csv(const History& history, const std::string& path);

}  // namespace training
