// Parts of a checkpoint (nn/checkpoint.h).
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <locus/core/io.h>
#include <locus/nn/block.h>
#include <locus/nn/data.h>
#include <locus/nn/loss_scaler.h>
#include <locus/nn/prefetch.h>
#include <locus/nn/trainer.h>
#include <locus/ops/random.h>

namespace locus::checkpoint {

// A named part. Its name is its file's name.
class Part {
 public:
  // The part's state, on any context.
  using State = std::function<NamedTensors()>;
  // Checks a state read from `file` (on cpu(0)), changes nothing, and returns a function that
  // restores it. Throws FormatError, ShapeError, ... if it does not fit.
  using Restore = std::function<std::function<void()>(NamedTensors state, const std::string& file)>;

  Part(std::string name, State state, Restore restore);
  Part(nn::Block& network);        // "network": as save_parameters() writes
  Part(nn::Trainer& trainer);      // "trainer": as save_states() writes
  Part(data::DataLoader& loader);  // "loader": the next batch
  Part(data::Prefetcher& loader);
  Part(amp::LossScaler& scaler);      // "scaler": the scale, and steps until it changes
  Part(random::Generator generator);  // "generator": where its next draw starts
  // The program's numbers, such as progress and histories. The vectors must outlive the part.
  // Restoring gives them their saved lengths.
  Part(std::string name, std::vector<std::pair<std::string, std::vector<double>*>> numbers);

  // The same part under another name, for example for a second network.
  Part named(std::string name) const;
  const std::string& name() const { return name_; }
  NamedTensors state() const { return state_(); }
  // Networks are restored first. They report their parameters' future shapes, against which
  // optimizer states are checked.
  bool is_network() const { return network_; }
  std::function<void()> restore(NamedTensors state, const std::string& file,
                                nn::ShapesToCome& to_come) const {
    return restore_(std::move(state), file, to_come);
  }

 private:
  std::string name_;
  State state_;
  std::function<std::function<void()>(NamedTensors, const std::string&, nn::ShapesToCome&)>
      restore_;
  bool network_ = false;
};
using Parts = std::vector<Part>;

// Adds the parts of every checkpoint: random numbers, and the choices of core/tuning.h. ValueError
// if two names are equal.
Parts with_own(const Parts& parts);
inline constexpr const char* kTuning = "tuning";

}  // namespace locus::checkpoint
