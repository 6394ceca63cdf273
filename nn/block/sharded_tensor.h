// Whole: a tensor that is cut along an axis into a part for each of some contexts, each of which is
// a Parameter there (nn/parameter.h). Internal to nn.
//
// As in split_and_load, where the length does not divide evenly the first parts are one longer.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <locus/core/generator.h>
#include <locus/core/tensor.h>
#include <locus/nn/init.h>

namespace locus::nn {

// Where part i of n begins; of n of them, the end.
inline int64_t part_begin(int64_t length, size_t n, size_t i) {
  const auto parts = static_cast<int64_t>(n), at = static_cast<int64_t>(i);
  return at * (length / parts) + (at < length % parts ? at : length % parts);
}

class ShardedTensor {
 public:
  // Lengths that are not known yet are 0.
  ShardedTensor(const Shape& shape, int axis, const Contexts& contexts)
      : shape_(shape), axis_(axis), contexts_(contexts.list()) {}

  const Shape& shape() const { return shape_; }
  void complete(const Shape& shape) { shape_ = shape; }
  int axis() const { return axis_; }
  size_t parts() const { return contexts_.size(); }
  Context context(size_t i) const { return contexts_[i]; }
  Shape part_shape(size_t i) const;
  Tensor part(const Tensor& whole, size_t i) const;  // a view
  std::string text(size_t i) const;                  // "part 0 of 2 along axis 1, on gpu(0)"
  // Part i of values that are drawn as one tensor: once for all parts of one initializer, whichever
  // asks first, and anew for those that ask after random::seed().
  Tensor draw(size_t i, const init::Initializer& init, DType dtype);
  void forget() { drawn_ = Tensor(); }  // what is drawn for parts to come is not for them

 private:
  Shape shape_;
  const int axis_;
  const std::vector<Context> contexts_;
  Tensor drawn_;  // while parts are to come
  std::optional<init::Initializer> by_;
  PhiloxKey after_;          // the program's numbers, when drawn_ was drawn
  std::vector<bool> taken_;  // of drawn_
};

}  // namespace locus::nn
