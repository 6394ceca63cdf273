// What the command line of train_mlp says.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace train_mlp {

struct Options {
  std::string context = "best";
  std::string data;  // empty: data/mnist when it is there, else drawn digits
  int epochs = 5;
  int64_t batch_size = 64;
  double lr = 0.1, momentum = 0.9;
  std::string schedule = "cosine";
  uint64_t seed = 7;
  bool compile = false, describe = false;
  std::string dot, graph;  // empty: none
  std::vector<int64_t> hidden = {256, 128};
  std::string out;   // empty: no files
  std::string save;  // empty: no checkpoints
};

// Prints help or what is wrong and exits when the arguments say so.
Options parse_options(int argc, char** argv);

}  // namespace train_mlp
