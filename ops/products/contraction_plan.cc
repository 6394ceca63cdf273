#include <locus/ops/products/contraction_plan.h>

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <initializer_list>
#include <optional>
#include <utility>

#include <locus/core/memory/storage.h>

namespace locus::detail {

AxisLayout::AxisLayout(const Term& t)
    : labels_(t.labels), bytes_(static_cast<double>(bytes_of(t.x.impl().view.meta))) {
  const View& v = t.x.impl().view;
  for (size_t i = 0; i < labels_.size(); ++i) axes_[i] = {v.meta.shape[i], v.stride[i]};
}

AxisLayout::Axis AxisLayout::axis(int label) const {
  const auto i = std::ranges::find(labels_, label) - labels_.begin();
  return i == std::ssize(labels_) ? Axis() : axes_[i];
}

int64_t AxisLayout::size(const Labels& labels) const {
  int64_t size = 1;
  for (int label : labels) size *= length(label);
  return size;
}

bool AxisLayout::is_one_axis(const Labels& labels) const {
  std::optional<int64_t> stride;
  for (size_t i = labels.size(); i-- > 0;) {
    const Axis one = axis(labels[i]);
    if (one.length == 0) return true;
    if (one.length == 1) continue;
    if (stride && one.stride != *stride) return false;
    stride = one.stride * one.length;
  }
  return true;
}

Labels AxisLayout::sort_by_stride(Labels labels) const {
  if (labels.size() < 2) return labels;
  std::ranges::stable_sort(labels, std::ranges::greater(), [&](int label) {
    const Axis one = axis(label);
    return one.length == 1 ? INT64_MAX : std::abs(one.stride);
  });
  return labels;
}

AxisLayout AxisLayout::pack(const Labels& order) const {
  AxisLayout packed = *this;
  packed.labels_ = order;
  int64_t stride = 1;
  for (size_t i = order.size(); i-- > 0;) {
    packed.axes_[i] = {length(order[i]), stride};
    stride *= length(order[i]);
  }
  return packed;
}

namespace {

// A GPU copies this many bytes in about the time of a launch.
constexpr double kLaunchBytes = 6e6;
// Labels move to the batch only if each matrix of the batch keeps at least this many results.
// Smaller products are not worth a call of gemm.
constexpr int64_t kMinResults = 1024;

// The launches of a batched product on a GPU. One launch takes the innermost batch labels that are
// one axis in both operands.
double count_launches(const AxisLayout& a, const AxisLayout& b, const Labels& batch) {
  Labels outer, inner = batch;
  while (!a.is_one_axis(inner) || !b.is_one_axis(inner)) {
    outer.push_back(inner.front());
    inner.erase(inner.begin());
  }
  return static_cast<double>(a.size(outer));
}

// Packs the operands whose batch is not one axis, if the copies take less time than the launches
// that they save.
void pack_batches(AxisLayout& a, AxisLayout& b, const Labels& batch, ContractionPlan& plan) {
  const auto copy_time = [&](const AxisLayout& x) {  // in launches
    return x.is_one_axis(batch) ? 0 : 1 + x.bytes() / kLaunchBytes;
  };
  if (count_launches(a, b, batch) - 1 <= copy_time(a) + copy_time(b)) return;
  const auto pack = [&](AxisLayout& x, OperandPlan& operand) {
    if (x.is_one_axis(batch)) return;
    operand.packed = batch;
    for (int label : x.sort_by_stride(x.labels()))
      if (!contains(batch, label)) operand.packed.push_back(label);
    x = x.pack(operand.packed);
  };
  pack(a, plan.left);
  pack(b, plan.right);
}

// The first order that is one axis in every operand, else the first order.
Labels choose_order(std::initializer_list<Labels> orders,
                    std::initializer_list<std::reference_wrapper<const AxisLayout>> operands) {
  for (const Labels& order : orders)
    if (std::ranges::all_of(operands, [&](const AxisLayout& x) { return x.is_one_axis(order); }))
      return order;
  return *orders.begin();
}

// Moves the outermost of the labels `joined` to the batch if only this label keeps them from being
// one axis of x, and if the products stay large enough. Returns whether it did. The other operand
// repeats along the new batch axis. `joined` are the rows or the columns of the results, and
// `others` is the length of the results' other axis.
bool move_outer_to_batch(const AxisLayout& x, Labels& joined, int64_t others,
                         ContractionPlan& plan) {
  if (joined.size() < 2 || x.is_one_axis(joined)) return false;
  const Labels sorted = x.sort_by_stride(joined), inner(sorted.begin() + 1, sorted.end());
  if (!x.is_one_axis(inner) || x.size(inner) * others < kMinResults) return false;
  joined = inner;
  plan.batch.push_back({sorted[0]});
  return true;
}

// Whether matmul's operand is a copy of x, and x's innermost axis in memory belongs to the rows.
// The copy then has the rows last, so that it reads contiguous memory.
bool copies_transposed(const AxisLayout& x, const std::vector<Labels>& batch, const Labels& rows,
                       const Labels& columns) {
  const auto is_one_axis = [&](const Labels& labels) { return x.is_one_axis(labels); };
  if (is_one_axis(rows) && is_one_axis(columns) && std::ranges::all_of(batch, is_one_axis))
    return false;
  const Labels sorted = x.sort_by_stride(x.labels());
  return !sorted.empty() && contains(rows, sorted.back());
}

}  // namespace

ContractionPlan plan_contraction(AxisLayout a, AxisLayout b, const Labels& kept, bool host) {
  ContractionPlan plan;
  Labels batch, &rows = plan.rows, &columns = plan.columns, &summed = plan.summed;
  for (int label : kept) {
    const bool in_a = contains(a.labels(), label), in_b = contains(b.labels(), label);
    if (in_a || in_b) plan.result.push_back(label);
    if (in_a && in_b)
      batch.push_back(label);
    else if (in_a)
      rows.push_back(label);
    else if (in_b)
      columns.push_back(label);
  }
  for (int label : a.labels())
    if (!contains(kept, label)) summed.push_back(label);
  if (summed.empty()) return plan;
  plan.kernel = ProductKernel::matmul;

  // matmul's last axis runs along the columns: the last axis of the result becomes one of them.
  plan.swapped = !columns.empty() && contains(rows, plan.result.back());
  if (plan.swapped) {
    std::swap(a, b);
    std::swap(rows, columns);
  }
  if (!host) pack_batches(a, b, batch, plan);

  rows = choose_order({rows, a.sort_by_stride(rows)}, {a});
  columns = choose_order({columns, b.sort_by_stride(columns)}, {b});
  const bool a_larger = a.size(a.labels()) >= b.size(b.labels());
  const AxisLayout &larger = a_larger ? a : b, &smaller = a_larger ? b : a;
  summed = choose_order({larger.sort_by_stride(summed), smaller.sort_by_stride(summed)}, {a, b});

  if (batch.size() > kMaxRank - 2)
    plan.batch = {batch};
  else
    for (int label : batch) plan.batch.push_back({label});
  if (batch.size() <= kMaxRank - 4 && (host || batch.empty())) {
    // A GPU launches once for each entry of a second batch axis, so only one label moves there.
    const bool moved = move_outer_to_batch(a, rows, b.size(columns), plan);
    if (host || !moved) move_outer_to_batch(b, columns, a.size(rows), plan);
  }
  plan.left.transposed = copies_transposed(a, plan.batch, rows, summed);
  plan.right.transposed = copies_transposed(b, plan.batch, summed, columns);
  return plan;
}

}  // namespace locus::detail
