// Checkpoints: the whole state of a training run on disk, so that it can stop, or be stopped, at
// any moment and go on as if it had not.
//
//   checkpoint::save("run", {net, trainer, loader});              // after some steps
//   if (checkpoint::load("run", {net, trainer, loader})) ...      // in another process
//
// A checkpoint is a folder "run/checkpoint-000012" with a file for each part, in MXNet's .params
// format (core/io.h), and manifest.json with the size and CRC-32 of each. It is written under
// another name, flushed to the disk and renamed: a reader sees it whole or not at all, and whoever
// is killed while writing leaves the ones before. Several may save into one folder: they take
// turns. The state of random numbers is always a part, and so are the ways of computing that were
// measured (core/tuning.h), where some were.
//
// load() takes the newest checkpoint that is whole. Every part is checked before any is touched.
//
// Of several ranks (core/cluster.h), which all call save() and load(), rank 0 writes while the
// others wait, and all read: the folder is one that all see. As many ranks as one likes go on from
// it, with the same batch_size of all together. What fails on one rank is thrown on all.
//
// Restoring needs the same program: networks with the same parameters, the same optimizer, a loader
// of the same data. A part whose state another program or model wrote is refused with what differs.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
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
  std::function<void()> restore(NamedTensors state, const std::string& file) const {
    return restore_(std::move(state), file);
  }

 private:
  std::string name_;
  State state_;
  Restore restore_;
};
using Parts = std::vector<Part>;

struct SaveOptions {
  int keep = 3;  // the newest so many stay, others are removed
};
// Writes the next checkpoint and returns its folder. Waits for the tensors. Creates `directory`.
// Throws Error when it cannot be written (a full disk, a folder without permission), naming the
// file: the checkpoints that are there are then untouched, and training may go on.
std::string save(const std::string& directory, const Parts& parts, const SaveOptions& = {},
                 Caller = Caller::here());

struct Loaded {
  std::string path;                  // the checkpoint's folder
  std::vector<std::string> skipped;  // newer ones that are not whole, each with what is wrong
};
// Restores the parts, and the random numbers, from the newest whole checkpoint; parts that it has
// besides are left. Nothing when `directory` has no checkpoint or does not exist. Throws
// FormatError when it has some and none is whole, or when it lacks a part; what a part throws when
// it does not fit. Nothing is touched then.
std::optional<Loaded> load(const std::string& directory, const Parts& parts,
                           Caller = Caller::here());

}  // namespace locus::checkpoint
