#include <locus/ops/products/term.h>

#include <span>

#include <locus/ops/elementwise/call.h>
#include <locus/ops/reduce.h>
#include <locus/ops/view.h>

namespace locus::detail {

Tensor permute(const Term& t, const Labels& labels) {
  if (t.labels == labels) return t.x;
  std::vector<int> axes;
  for (int label : labels) {
    const auto axis = std::ranges::find(t.labels, label);
    if (axis != t.labels.end()) axes.push_back(static_cast<int>(axis - t.labels.begin()));
  }
  return std::ranges::is_sorted(axes) ? t.x : transpose(t.x, std::span<const int>(axes));
}

Term sum_except(const Term& t, const Labels& kept) {
  std::vector<int> axes;
  Labels rest;
  for (size_t i = 0; i < t.labels.size(); ++i)
    if (contains(kept, t.labels[i]))
      rest.push_back(t.labels[i]);
    else
      axes.push_back(static_cast<int>(i));
  if (axes.empty()) return t;
  const ReduceOptions options{.axis = Axes(axes)};
  const DType d = t.x.dtype();
  if (d == bool_) return {any(t.x, options), rest};
  const Tensor total = sum(t.x, options);
  return {is_floating(d) ? total : as(total, d), rest};
}

}  // namespace locus::detail
