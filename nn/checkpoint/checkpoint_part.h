// What a checkpoint (nn/checkpoint.h) is made of.
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

namespace locus::checkpoint {

// Something a checkpoint holds, under a name that is the name of its file.
class Part {
 public:
  // Its state, on any context.
  using State = std::function<NamedTensors()>;
  // Checks what State gave, read back from `file` (on cpu(0)), touches nothing, and returns what
  // puts it in place. Throws FormatError, ShapeError, ... when it does not fit.
  using Restore = std::function<std::function<void()>(NamedTensors state, const std::string& file)>;

  Part(std::string name, State state, Restore restore);
  Part(nn::Block& network);        // "network": what save_parameters() writes
  Part(nn::Trainer& trainer);      // "trainer": what save_states() writes
  Part(data::DataLoader& loader);  // "loader": which batch comes next
  Part(data::Prefetcher& loader);
  Part(amp::LossScaler& scaler);  // "scaler": the scale, and when it changes next
  // Numbers of the program's own, read and written where they are: progress, histories. In place
  // they take the lengths that were saved.
  Part(std::string name, std::vector<std::pair<std::string, std::vector<double>*>> numbers);

  // The same under another name: of two networks, say.
  Part named(std::string name) const;
  const std::string& name() const { return name_; }
  NamedTensors state() const { return state_(); }
  // Networks are restored first, and say what their parameters are about to be: states of those
  // are checked by it.
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

// For save() and load(): with what every checkpoint has besides, random numbers, and the choices of
// core/tuning.h, a part where some were made. ValueError where two have one name.
Parts with_own(const Parts& parts);
inline constexpr const char* kTuning = "tuning";

}  // namespace locus::checkpoint
