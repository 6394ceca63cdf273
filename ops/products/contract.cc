#include <locus/ops/products/contract.h>

#include <locus/core/amp.h>
#include <locus/ops/compare.h>
#include <locus/ops/copy.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/elementwise/call.h>
#include <locus/ops/matmul.h>
#include <locus/ops/products/contraction_plan.h>
#include <locus/ops/view.h>

namespace locus::detail {
namespace {

int64_t length_of(const Term& t, int label) {
  const auto i = std::ranges::find(t.labels, label) - t.labels.begin();
  return i == std::ssize(t.labels) ? 1 : t.x.shape()[static_cast<int>(i)];
}

// A row-major copy of the term, whose axes have this order.
Term pack(const Term& t, const Labels& order) { return {contiguous(permute(t, order)), order}; }

// A view of the term with one axis for each of `labels`. Labels that it lacks have length 1.
Tensor align_axes(const Term& t, const Labels& labels) {
  std::vector<int64_t> lengths;
  for (int label : labels) lengths.push_back(length_of(t, label));
  return reshape_exact(permute(t, labels), Shape(lengths));
}

// The operand (batch..., rows, columns) of matmul. Labels that the term lacks have length 1.
Tensor stack_matrices(const Term& t, const OperandPlan& plan, const std::vector<Labels>& batch,
                      const Labels& rows, const Labels& columns) {
  Labels order;
  std::vector<int64_t> lengths;
  const auto join = [&](const Labels& labels) {
    append(order, labels);
    lengths.push_back(1);
    for (int label : labels) lengths.back() *= length_of(t, label);
  };
  for (const Labels& axis : batch) join(axis);
  join(plan.transposed ? columns : rows);
  join(plan.transposed ? rows : columns);
  const Tensor view =
      plan.packed.empty() ? permute(t, order) : permute(pack(t, plan.packed), order);
  const Tensor x = reshape_exact(view, Shape(lengths));
  return plan.transposed ? swapaxes(x, -2, -1) : x;
}

Tensor execute(const ContractionPlan& plan, const Term& a, const Term& b) {
  if (plan.kernel == ProductKernel::multiply)
    return align_axes(a, plan.result) * align_axes(b, plan.result);
  const Term &left = plan.swapped ? b : a, &right = plan.swapped ? a : b;
  const Tensor product =
      multiply_matrices(stack_matrices(left, plan.left, plan.batch, plan.rows, plan.summed),
                        stack_matrices(right, plan.right, plan.batch, plan.summed, plan.columns));
  Labels order;
  for (const Labels& axis : plan.batch) append(order, axis);
  append(order, plan.rows);
  append(order, plan.columns);
  std::vector<int64_t> lengths;
  for (int label : order) lengths.push_back(length_of(contains(a.labels, label) ? a : b, label));
  return permute({reshape_exact(product, Shape(lengths)), order}, plan.result);
}

}  // namespace

Tensor multiply_matrices(const Tensor& a, const Tensor& b) {
  if (amp::narrows({&a, &b})) [[unlikely]]
    return multiply_matrices(amp::narrow(a), amp::narrow(b));
  const DType d = promote(a.dtype(), b.dtype());
  if (d != bool_) return matmul(as(a, d), as(b, d), MatmulAttrs{});
  // `or` of the pairs is whether their count is not 0. f32 rounds no other count to 0.
  return matmul(a.astype(f32), b.astype(f32), MatmulAttrs{}) != 0;
}

Term contract(const Term& a, const Term& b, const Labels& kept) {
  const ContractionPlan plan =
      plan_contraction(AxisLayout(a), AxisLayout(b), kept, is_host(a.x.context()));
  return {execute(plan, a, b), plan.result};
}

}  // namespace locus::detail
