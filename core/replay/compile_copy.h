// Copies between tensors of the program and memory of a recording. Internal to compile.cc.
#pragma once

#include <span>
#include <vector>

#include <locus/core/memory/storage.h>
#include <locus/core/tensor.h>

namespace locus::compiled {

// New memory for a tensor like each of these. Dense strides are kept; others become row-major.
Tensors new_like(const Tensors& tensors);
// New memory for a tensor with the strides of x, whatever they are: sums over both are rounded
// alike.
Tensor same_strides(const Tensor& x);

// Copies of one tensor to another of the same shape, dtype and context. All pairs of one context
// that are dense in one layout take one launch; each other pair takes a launch of its own. The
// copies are neither recorded nor in a graph. Nothing is checked: targets must lie apart.
class Copies {
 public:
  explicit Copies(size_t pairs) { pairs_.reserve(pairs); }
  // Both tensors must live until run(), which is called once.
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
