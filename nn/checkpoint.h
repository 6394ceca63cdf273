// Checkpoints: the whole state of a training run on disk, so that the run can stop, or be stopped,
// at any moment and go on as if it had not.
//
//   checkpoint::save("run", {net, trainer, loader});              // after some steps
//   if (checkpoint::load("run", {net, trainer, loader})) ...      // in another process
//
// A checkpoint is a folder "run/checkpoint-000012". It has a file for each part, in MXNet's .params
// format (core/io.h), and manifest.json with the size and CRC-32 of each file. The state of random
// numbers is always a part; so are the ways of computing that were measured (core/tuning.h).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <locus/nn/checkpoint/checkpoint_part.h>

namespace locus::checkpoint {

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

// --- Details ---

// Restoring needs the same program: networks with the same parameters, the same optimizer, a loader
// of the same data. load() refuses a part whose state another program or model wrote, and names
// what differs.

// Writing: save() writes under another name, flushes to the disk and renames, so that a reader sees
// a checkpoint whole or not at all. A process that is killed while it writes leaves the earlier
// checkpoints and a hidden draft, ".checkpoint-000012-HOST-PID", which the next save() on that host
// removes. Several processes may save into one folder: they take turns.

// Reading: load() takes the newest checkpoint that is whole. It checks every part before it changes
// any, in whichever order they are given, and restores networks first. A Trainer's states are
// checked against its network in the checkpoint where shapes are not known yet. A checkpoint keeps
// one value of all replicas: where replicas differ, as the running statistics of a BatchNorm that
// is not synchronised, the mean (nn/block.h).

// Ranks (core/cluster.h) all call save() and load(), on a folder that all of them see. Rank 0
// writes while the others wait; all ranks read. Any number of ranks may go on from a checkpoint,
// with the same batch_size of all together and with rank 0's random numbers: ranks that are to draw
// others call random::seed() after load(). A failure on one rank is thrown on all.

}  // namespace locus::checkpoint
