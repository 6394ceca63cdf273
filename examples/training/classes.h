// What programs that tell classes apart have in common: their step, their score, their pictures.
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

// A network that is initialized and trained to tell the classes of `train` apart, with
// SoftmaxCrossEntropyLoss and SGD, as the options say: on one context, or by a plan.
class Classifier {
 public:
  struct Setup {
    std::string program, network, data;  // names, for people
    locus::nn::Sequential& net;
    locus::data::Dataset train, test;
    locus::data::Transform transform = {};  // of the training images
    int workers = 0;                        // threads that apply it; 0: the context itself
  };
  // Prints what it is about to do.
  Classifier(const Setup& setup, const Options& options);

  // The program's exit status, see train() in run.h.
  int train(const std::function<Strip()>& strip,
            const std::function<void(int64_t step)>& after = {});

  // Where batches go, and the network that takes them: what a plan made of it, where there is one.
  locus::Context context() const { return context_; }
  locus::nn::Block& net() const;
  // All contexts and the plan, where there is one: "data over 2; gpu(0), gpu(1): NVIDIA H200".
  std::string where() const;
  int64_t steps() const { return steps_; }  // of all epochs
  locus::nn::TrainStep& compiled() { return compiled_; }
  // The mean loss and the share of right classes over the test set.
  Score score();

 private:
  locus::Tensor step(const locus::Tensor& data, const locus::Tensor& label);
  // Its halves: the second is not compiled where ranks meet in it.
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

// Eleven of the first 2000 test digits: those that the network gets wrong and is surest of among
// them, and one of each class that it gets right. `test` has images of 784 pixels in any shape.
Strip digits_strip(locus::nn::Block& net, const locus::data::Dataset& test, locus::Context c);

// How often which class was taken for which: rows are labels, columns answers, the darker the more.
Strip confusion_strip(locus::nn::Block& net, const locus::data::Dataset& test, locus::Context c,
                      const std::vector<std::string>& classes);

// The body of main(): what `run` throws is printed with the program's name.
int guarded(const std::string& program, const std::function<int()>& run);

}  // namespace training
