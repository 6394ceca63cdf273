// Training step, score and pictures shared by programs that train a classifier.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include <locus/nn/containers.h>
#include <locus/nn/data.h>
#include <locus/nn/planned.h>
#include <locus/nn/prefetch.h>
#include <locus/nn/train_step.h>

#include "training/chart.h"
#include "training/options.h"
#include "training/run.h"

namespace training {

// Trains a network on `train` with SoftmaxCrossEntropyLoss and SGD, on one context or by a plan.
class Classifier {
 public:
  struct Setup {
    std::string program, network, data;  // printed names
    locus::nn::Sequential& net;
    locus::data::Dataset train, test;
    locus::data::Transform transform = {};  // of the training images
    int workers = 0;                        // threads that apply it; 0: the context applies it
  };
  // Initializes the network and prints the settings.
  Classifier(const Setup& setup, const Options& options);

  // Returns the program's exit status (run.h).
  int train(const std::function<Strip()>& strip,
            const std::function<void(int64_t step)>& after = {});

  // The context for batches, and the network: with a plan, the Planned.
  locus::Context context() const { return context_; }
  locus::nn::Block& net() const;
  // Contexts and plan: "data over 2; gpu(0), gpu(1): NVIDIA H200".
  std::string where() const;
  int64_t steps() const { return steps_; }  // of all epochs
  locus::nn::TrainStep& compiled() { return compiled_; }
  // Mean loss and accuracy over the test set.
  Score score();

 private:
  locus::Tensor step(const locus::Tensor& data, const locus::Tensor& label);
  // The halves of step(). With several ranks, update() is not compiled, because it synchronizes
  // ranks.
  locus::Tensor backward(const locus::Tensor& data, const locus::Tensor& label);
  void update(int64_t batch);

  const Setup setup_;
  const Options options_;
  const std::unique_ptr<locus::nn::Planned> planned_;  // null without a plan
  const locus::Context context_;
  const int64_t steps_;
  locus::nn::Trainer trainer_;
  std::variant<locus::data::DataLoader, locus::data::Prefetcher> loader_;
  locus::data::DataLoader test_loader_;
  locus::nn::TrainStep compiled_;
};

// Eleven of the first 2000 test digits: up to four wrong answers of the highest confidence, and
// right answers for the classes in turn. `test` has images of 784 pixels in any shape.
Strip digits_strip(locus::nn::Block& net, const locus::data::Dataset& test, locus::Context c);

// Counts of answers: rows are labels, columns answers; darker means more.
Strip confusion_strip(locus::nn::Block& net, const locus::data::Dataset& test, locus::Context c,
                      const std::vector<std::string>& classes);

// The body of main(): prints exceptions with the program's name.
int guarded(const std::string& program, const std::function<int()>& run);

}  // namespace training
