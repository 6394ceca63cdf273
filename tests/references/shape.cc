// Views, and ops that create, copy and join.
#include <locus/ops/create/create_kernel.h>
#include <locus/ops/join/join_kernel.h>
#include <locus/ops/view/view_kernel.h>
#include "tests/references/reference.h"

namespace locus::test {
namespace {

// Calls f with each place of a slice and its origin in the base.
void each_sliced(const std::vector<int64_t>& slice, const std::vector<int64_t>& base,
                 const SlicePlace& a, const std::function<void(const Place&, const Place&)>& f) {
  each_place(slice, [&](const Place& p) {
    Place from;
    size_t next = 0;
    for (size_t i = 0; i < base.size(); ++i)
      from.push_back(a.begin[i] + (a.drop >> i & 1 ? 0 : p[next++] * a.step[i]));
    f(p, from);
  });
}

Arrays joined(const Arrays& in, size_t axis, bool new_axis) {
  std::vector<int64_t> shape = in[0].shape;
  if (new_axis) shape.insert(shape.begin() + static_cast<int64_t>(axis), 1);
  shape[axis] = 0;
  for (const Array& x : in) shape[axis] += new_axis ? 1 : x.shape[axis];
  Array y(shape, in[0].dtype);
  int64_t begin = 0;
  for (const Array& x : in) {
    each_place(x.shape, [&](const Place& p) {
      Place to = p;
      if (new_axis) to.insert(to.begin() + static_cast<int64_t>(axis), 0);
      to[axis] += begin;
      y.at(to) = x.at(p);
    });
    begin += new_axis ? 1 : x.shape[axis];
  }
  return {y};
}

Reference same(std::string op) {
  return each_exact(reference(std::move(op), [](const Arrays& in) { return in; }));
}
Reference copies(std::string op) {
  return each_exact(
      reference<CopyAttrs>(std::move(op), [](Arrays in, const CopyAttrs& a) -> Arrays {
        in[0].dtype = a.dtype;
        return in;
      }));
}

const References kShape{{
    reference<ShapeAttrs>("reshape",
                          [](Arrays in, const ShapeAttrs& a) -> Arrays {
                            in[0].shape = lengths_of(a.target);
                            return in;
                          }),
    reference<ShapeAttrs>("broadcast_to",
                          [](const Arrays& in, const ShapeAttrs& a) -> Arrays {
                            return {spread(in[0], lengths_of(a.target))};
                          }),
    reference<TransposeAttrs>("transpose",
                              [](const Arrays& in, const TransposeAttrs& a) -> Arrays {
                                Array y = in[0];
                                for (size_t i = 0; i < y.shape.size(); ++i)
                                  y.shape[i] = in[0].shape[static_cast<size_t>(a.axes[i])];
                                each_place(y.shape, [&](const Place& p) {
                                  Place from = p;
                                  for (size_t i = 0; i < p.size(); ++i)
                                    from[static_cast<size_t>(a.axes[i])] = p[i];
                                  y.at(p) = in[0].at(from);
                                });
                                return {y};
                              }),
    reference<SliceAttrs>("slice",
                          [](const Arrays& in, const SliceAttrs& a) -> Arrays {
                            std::vector<int64_t> shape;
                            for (int i = 0; i < in[0].rank(); ++i)
                              if (!(a.drop >> i & 1)) shape.push_back(a.length[i]);
                            Array y(shape, in[0].dtype);
                            each_sliced(shape, in[0].shape, a,
                                        [&](const Place& p, const Place& from) {
                                          y.at(p) = in[0].at(from);
                                        });
                            return {y};
                          }),
    reference<SliceGradAttrs>("slice_grad",
                              [](const Arrays& in, const SliceGradAttrs& a) -> Arrays {
                                Array y(lengths_of(a.base), in[0].dtype);
                                each_sliced(in[0].shape, y.shape, a,
                                            [&](const Place& p, const Place& from) {
                                              y.at(from) = in[0].at(p);
                                            });
                                return {y};
                              }),
    reference<ConcatAttrs>("concat",
                           [](const Arrays& in, const ConcatAttrs& a) {
                             return joined(in, static_cast<size_t>(a.axis), false);
                           }),
    reference<ConcatAttrs>("stack",
                           [](const Arrays& in, const ConcatAttrs& a) {
                             return joined(in, static_cast<size_t>(a.axis), true);
                           }),
    copies("copy"),
    copies("contiguous"),
    same("copyto"),
    reference<FillAttrs>("fill",
                         [](const Arrays&, const FillAttrs& a) -> Arrays {
                           return {Array(lengths_of(a.meta), a.meta.dtype, real(a.value))};
                         }),
    reference<ArangeAttrs>("arange",
                           [](const Arrays&, const ArangeAttrs& a) -> Arrays {
                             Array y(lengths_of(a.meta), a.meta.dtype);
                             Real i = 0;
                             for (Real& v : y.values) v = a.start + i++ * a.step;
                             if (a.has_last) y.values.back() = a.last;
                             return {y};
                           }),
    // Samples of collectives use a group of one, which has the whole.
    same("all_reduce"),
    same("reduce"),
    same("reduce_scatter"),
    same("all_gather"),
    same("all_to_all"),
}};

}  // namespace
}  // namespace locus::test
