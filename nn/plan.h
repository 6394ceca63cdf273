// Plan: which layers of a network compute where. A small text that people and programs write:
//
//   plan-1                               # the form's version
//   microbatches 8
//   schedule 1F1B
//   layers 0-3 on gpu(0), gpu(2)
//   layers 4-6 on gpu(1), gpu(3)
//
// The first word is plan-1. Below it stand, one a line:
//   layers FIRST-LAST on CONTEXT, ...          a stage: these layers of a Sequential, both
//                                              included, counted from 0 ("layers 3" is one);
//   layers FIRST-LAST cut over CONTEXT, ...    stages in order
//   microbatches N                             into which a replica's batch is cut, up to 1048576;
//                                              1 unless said
//   schedule 1F1B                              or gpipe (nn/pipeline.h); 1F1B unless said
// and a # begins a comment. Four kinds of plan come of it:
//   data      one stage on n contexts: n replicas, each with its slice of the batch, whose
//             gradients are summed; on one context it is the network as it is, and several
//             microbatches hold the activations of one alone
//   pipeline  several stages on a context each, which work on different microbatches at once
//   mixed     several stages on n contexts each: n pipelines, the i-th on the i-th contexts
//   tensor    stages that are cut: each of their Dense layers has a part on every context
//             (nn/tensor_parallel.h); other stages are on one context, and nothing is in
//             microbatches
// nn/planned.h trains a network so.
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
    int line = 0;  // of the text that it was read from; 0: of none
    std::string text() const;
  };
  std::vector<Stage> stages;
  int microbatches = 1;
  Schedule schedule = Schedule::one_f1b;
  std::string source = "Plan";  // what errors call it: the name of its file
  int microbatches_line = 0;

  // FormatError with name, line and what was expected. A plan may still not fit a network: check().
  static Plan parse(std::string_view text, const std::string& name = "Plan");
  // A file; FormatError also where it cannot be read.
  static Plan load(const std::string& path);
  // What parse() reads, and in a file: whole or not at all, else Error.
  std::string text() const;
  void save(const std::string& path) const;
  // The text alone counts, not where it came from.
  friend bool operator==(const Plan& a, const Plan& b) { return a.text() == b.text(); }

  bool cut() const;
  int replicas() const;                   // 1 of a plan that is cut
  std::vector<Context> contexts() const;  // each once
  // "data over 4", "2 stages, 8 microbatches, 1F1B", "2 stages over 2 replicas, ...", "cut over 2".
  std::string summary() const;

  // Unless a network of so many layers can be trained so, here. ValueError for layers that are
  // missing, named twice or beyond the network, for contexts that are named twice, are not as many
  // in every stage, or do not go with a cut; DeviceError for a context that is not there;
  // ContextMismatch for a stage on the host and on devices. They name the line.
  void check(int layers) const;
  // ValueError for a batch that does not give each microbatch of each replica a sample.
  void check_batch(int64_t samples) const;

  std::string where(int line) const;  // "FILE:3: ", "Plan: "
};

}  // namespace locus::nn
