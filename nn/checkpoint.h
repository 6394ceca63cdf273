// Checkpoints: save the parts of a training run on disk. If the run stops or is killed, a new
// process loads the newest checkpoint and continues with the same numbers. Unusual cases: "Details"
// at the end.
//
//   checkpoint::save("run", {net, trainer, loader});              // after some steps
//   if (checkpoint::load("run", {net, trainer, loader})) ...      // in another process
//
// A part (nn/checkpoint/checkpoint_part.h) refers to the caller's object: do not move or destroy
// the object while the part is in use.
//
// The first checkpoint is the folder "run/checkpoint-000001". The folder has a file for each part,
// in MXNet's .params format (core/io.h), and manifest.json with the size and CRC-32 of each file.
// The process's random numbers and, if kernels were chosen by measuring (core/tuning.h), the
// choices are always parts. load() restores them without being asked. A random::Generator may be a
// part.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <locus/nn/checkpoint/checkpoint_part.h>

namespace locus::checkpoint {

struct SaveOptions {
  int keep = 3;  // the number of newest checkpoints that stay; ValueError if < 1
};
// Writes the next checkpoint and returns its folder. Waits for the tensors. Creates `directory`. If
// the checkpoint cannot be written (a full disk, a folder without permission), save() throws an
// Error that names the file. Earlier checkpoints are then untouched, and a later save() may
// succeed. ValueError if two parts have one name; rename one with named().
std::string save(const std::string& directory, const Parts& parts, const SaveOptions& = {},
                 Caller = Caller::here());

struct Loaded {
  std::string path;                  // the checkpoint's folder
  std::vector<std::string> skipped;  // damaged newer checkpoints, each with the reason
};
// Restores the parts and the random numbers from the newest whole checkpoint. A checkpoint is whole
// if its manifest has this version, and all its files have the manifest's size and CRC-32. The
// caller may load only some parts. A checkpoint with a damaged file is skipped, also if the caller
// does not load that file's part.
//
// Returns nullopt if `directory` has no checkpoint or does not exist. Throws FormatError if all
// checkpoints are damaged, or if the newest whole checkpoint lacks a part. If a part does not fit,
// throws the part's error (see Details) and tries no older checkpoint. load() checks all parts
// before it restores the first. If a check fails, load() restores nothing.
std::optional<Loaded> load(const std::string& directory, const Parts& parts,
                           Caller = Caller::here());

// --- Details ---

// The program that loads
//   - The program makes the same networks, optimizer and loader, with the same options. Options are
//     not saved. A learning rate that set_learning_rate() changed is not saved either.
//   - If a part does not fit, the error names the difference. A network throws FormatError for
//     other parameter names, and ShapeError or DTypeError for other shapes or dtypes. A Trainer
//     throws the same errors, and FormatError for another optimizer. A loader throws ValueError for
//     another number of samples, batch_size, shuffle, last_batch or seed.

// Parts
//   - If a Trainer was moved from, save() throws Error and writes no checkpoint. If an object was
//     destroyed, the behavior is undefined.

// Writing
//   - save() writes a draft under another name, flushes the files to the disk and renames the
//     draft. A reader sees a whole checkpoint or none.
//   - Then save() keeps the newest `keep` checkpoints and deletes the older ones. Damaged
//     checkpoints and folders without manifest.json count, but save() deletes no folder without
//     manifest.json.
//   - A process that is killed in save() leaves the earlier checkpoints and a hidden draft,
//     ".checkpoint-000012-HOST-PID". The next save() on that host removes the draft, unless
//     another running process has that PID.
//   - Several processes or threads may save into one folder. Savers take turns if the file system
//     has locks.

// Reading
//   - Networks are restored first, then the other parts in the given order, then random numbers and
//     choices of kernels. The program may give `parts` in any order.
//   - If restoring a part fails after the checks (out of memory), load() throws the part's error.
//     Parts that were restored earlier stay restored. The failing part may be half restored. Later
//     parts, and the random numbers, are unchanged.
//   - If a network has no shapes yet, the Trainer's states are checked against the network's state
//     in the checkpoint.
//   - A checkpoint has one value for all replicas of a parameter. If replicas differ, as in running
//     statistics of BatchNorm, the value is their mean.

// Several ranks (core/cluster.h)
//   - All ranks call save() and load(), on a folder that all of them see.
//   - Rank 0 writes while the others wait. All ranks read.
//   - A checkpoint may be loaded by another number of ranks, each with a loader of another
//     num_parts. batch_size counts all ranks and must stay the same.
//   - All ranks get rank 0's random numbers, so they draw equal numbers. For other numbers, call
//     random::seed() after load().
//   - If one rank fails, every rank throws, as in cluster::together().

}  // namespace locus::checkpoint
