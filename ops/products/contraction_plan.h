// How a product of two terms, summed over labels, becomes one call of multiply or matmul. Internal
// to ops/products.
//
// matmul takes each operand as (batch..., rows, columns). One axis of a matmul operand joins one or
// more labels of a term. If the joined labels are one axis in memory, the operand is a view of the
// term, else a copy. The plan chooses the order of joined labels and the batch that save copies and
// launches. It reads lengths and strides only.
#pragma once

#include <cstdint>
#include <vector>

#include <locus/ops/products/term.h>

namespace locus::detail {

// The lengths and strides of a term's axes.
class AxisLayout {
 public:
  explicit AxisLayout(const Term& t);

  const Labels& labels() const { return labels_; }
  int64_t length(int label) const { return axis(label).length; }  // 1 if the term lacks the label
  int64_t size(const Labels& labels) const;                       // the product of their lengths
  double bytes() const { return bytes_; }

  // Whether a view can join these labels, in this order, to one axis.
  bool is_one_axis(const Labels& labels) const;
  // The labels by falling strides.
  Labels sort_by_stride(Labels labels) const;
  // The layout of a row-major copy whose axes have this order.
  AxisLayout pack(const Labels& order) const;

 private:
  struct Axis {
    int64_t length = 1, stride = 0;
  };
  Axis axis(int label) const;

  Labels labels_;
  Axis axes_[kMaxRank];
  double bytes_;
};

enum class ProductKernel : uint8_t {
  multiply,  // a broadcast product of elements
  matmul,    // with sums; of two vectors, (1, k) by (k, 1)
};

// How matmul reads a term.
struct OperandPlan {
  Labels packed;            // if not empty, a row-major copy in this order replaces the term first
  bool transposed = false;  // the operand is the transpose of (batch..., columns, rows)
};

struct ContractionPlan {
  ProductKernel kernel = ProductKernel::multiply;
  Labels result;  // the labels of the result, in order

  // For matmul: left (batch..., rows, summed) by right (batch..., summed, columns).
  bool swapped = false;       // the left operand is b
  std::vector<Labels> batch;  // the labels of each batch axis; an operand may lack some of them
  Labels rows, columns, summed;
  OperandPlan left, right;
};

// The plan for terms a and b, summed over the labels that are not in `kept`. Such labels are in
// both terms. Equal labels have equal lengths. `host`: the terms live on a CPU.
ContractionPlan plan_contraction(AxisLayout a, AxisLayout b, const Labels& kept, bool host);

}  // namespace locus::detail
