// The arguments of a generated loop over elements. Internal to ops.
#pragma once

#include <span>

#include <locus/ops/jit/arguments.h>

namespace locus::jit {

// Which axes the loop has: `any` order of the shape's, merged; the same order, merged; all of them.
enum class LoopAxes : uint8_t { any, ordered, all };

// Borrows its shape and views. What follows the arrays is the caller's: add().
class LoopArguments : public ArgumentBytes {
 public:
  // The arrays broadcast to `shape`. Outputs are last.
  LoopArguments(const Meta& shape, std::span<const View* const> arrays, LoopAxes axes);

  bool one_axis() const { return loop_.rank == 1; }
  // Whether the CPU's loop reads and writes all arrays in place.
  bool in_place() const;

  // For a loop over one axis: its length, whether all arrays may be read in packs of so many
  // elements, and the arrays as Lines.
  void fill_flat(int pack);
  void fill();  // the loop, and the arrays as Arrays

 private:
  void one_dense_axis();
  int64_t stride(int k, int a) const { return stride_along(*arrays_[k], shape_, a); }
  void keep_axes();
  void walk(bool ordered);

  const Meta& shape_;
  const int64_t n_;
  // Filled up to n_arrays_ and the loop's rank.
  const View* arrays_[kMost];
  bool dense_[kMost];
  int64_t stride_[kMost][kAxes];
  int n_arrays_ = 0;
  bool in_order_;  // element i of each array lies at data + i
  Loop loop_;
};

}  // namespace locus::jit
