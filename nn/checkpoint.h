// Checkpoints: the whole state of a training run on disk, so that it can stop, or be stopped, at
// any moment and go on as if it had not.
//
//   checkpoint::save("run", {net, trainer, loader});              // after some steps
//   if (checkpoint::load("run", {net, trainer, loader})) ...      // in another process
//
// A checkpoint is a folder "run/checkpoint-000012" with a file for each part, in MXNet's .params
// format (core/io.h), and manifest.json with the size and CRC-32 of each. It is written under
// another name, flushed to the disk and renamed: a reader sees it whole or not at all, and whoever
// is killed while writing leaves the ones before, and a hidden draft,
// ".checkpoint-000012-HOST-PID": the next save() on that host removes it. Several may save into one
// folder: they take turns. The state of random numbers is always a part, and so are the ways of
// computing that were measured (core/tuning.h), where some were.
//
// load() takes the newest checkpoint that is whole. Every part is checked before any is touched,
// in whichever order they are given: a Trainer's states, where shapes are not known yet, by those
// that its network has in the checkpoint. Networks are restored first. Of replicas one value is
// kept: what differs among them, as the running statistics of a BatchNorm that is not synchronised,
// is their mean afterwards (nn/block.h).
//
// Of several ranks (core/cluster.h), which all call save() and load(), rank 0 writes while the
// others wait, and all read: the folder is one that all see. As many ranks as one likes go on from
// it, with the same batch_size of all together, and with rank 0's random numbers: ranks that are to
// draw others call random::seed() behind load(). What fails on one rank is thrown on all.
//
// Restoring needs the same program: networks with the same parameters, the same optimizer, a loader
// of the same data. A part whose state another program or model wrote is refused with what differs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <locus/nn/checkpoint_part.h>

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

}  // namespace locus::checkpoint
