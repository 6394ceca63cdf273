#include <locus/nn/block/sharded_tensor.h>

#include <algorithm>

#include <locus/core/error.h>
#include <locus/ops/view.h>

namespace locus::nn {
namespace {

PhiloxKey next_numbers() {
  const random::Sequence program(nullptr);  // not a thread's
  return random::state();
}

}  // namespace

Shape ShardedTensor::part_shape(size_t i) const {
  std::vector<int64_t> part(shape_.begin(), shape_.end());
  int64_t& length = part[static_cast<size_t>(axis_)];
  length = part_begin(length, parts(), i + 1) - part_begin(length, parts(), i);
  return Shape(part);
}

Tensor ShardedTensor::part(const Tensor& whole, size_t i) const {
  const int64_t length = whole.shape()[axis_];
  return slice_axis(whole, axis_,
                    Slice(part_begin(length, parts(), i), part_begin(length, parts(), i + 1)));
}

std::string ShardedTensor::text(size_t i) const {
  return text_of("part ", i, " of ", parts(), " along axis ", axis_, ", on ", contexts_[i]);
}

Tensor ShardedTensor::draw(size_t i, const init::Initializer& init, DType dtype) {
  const PhiloxKey now = next_numbers();
  const bool seeded = now.seed != after_.seed || now.offset < after_.offset;
  if (!drawn_.defined() || taken_[i] || seeded || *by_ != init) {
    drawn_ = init(shape_, dtype);
    after_ = next_numbers();
    by_ = init;
    taken_.assign(parts(), false);
  }
  taken_[i] = true;
  const Tensor mine = part(drawn_, i);
  if (std::ranges::find(taken_, false) == taken_.end()) drawn_ = Tensor();
  return mine;
}

}  // namespace locus::nn
