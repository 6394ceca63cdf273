#include <locus/ops/index/flat_index_kernel.h>
#include <locus/ops/index/index_kernel.h>
#include "tests/references/reference.h"

namespace locus::test {
namespace {

// The place of an index on an axis of n elements.
int64_t resolved(Real index, int64_t n, int mode) {
  const auto i = static_cast<int64_t>(index);
  if (mode == 1) return i < 0 ? 0 : i < n ? i : n - 1;
  if (mode == 2) return (i % n + n) % n;
  return i < 0 ? i + n : i;
}

std::vector<int64_t> taken_shape(const std::vector<int64_t>& data, const std::vector<int64_t>& ids,
                                 const TakeAttrs& a) {
  if (a.along) return ids;
  std::vector<int64_t> shape;
  for (int i = 0; i < static_cast<int>(data.size()); ++i) {
    bool indexed = false;
    for (int k = 0; k < a.n_axes; ++k) indexed |= a.axes[k] == i;
    if (!indexed) shape.push_back(data[static_cast<size_t>(i)]);
  }
  shape.insert(shape.begin() + a.at, ids.begin(), ids.end());
  return shape;
}

// Calls f with each place of take's result, and its origin in the data.
void each_taken(const std::vector<int64_t>& data, const Arrays& ids, const TakeAttrs& a,
                const std::function<void(const Place&, const Place&)>& f) {
  const auto rank = static_cast<size_t>(ids[0].rank());
  if (a.along)
    return each_place(ids[0].shape, [&](const Place& p) {
      const auto axis = static_cast<size_t>(a.axes[0]);
      Place from = p;
      from[axis] = resolved(ids[0].at(p), data[axis], a.mode);
      f(p, from);
    });
  each_place(taken_shape(data, ids[0].shape, a), [&](const Place& p) {
    const Place id(p.begin() + a.at, p.begin() + a.at + static_cast<int64_t>(rank));
    Place rest = p;
    rest.erase(rest.begin() + a.at, rest.begin() + a.at + static_cast<int64_t>(rank));
    Place from(data.size(), -1);
    for (int k = 0; k < a.n_axes; ++k) {
      const auto axis = static_cast<size_t>(a.axes[k]);
      from[axis] = resolved(ids[static_cast<size_t>(k)].at(id), data[axis], a.mode);
    }
    size_t next = 0;
    for (int64_t& i : from)
      if (i < 0) i = rest[next++];
    f(p, from);
  });
}
Arrays from(const Arrays& in, int64_t first) { return {in.begin() + first, in.end()}; }

Array wrapped(Array sums) {
  if (!is_floating(sums.dtype))
    for (Real& v : sums.values) v = held(v, sums.dtype);
  return sums;
}

// The place in the data of each element that pick takes.
std::vector<Place> picked(const std::vector<int64_t>& data, const Array& ids, const PickAttrs& a) {
  const auto axis = static_cast<size_t>(a.axis);
  std::vector<int64_t> others = data;
  others[axis] = 1;
  std::vector<Place> all;
  each_place(others, [&](Place p) {
    p[axis] = resolved(ids.values[all.size()], data[axis], a.mode);
    all.push_back(p);
  });
  return all;
}
std::vector<int64_t> without(std::vector<int64_t> shape, const PickAttrs& a) {
  if (a.keepdims)
    shape[static_cast<size_t>(a.axis)] = 1;
  else
    shape.erase(shape.begin() + a.axis);
  return shape;
}

std::vector<size_t> ones(const Array& mask) {
  std::vector<size_t> at;
  for (size_t i = 0; i < mask.values.size(); ++i)
    if (mask.values[i] != 0) at.push_back(i);
  return at;
}
int64_t length(size_t n) { return static_cast<int64_t>(n); }

// The last value of a place stays.
Reference puts(std::string op) {
  return reference<TakeAttrs>(std::move(op), [](const Arrays& in, const TakeAttrs& a) -> Arrays {
    Array y = in[0];
    each_taken(y.shape, from(in, 2), a,
               [&](const Place& to, const Place& of) { y.at(of) = in[1].at(to); });
    return {y};
  });
}

const References kIndex{{
    reference<TakeAttrs>("take",
                         [](const Arrays& in, const TakeAttrs& a) -> Arrays {
                           Array y(taken_shape(in[0].shape, in[1].shape, a), in[0].dtype);
                           each_taken(
                               in[0].shape, from(in, 1), a,
                               [&](const Place& to, const Place& of) { y.at(to) = in[0].at(of); });
                           return {y};
                         }),
    puts("put"),
    puts("index_put"),
    reference<TakeAttrs>("index_add",
                         [](const Arrays& in, const TakeAttrs& a) -> Arrays {
                           Array y = in[0];
                           each_taken(
                               y.shape, from(in, 2), a,
                               [&](const Place& to, const Place& of) { y.at(of) += in[1].at(to); });
                           return {wrapped(y)};
                         }),
    reference<PickAttrs>("pick",
                         [](const Arrays& in, const PickAttrs& a) -> Arrays {
                           Array y(without(in[0].shape, a), in[0].dtype);
                           const std::vector<Place> at = picked(in[0].shape, in[1], a);
                           for (size_t i = 0; i < at.size(); ++i) y.values[i] = in[0].at(at[i]);
                           return {y};
                         }),
    reference<PickAttrs>("pick_grad",
                         [](const Arrays& in, const PickAttrs& a) -> Arrays {
                           std::vector<int64_t> shape = in[0].shape;
                           if (a.keepdims) shape.erase(shape.begin() + a.axis);
                           shape.insert(shape.begin() + a.axis, a.length);
                           Array y(shape, in[0].dtype);
                           const std::vector<Place> at = picked(shape, in[1], a);
                           for (size_t i = 0; i < at.size(); ++i) y.at(at[i]) = in[0].values[i];
                           return {y};
                         }),
    reference<OneHotAttrs>("one_hot",
                           [](const Arrays& in, const OneHotAttrs& a) -> Arrays {
                             std::vector<int64_t> shape = in[0].shape;
                             shape.push_back(a.depth);
                             Array y(shape, a.dtype);
                             each_place(shape, [&](const Place& p) {
                               const Place id(p.begin(), p.end() - 1);
                               const bool hot = in[0].at(id) == static_cast<Real>(p.back());
                               y.at(p) = hot ? a.on : a.off;
                             });
                             return {y};
                           }),
    reference("mask_offsets",
              [](const Arrays& in) {
                const int64_t tiles = (in[0].size() + 511) / 512;
                Array y({tiles + 1}, i64);
                for (size_t at : ones(in[0]))
                  for (size_t t = at / 512 + 1; t < y.values.size(); ++t) y.values[t] += 1;
                return Arrays{y};
              }),
    reference<MaskAttrs>("mask_indices",
                         [](const Arrays& in, const MaskAttrs&) -> Arrays {
                           Array y({length(ones(in[0]).size())}, i64);
                           size_t i = 0;
                           for (size_t at : ones(in[0])) y.values[i++] = static_cast<Real>(at);
                           return {y};
                         }),
    reference<MaskAttrs>("mask_select",
                         [](const Arrays& in, const MaskAttrs&) -> Arrays {
                           Array y({length(ones(in[1]).size())}, in[0].dtype);
                           size_t i = 0;
                           for (size_t at : ones(in[1])) y.values[i++] = in[0].values[at];
                           return {y};
                         }),
    reference<MaskAttrs>("mask_select_grad",
                         [](const Arrays& in, const MaskAttrs&) -> Arrays {
                           Array y(in[1].shape, in[0].dtype);
                           size_t i = 0;
                           for (size_t at : ones(in[1])) y.values[at] = in[0].values[i++];
                           return {y};
                         }),
    reference<MaskFillAttrs>("mask_fill",
                             [](const Arrays& in, const MaskFillAttrs& a) -> Arrays {
                               Array y = in[0];
                               for (size_t at : ones(in[1])) y.values[at] = real(a.value);
                               return {y};
                             }),
    reference<UnravelAttrs>(
        "unravel_index",
        [](const Arrays& in, const UnravelAttrs& a) -> Arrays {
          const std::vector<int64_t> shape = lengths_of(a.shape);
          const auto rank = length(shape.size());
          Array y(a.axes_last ? Place{in[0].size(), rank} : Place{rank, in[0].size()}, i64);
          int64_t n = 0;
          each_place(shape, [&](const Place& p) {
            for (int64_t i = 0; i < in[0].size(); ++i)
              if (in[0].at({i}) == static_cast<Real>(n))
                for (size_t k = 0; k < p.size(); ++k)
                  y.at(a.axes_last ? Place{i, length(k)} : Place{length(k), i}) =
                      static_cast<Real>(p[k]);
            ++n;
          });
          return {y};
        }),
}};

}  // namespace
}  // namespace locus::test
