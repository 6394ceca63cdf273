#include <algorithm>
#include <numeric>

#include <locus/ops/order/order_kernel.h>
#include "tests/references/reference.h"

namespace locus::test {
namespace {

using Row = std::vector<Real>;
using Ids = std::vector<size_t>;

// NaN last. In a descending order, too.
bool before(Real a, Real b, bool descending) {
  if (std::isnan(a) || std::isnan(b)) return !std::isnan(a);
  return descending ? a > b : a < b;
}
Ids sorted_ids(const Row& row, bool descending) {
  Ids ids(row.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::ranges::stable_sort(ids, [&](size_t a, size_t b) {
    return (std::isnan(row[a]) && std::isnan(row[b])) ? false : before(row[a], row[b], descending);
  });
  return ids;
}
// By the number of kth elements below or at an element.
Ids parted_ids(const Row& row, const PartitionAttrs& a) {
  const Ids order = sorted_ids(row, false);
  Row side(row.size());
  for (size_t i = 0; i < row.size(); ++i)
    for (int t = 0; t < a.n; ++t) {
      const Real pivot = row[order[static_cast<size_t>(a.kth[t])]];
      const bool less = before(row[i], pivot, false) && !std::isnan(row[i]);
      const bool more = before(pivot, row[i], false) && !std::isnan(pivot);
      side[i] += less ? 0 : more ? 2 : 1;
    }
  return sorted_ids(side, false);
}

// The first k elements of rows in the order of ids(row): values, then indices.
Arrays ordered(const Array& x, int axis, int64_t k, const std::function<Ids(const Row&)>& ids) {
  const auto along = static_cast<size_t>(axis);
  std::vector<int64_t> shape = x.shape, others = x.shape;
  shape[along] = k;
  others[along] = 1;
  Array values(shape, x.dtype), places(shape, i64);
  each_place(others, [&](Place p) {
    Row row;
    for (p[along] = 0; p[along] < x.shape[along]; ++p[along]) row.push_back(x.at(p));
    const Ids order = ids(row);
    for (p[along] = 0; p[along] < k; ++p[along]) {
      const size_t from = order[static_cast<size_t>(p[along])];
      values.at(p) = row[from];
      places.at(p) = static_cast<Real>(from);
    }
  });
  return {values, places};
}
Arrays sorted(const Array& x, int axis, bool descending, int64_t k) {
  return ordered(x, axis, k, [=](const Row& row) { return sorted_ids(row, descending); });
}
Arrays sorted(const Array& x, const SortAttrs& a) {
  return sorted(x, a.axis, a.descending, x.shape[static_cast<size_t>(a.axis)]);
}
Arrays parted(const Array& x, const PartitionAttrs& a) {
  return ordered(x, a.axis, x.shape[static_cast<size_t>(a.axis)],
                 [&](const Row& row) { return parted_ids(row, a); });
}

// f(place in the data, place of the id)
void each_id(const Array& ids, int axis, const std::function<void(const Place&, const Place&)>& f) {
  each_place(ids.shape, [&](const Place& p) {
    Place at = p;
    at[static_cast<size_t>(axis)] = static_cast<int64_t>(ids.at(p));
    f(at, p);
  });
}

const References kOrder{{
    reference<SortAttrs>(
        "sort",
        [](const Arrays& in, const SortAttrs& a) -> Arrays { return {sorted(in[0], a)[0]}; }),
    reference<SortAttrs>(
        "argsort",
        [](const Arrays& in, const SortAttrs& a) -> Arrays { return {sorted(in[0], a)[1]}; }),
    reference<TopkAttrs>(
        "topk",
        [](const Arrays& in, const TopkAttrs& a) { return sorted(in[0], a.axis, a.largest, a.k); }),
    reference<PartitionAttrs>(
        "partition",
        [](const Arrays& in, const PartitionAttrs& a) -> Arrays { return {parted(in[0], a)[0]}; }),
    reference<PartitionAttrs>(
        "argpartition",
        [](const Arrays& in, const PartitionAttrs& a) -> Arrays { return {parted(in[0], a)[1]}; }),
    reference<PartitionAttrs>("order_select",
                              [](const Arrays& in, const PartitionAttrs& a) -> Arrays {
                                const Array all = sorted(in[0], {a.axis, 0})[0];
                                std::vector<int64_t> shape = all.shape;
                                shape[static_cast<size_t>(a.axis)] = a.n;
                                Array y(shape, in[0].dtype);
                                each_place(shape, [&](const Place& p) {
                                  Place from = p;
                                  int64_t& at = from[static_cast<size_t>(a.axis)];
                                  at = a.kth[at];
                                  y.at(p) = all.at(from);
                                });
                                return {y};
                              }),
    reference<ScatterAttrs>("order_scatter",
                            [](const Arrays& in, const ScatterAttrs& a) -> Arrays {
                              std::vector<int64_t> shape = in[0].shape;
                              shape[static_cast<size_t>(a.axis)] = a.length;
                              Array y(shape, in[0].dtype);
                              each_id(in[1], a.axis, [&](const Place& at, const Place& p) {
                                y.at(at) = in[0].at(p);
                              });
                              return {y};
                            }),
}};

}  // namespace
}  // namespace locus::test
