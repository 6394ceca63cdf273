#include <locus/ops/jit/loop_arguments.h>

#include <algorithm>

#include <locus/core/dtype.h>
#include <locus/ops/kernel/walk.h>

namespace locus::jit {

LoopArguments::LoopArguments(const Meta& shape, std::span<const View* const> arrays, LoopAxes axes)
    : shape_(shape), n_(shape.size()), in_order_(axes != LoopAxes::all) {
  for (const View* v : arrays) {
    arrays_[n_arrays_++] = v;
    in_order_ = in_order_ && same_shape(v->meta, shape_) && v->contiguous();
  }
  if (axes == LoopAxes::all)
    keep_axes();
  else if (!in_order_)
    walk(axes == LoopAxes::ordered);
}

bool LoopArguments::in_place() const {
  return (in_order_ || std::all_of(dense_, dense_ + n_arrays_, [](bool d) { return d; })) &&
         std::none_of(arrays_, arrays_ + n_arrays_,
                      [](const View* v) { return v->meta.dtype == f16 || v->meta.dtype == bf16; });
}

void LoopArguments::fill_flat(int pack) {
  add(n_);
  add(int64_t{std::all_of(arrays_, arrays_ + n_arrays_, [&](const View* v) {
    const auto bytes = static_cast<uintptr_t>(size_of(v->meta.dtype) * pack);
    return in_order_ && reinterpret_cast<uintptr_t>(v->data) % bytes == 0;
  })});
  for (int k = 0; k < n_arrays_; ++k) add(Line{arrays_[k]->data, in_order_ ? 1 : stride_[k][0]});
}

void LoopArguments::fill() {
  if (in_order_) one_dense_axis();
  add(loop_);
  for (int k = 0; k < n_arrays_; ++k) {
    Array a;
    a.data = arrays_[k]->data;
    a.dense = dense_[k];
    std::copy(stride_[k], stride_[k] + loop_.rank, a.stride);
    add(a);
  }
}

void LoopArguments::one_dense_axis() {
  set_axes(loop_, n_, 1, &n_);
  for (int k = 0; k < n_arrays_; ++k) {
    stride_[k][0] = 1;
    dense_[k] = true;
  }
}

void LoopArguments::keep_axes() {
  const int64_t one = 1;
  set_axes(loop_, n_, std::max<int>(shape_.rank, 1), shape_.rank == 0 ? &one : shape_.shape);
  for (int k = 0; k < n_arrays_; ++k) {
    dense_[k] = same_shape(arrays_[k]->meta, shape_) && arrays_[k]->contiguous();
    stride_[k][0] = 0;
    for (int a = 0; a < shape_.rank; ++a) stride_[k][a] = stride(k, a);
  }
}

// Finds the loop's axes, and sets in_order_ if they merge into one that all arrays walk densely.
void LoopArguments::walk(bool ordered) {
  // Outputs are last, in the places whose strides sort the axes.
  Walk<kMost> w;
  const int first = kMost - n_arrays_;
  for (int a = 0; a < shape_.rank; ++a) {
    int64_t strides[kMost] = {};
    for (int k = 0; k < n_arrays_; ++k) strides[first + k] = stride(k, a);
    w.add(shape_.shape[a], strides);
  }
  if (!ordered) w.sort();
  w.tidy();
  set_axes(loop_, n_, w.rank, w.shape);
  in_order_ = true;
  for (int k = 0; k < n_arrays_; ++k) {
    std::copy(w.stride[first + k], w.stride[first + k] + w.rank, stride_[k]);
    dense_[k] = n_ == 1 || w.dense(first + k);
    in_order_ = in_order_ && dense_[k];
  }
}

}  // namespace locus::jit
