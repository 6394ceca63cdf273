// Checkpoints: save the parts of a training run on disk. If the run stops or is killed, a new
// process loads the newest checkpoint and continues with the same numbers. The functions read and
// write the parts that the caller owns. Unusual cases: "Details" at the end.
//
//   checkpoint::save("run", {net, trainer, loader});              // after some steps
//   if (checkpoint::load("run", {net, trainer, loader})) ...      // in another process
//
// A checkpoint is a folder "run/checkpoint-000012". It has a file for each part, in MXNet's .params
// format (core/io.h), and manifest.json with the size and CRC-32 of each file. The state of random
// numbers is always a part. Measured choices of kernels (core/tuning.h), if any, are a part, too.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <locus/nn/checkpoint/checkpoint_part.h>

namespace locus::checkpoint {

struct SaveOptions {
  int keep = 3;  // number of checkpoints that stay, the newest; >= 1
};
// Writes the next checkpoint and returns its folder. Waits for the tensors. Creates `directory`. If
// the checkpoint cannot be written (a full disk, a folder without permission), save() throws an
// Error that names the file. Earlier checkpoints are then untouched, and training may go on.
// ValueError if two parts have one name; rename one with named().
std::string save(const std::string& directory, const Parts& parts, const SaveOptions& = {},
                 Caller = Caller::here());

struct Loaded {
  std::string path;                  // the checkpoint's folder
  std::vector<std::string> skipped;  // damaged newer checkpoints, each with the reason
};
// Restores the parts and the random numbers from the newest whole checkpoint. Other parts in the
// checkpoint are ignored. Returns nullopt if `directory` has no checkpoint or does not exist.
// FormatError if all checkpoints are damaged, or if the checkpoint lacks a part. If a part does not
// fit, load() throws the part's error. After these errors nothing has changed.
std::optional<Loaded> load(const std::string& directory, const Parts& parts,
                           Caller = Caller::here());

// --- Details ---

// The program that loads
//   - It makes the same networks, optimizer and loader, with the same options. It sets options
//     again, also a learning rate that set_learning_rate() changed.
//   - load() refuses a part with the state of another model, and names the difference.

// Writing
//   - save() writes under another name, flushes to the disk and renames. A reader sees a whole
//     checkpoint or none.
//   - A process that is killed in save() leaves the earlier checkpoints and a hidden draft,
//     ".checkpoint-000012-HOST-PID". The next save() on that host removes the draft.
//   - Several processes may save into one folder. They take turns if the file system has locks.

// Reading
//   - load() checks every part before it changes any, and restores networks first. The order of
//     `parts` does not matter.
//   - If a network has no shapes yet, the Trainer's states are checked against the network's state
//     in the checkpoint.
//   - A checkpoint has one value for all replicas of a parameter. If replicas differ, as in running
//     statistics of BatchNorm, it is the mean.

// Several ranks (core/cluster.h)
//   - All ranks call save() and load(), on a folder that all of them see.
//   - Rank 0 writes while the others wait. All ranks read.
//   - Another number of ranks may load a checkpoint. The total batch_size must stay the same.
//   - All ranks get rank 0's random numbers. For other numbers, call random::seed() after load().
//   - If one rank fails, every rank throws.

}  // namespace locus::checkpoint
