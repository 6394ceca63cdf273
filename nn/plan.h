// Plan: which layers of a network compute on which contexts. nn/planned.h trains a network by a
// plan. A Plan is a value. As text:
//
//   plan-1                               # the version of the format
//   microbatches 8
//   schedule 1F1B
//   layers 0-3 on gpu(0), gpu(2)
//   layers 4-6 on gpu(1), gpu(3)
//
// The first line is the version. The other lines may come in any order, except that stages come in
// the network's order. A # begins a comment.
//
//   layers FIRST-LAST on CONTEXT, ...
//   layers FIRST-LAST cut over CONTEXT, ...
//   microbatches N
//   schedule 1F1B
//
// - layers: a stage, the layers FIRST to LAST of a Sequential, counted from 0. "layers 3" is one
//   layer.
// - microbatches: the number of parts of a replica's batch. Default: 1.
// - schedule: 1F1B or gpipe (nn/pipeline.h). Default: 1F1B.
//
// A plan can express four types of parallelism:
//
// - data: one stage on n contexts. Each of n replicas gets a slice of the batch; a Trainer sums
//   their gradients. With 1F1B a replica holds the activations of one microbatch at a time.
// - pipeline: several stages, each on one context, work on different microbatches at once.
// - mixed: several stages, each on n contexts, are n pipelines. Pipeline i has each stage's i-th
//   context.
// - tensor: each Dense of a cut stage has a part on every context (nn/tensor_parallel.h). Other
//   stages have one context each. There are no microbatches.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <locus/core/context.h>
#include <locus/nn/pipeline.h>

namespace locus::nn {

struct Plan {
  struct Stage {
    int first = 0, last = 0;  // layers
    std::vector<Context> contexts = {};
    bool cut = false;
    int line = 0;  // in the text; 0 if not read from a text
    std::string text() const;
  };
  std::vector<Stage> stages;
  int microbatches = 1;
  Schedule schedule = Schedule::one_f1b;
  std::string source = "Plan";  // the name in errors, such as the file's
  int microbatches_line = 0;

  // Reads a plan from text. FormatError has the name, the line and what was expected. check() tells
  // whether the plan fits a network.
  static Plan parse(std::string_view text, const std::string& name = "Plan");
  // Reads a file. FormatError also if the file cannot be read.
  static Plan load(const std::string& path);
  // Writes the text that parse() reads. save() writes the whole file or throws Error and leaves the
  // file as it was.
  std::string text() const;
  void save(const std::string& path) const;
  // Compares the text, not the source.
  friend bool operator==(const Plan& a, const Plan& b) { return a.text() == b.text(); }

  bool cut() const;
  int replicas() const;                   // 1 if a stage is cut
  std::vector<Context> contexts() const;  // each once
  // "data over 4", "2 stages, 8 microbatches, 1F1B", "2 stages over 2 replicas, ...", "cut over 2".
  std::string summary() const;

  // Throws unless a network of so many layers can be trained by this plan on this machine. Errors
  // name the line:
  //   ValueError       layers that are missing, named twice or beyond the network; a context that
  //                    is named twice (in plans with a cut: in one stage); pinned memory; stages
  //                    with different numbers of contexts; with a cut stage, several microbatches,
  //                    or another stage on several contexts
  //   DeviceError      a context that does not exist
  //   ContextMismatch  a stage on the host and on devices
  void check(int layers) const;
  // ValueError if the batch has fewer samples than replicas times microbatches.
  void check_batch(int64_t samples) const;

  std::string where(int line) const;  // "FILE:3: ", "Plan: "
};

}  // namespace locus::nn
