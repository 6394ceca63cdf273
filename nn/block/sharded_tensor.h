// ShardedTensor: a tensor cut along an axis into one part per context. Each part is a Parameter
// (nn/parameter.h). Internal to nn. As in split_and_load, if the length does not divide evenly, the
// first parts are one longer.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <locus/core/generator.h>
#include <locus/core/tensor.h>
#include <locus/nn/init.h>

namespace locus::nn {

// The first element of part i of n. If i == n: the end.
inline int64_t part_begin(int64_t length, size_t n, size_t i) {
  const auto parts = static_cast<int64_t>(n), at = static_cast<int64_t>(i);
  return at * (length / parts) + (at < length % parts ? at : length % parts);
}

class ShardedTensor {
 public:
  // Unknown lengths are 0.
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
  // Part i of values drawn as one tensor. The first part to ask draws for all. After
  // random::seed(), for another initializer, or if part i is taken, draws anew.
  Tensor draw(size_t i, const init::Initializer& init, DType dtype);
  void forget() { drawn_ = Tensor(); }  // the remaining parts draw anew

 private:
  Shape shape_;
  const int axis_;
  const std::vector<Context> contexts_;
  Tensor drawn_;  // while parts remain
  std::optional<init::Initializer> by_;
  PhiloxKey after_;          // the program's random state after drawing
  std::vector<bool> taken_;  // parts taken from drawn_
};

}  // namespace locus::nn
