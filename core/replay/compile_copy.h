// Copies between tensors of the program and memory of a recording. Internal to compile.cc.
#pragma once

#include <span>
#include <vector>

#include <locus/core/memory/storage.h>
#include <locus/core/tensor.h>

namespace locus::compiled {

// A new tensor like each of these. Dense strides are kept; others become row-major.
Tensors new_like(const Tensors& tensors);
// A new tensor with the strides of x, dense or not: sums over both round equally.
Tensor same_strides(const Tensor& x);

// Copies tensors to others of the same shape, dtype and context. One launch per context copies all
// pairs that are dense in one layout; every other pair takes one launch. Copies are neither
// recorded nor in a graph. Nothing is checked: targets must not overlap.
class Copies {
 public:
  explicit Copies(size_t pairs) { pairs_.reserve(pairs); }
  // Both tensors must live until run(). Call run() once.
  void add(const Tensor& from, const Tensor& to);
  void run();

 private:
  struct Pair {
    Context context;
    View from, to;
    Storage *read, *written;
  };
  static void launch(std::span<const Pair> pairs);

  std::vector<Pair> pairs_;
};
void copy_all(const Tensors& from, const Tensors& to);  // from[i] to to[i]

}  // namespace locus::compiled
