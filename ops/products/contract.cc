#include <locus/ops/products/contract.h>

#include <algorithm>
#include <cstdlib>
#include <optional>

#include <locus/core/amp.h>
#include <locus/core/memory/storage.h>
#include <locus/ops/call_check.h>
#include <locus/ops/compare.h>
#include <locus/ops/copy.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/elementwise/call.h>
#include <locus/ops/matmul.h>
#include <locus/ops/reduce.h>
#include <locus/ops/view.h>

namespace locus::detail {
namespace {

// Copying this many bytes takes a GPU about as long as a launch.
constexpr double kLaunchBytes = 6e6;
// The least results of a product worth a place in a batch of its own.
constexpr int64_t kLeastResults = 1024;

struct Axis {
  int64_t length = 1, stride = 0;
};

Axis axis_for(const Term& t, int label) {
  const auto at = std::ranges::find(t.labels, label);
  if (at == t.labels.end()) return {};
  const View& v = t.x.impl().view;
  const auto i = at - t.labels.begin();
  return {v.meta.shape[i], v.stride[i]};
}
int64_t length_of(const Term& t, int label) { return axis_for(t, label).length; }
int64_t elements_of(const Term& t, const Labels& labels) {
  int64_t size = 1;
  for (int label : labels) size *= length_of(t, label);
  return size;
}

// Whether the axes are one axis in memory.
bool joins(const Term& t, const Labels& labels) {
  std::optional<int64_t> stride;
  for (size_t i = labels.size(); i-- > 0;) {
    const Axis axis = axis_for(t, labels[i]);
    if (axis.length == 0) return true;
    if (axis.length == 1) continue;
    if (stride && axis.stride != *stride) return false;
    stride = axis.stride * axis.length;
  }
  return true;
}

// The labels by falling strides.
Labels by_stride(const Term& t, Labels labels) {
  std::ranges::stable_sort(labels, std::ranges::greater(), [&](int label) {
    const Axis axis = axis_for(t, label);
    return axis.length == 1 ? INT64_MAX : std::abs(axis.stride);
  });
  return labels;
}
void order_free(const Term& t, Labels& labels) {
  if (joins(t, labels)) return;
  const Labels sorted = by_stride(t, labels);
  if (joins(t, sorted)) labels = sorted;
}
// In an order that spares both terms a copy, or else the larger one.
void order_summed(const Term& a, const Term& b, Labels& labels) {
  const Labels of_a = by_stride(a, labels), of_b = by_stride(b, labels);
  const bool larger = a.x.size() >= b.x.size();
  const Labels &first = larger ? of_a : of_b, &second = larger ? of_b : of_a;
  const bool second_fits = joins(a, second) && joins(b, second);
  labels = second_fits && !(joins(a, first) && joins(b, first)) ? second : first;
}

// The front of `labels`, which then begins with an axis of its own, so that the rest joins.
Labels take_front(const Term& t, Labels& labels, int64_t others) {
  if (labels.size() < 2 || joins(t, labels)) return {};
  const Labels sorted = by_stride(t, labels), rest(sorted.begin() + 1, sorted.end());
  if (!joins(t, rest) || elements_of(t, rest) * others < kLeastResults) return {};
  labels = rest;
  return {sorted[0]};
}

// An operand of matmul: an axis for each group of labels, then one for the rows and one for the
// columns. Labels that the term lacks have length 1. Copies what does not join.
Tensor stacked(const Term& t, const std::vector<Labels>& batch, const Labels& rows,
               const Labels& columns) {
  bool copies = !joins(t, rows) || !joins(t, columns);
  for (const Labels& group : batch) copies = copies || !joins(t, group);
  // A copy reads contiguous memory if the last axis stays the last.
  const Labels by = by_stride(t, t.labels);
  const bool turned = copies && !by.empty() && has(rows, by.back());
  Labels order;
  std::vector<int64_t> lengths;
  const auto add = [&](const Labels& group) {
    for (int label : group)
      if (has(t.labels, label)) order.push_back(label);
    lengths.push_back(elements_of(t, group));
  };
  for (const Labels& group : batch) add(group);
  add(turned ? columns : rows);
  add(turned ? rows : columns);
  const Tensor x = reshape_exact(arranged(t, order), Shape(lengths));
  return turned ? swapaxes(x, -2, -1) : x;
}

// The launches of a product of two stacks on a GPU: one for the innermost axis of the batch.
double launches(const Term& a, const Term& b, const Labels& batch) {
  double together = 1, all = 1;
  bool joined = true;
  Axis inner_a, inner_b;
  for (size_t i = batch.size(); i-- > 0;) {
    const Axis x = axis_for(a, batch[i]), y = axis_for(b, batch[i]);
    if (x.length <= 1) continue;
    all *= static_cast<double>(x.length);
    joined = joined && (together == 1 || (x.stride == inner_a.stride * inner_a.length &&
                                          y.stride == inner_b.stride * inner_b.length));
    if (joined) together *= static_cast<double>(x.length);
    inner_a = x;
    inner_b = y;
  }
  return all / together;
}

// Copies terms whose batch is no single axis in memory, if that takes less time than the launches
// that it saves.
void join_batches(Term& a, Term& b, const Labels& batch) {
  double copies = 0;
  for (const Term* t : {&a, &b})
    if (!joins(*t, batch))
      copies += 1 + static_cast<double>(bytes_of(t->x.impl().view.meta)) / kLaunchBytes;
  if (launches(a, b, batch) - 1 <= copies) return;
  for (Term* t : {&a, &b}) {
    if (joins(*t, batch)) continue;
    Labels order = batch;
    for (int label : by_stride(*t, t->labels))
      if (!has(batch, label)) order.push_back(label);
    *t = {contiguous(arranged(*t, order)), order};
  }
}

// x with an axis of length 1 for each of `labels` that the term lacks.
Tensor spread(const Term& t, const Labels& labels) {
  Labels order;
  std::vector<int64_t> lengths;
  for (int label : labels) {
    lengths.push_back(length_of(t, label));
    if (has(t.labels, label)) order.push_back(label);
  }
  return reshape_exact(arranged(t, order), Shape(lengths));
}

}  // namespace

Tensor arranged(const Term& t, const Labels& labels) {
  if (t.labels == labels) return t.x;
  std::vector<int> axes;
  for (int label : labels)
    axes.push_back(static_cast<int>(std::ranges::find(t.labels, label) - t.labels.begin()));
  return transpose(t.x, std::span<const int>(axes));
}

Term summed(const Term& t, const Labels& kept) {
  std::vector<int> axes;
  Labels rest;
  for (size_t i = 0; i < t.labels.size(); ++i)
    if (has(kept, t.labels[i]))
      rest.push_back(t.labels[i]);
    else
      axes.push_back(static_cast<int>(i));
  if (axes.empty()) return t;
  const ReduceOptions over{.axis = Axes(axes)};
  const DType d = t.x.dtype();
  if (d == bool_) return {any(t.x, over), rest};
  const Tensor sum_of = sum(t.x, over);
  return {is_floating(d) ? sum_of : as(sum_of, d), rest};
}

Tensor matrix_product(const Tensor& a, const Tensor& b) {
  if (amp::narrows({&a, &b})) [[unlikely]]
    return matmul(amp::narrow(a), amp::narrow(b), MatmulAttrs{});
  if (a.dtype() != bool_) return matmul(a, b, MatmulAttrs{});
  // A count of pairs is 0 only if there are none, however f32 rounds it.
  return matmul(a.astype(f32), b.astype(f32), MatmulAttrs{}) != 0;
}

Term contract(Term a, Term b, const Labels& kept) {
  Labels batch, sums, rows, columns, result;
  for (int label : kept) {
    const bool in_a = has(a.labels, label), in_b = has(b.labels, label);
    if (in_a || in_b) result.push_back(label);
    if (in_a && in_b)
      batch.push_back(label);
    else if (in_a)
      rows.push_back(label);
    else if (in_b)
      columns.push_back(label);
  }
  for (int label : a.labels)
    if (!has(kept, label)) sums.push_back(label);
  if (sums.empty()) return {spread(a, result) * spread(b, result), result};
  // The last axis of the result runs along the columns of the product.
  if (!columns.empty() && has(rows, result.back())) {
    std::swap(a, b);
    std::swap(rows, columns);
  }
  const bool host = is_host(a.x.context());
  if (!host) join_batches(a, b, batch);
  order_free(a, rows);
  order_free(b, columns);
  order_summed(a, b, sums);
  std::vector<Labels> groups;
  if (batch.size() > kMaxRank - 2)
    groups.push_back(batch);
  else
    for (int label : batch) groups.push_back({label});
  Labels order = batch;
  // Rows that do not join are a batch, along which b repeats, and columns likewise.
  if (batch.size() <= kMaxRank - 4 && (host || batch.empty())) {
    const Labels apart = take_front(a, rows, elements_of(b, columns));
    Labels apart_b;
    if (host || apart.empty()) apart_b = take_front(b, columns, elements_of(a, rows));
    for (const Labels& front : {apart, apart_b}) {
      if (front.empty()) continue;
      groups.push_back(front);
      order.push_back(front[0]);
    }
  }
  std::vector<int64_t> lengths;
  order.insert(order.end(), rows.begin(), rows.end());
  order.insert(order.end(), columns.begin(), columns.end());
  for (int label : order) lengths.push_back(length_of(has(a.labels, label) ? a : b, label));
  const Tensor c =
      matrix_product(stacked(a, groups, rows, sums), stacked(b, groups, sums, columns));
  return {arranged({reshape_exact(c, Shape(lengths)), order}, result), result};
}

std::pair<Tensor, Tensor> promoted(const char* op, const Tensor& a, const Tensor& b) {
  expect_tensor(op, a, "a");
  expect_tensor(op, b, "b");
  expect_together(op, "a", a, "b", b);
  const DType d = promote(a.dtype(), b.dtype());
  return {as(a, d), as(b, d)};
}

}  // namespace locus::detail
