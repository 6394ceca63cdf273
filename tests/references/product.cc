// Matrix products, convolutions, and ops on many tensors.
#include <locus/ops/convolution/convolution_kernel.h>
#include <locus/ops/matmul_attrs.h>
#include "tests/references/reference.h"

namespace locus::test {
namespace {

Array swapped(const Array& x) {
  Array y = x;
  const size_t r = x.shape.size();
  std::swap(y.shape[r - 2], y.shape[r - 1]);
  each_place(y.shape, [&](const Place& p) {
    Place from = p;
    std::swap(from[r - 2], from[r - 1]);
    y.at(p) = x.at(from);
  });
  return y;
}
Array product(const Array& a, const Array& b) {
  const std::vector<int64_t> batch =
      common_shape({a.shape.begin(), a.shape.end() - 2}, {b.shape.begin(), b.shape.end() - 2});
  const auto stacked = [&batch](const Array& x) {
    std::vector<int64_t> shape = batch;
    shape.insert(shape.end(), x.shape.end() - 2, x.shape.end());
    return spread(x, shape);
  };
  const Array left = stacked(a), right = stacked(b);
  std::vector<int64_t> shape = left.shape;
  shape.back() = right.shape.back();
  Array y(shape, a.dtype);
  each_place(shape, [&](const Place& p) {
    Place row = p, column = p;
    for (int64_t k = 0; k < left.shape.back(); ++k) {
      row[row.size() - 1] = column[column.size() - 2] = k;
      y.at(p) += left.at(row) * right.at(column);
    }
  });
  return y;
}
Array rectified(const Array& x, FusedActivation a) {
  if (a == FusedActivation::none) return x;
  return mapped(x, [](Real v) { return v <= 0 ? 0 : v; });
}
// dy, and 0 where relu cut the result y.
Array masked(const Arrays& in, bool relu) {
  if (!relu) return in[0];
  return combined(in[0], in[3], [](Real d, Real y) { return y <= 0 ? 0 : d; });
}

Arrays dense(const Arrays& in, const DenseAttrs& a) {
  const Array y = product(in[0], swapped(in[1]));
  const auto sum = [](Real x, Real b) { return x + b; };
  return {rectified(in.size() == 3 ? combined(y, in[2], sum) : y, a.activation)};
}
Arrays dense_backward(const Arrays& in, const DenseBackwardAttrs& a) {
  const Array dz = masked(in, a.relu), none({0}, in[0].dtype);
  Array db({dz.shape[1]}, dz.dtype);
  each_place(dz.shape, [&](const Place& p) { db.at({p[1]}) += dz.at(p); });
  return {a.data ? product(dz, in[2]) : none, a.weight ? product(swapped(dz), in[1]) : none,
          a.bias ? db : none};
}

// The axes of a convolution: spatial ones from `first`.
struct Axes {
  size_t first, channel, count;

  Axes(const std::vector<int64_t>& shape, bool channels_last)
      : first(channels_last ? 1 : 2),
        channel(channels_last ? shape.size() - 1 : 1),
        count(shape.size() - 2) {}
};
using Lengths = std::vector<int64_t>;

// Calls f with the places of data, weight and result of each product in a convolution.
template <class F>
void each_product(const Lengths& x, const Lengths& w, const Lengths& y, const ConvolutionAttrs& a,
                  F f) {
  const Axes axes(x, a.channels_last);
  const int64_t group_in = x[axes.channel] / a.groups, group_out = w[0] / a.groups;
  each_place(y, [&](const Place& py) {
    Lengths kernel = w;
    kernel[0] = 1;
    each_place(kernel, [&](Place pw) {
      Place px = py;
      pw[0] = py[axes.channel];
      px[axes.channel] = pw[0] / group_out * group_in + pw[axes.channel];
      for (size_t i = 0; i < axes.count; ++i) {
        int64_t& at = px[axes.first + i];
        at = at * a.stride[i] - a.padding[i] + pw[axes.first + i] * a.dilation[i];
        if (at < 0 || at >= x[axes.first + i]) return;
      }
      f(px, pw, py);
    });
  });
}
Lengths sized(Lengths shape, const ConvolutionAttrs& a, int64_t outer, int64_t channels) {
  const Axes axes(shape, a.channels_last);
  shape[0] = outer;
  shape[axes.channel] = channels;
  for (size_t i = 0; i < axes.count; ++i) shape[axes.first + i] = a.size[i];
  return shape;
}
Array data_sums(const Array& dy, const Array& w, const Lengths& x, const ConvolutionAttrs& a) {
  Array dx(x, dy.dtype);
  each_product(x, w.shape, dy.shape, a, [&](const Place& px, const Place& pw, const Place& py) {
    dx.at(px) += dy.at(py) * w.at(pw);
  });
  return dx;
}
Array weight_sums(const Array& x, const Array& dy, const Lengths& w, const ConvolutionAttrs& a) {
  Array dw(w, x.dtype);
  each_product(x.shape, w, dy.shape, a, [&](const Place& px, const Place& pw, const Place& py) {
    dw.at(pw) += x.at(px) * dy.at(py);
  });
  return dw;
}

Arrays convolution(const Arrays& in, const ConvolutionAttrs& a) {
  const Array &x = in[0], &w = in[1];
  const Axes axes(x.shape, a.channels_last);
  Lengths shape = x.shape;
  shape[axes.channel] = w.shape[0];
  for (size_t i = 0; i < axes.count; ++i) {
    const int64_t span = (w.shape[axes.first + i] - 1) * a.dilation[i] + 1;
    shape[axes.first + i] = (x.shape[axes.first + i] + 2 * a.padding[i] - span) / a.stride[i] + 1;
  }
  Array y(shape, x.dtype);
  if (in.size() == 3)
    each_place(shape, [&](const Place& p) { y.at(p) = in[2].at({p[axes.channel]}); });
  each_product(x.shape, w.shape, shape, a, [&](const Place& px, const Place& pw, const Place& py) {
    y.at(py) += x.at(px) * w.at(pw);
  });
  return {rectified(y, a.activation)};
}
Arrays convolution_backward(const Arrays& in, const ConvolutionBackwardAttrs& b) {
  const ConvolutionAttrs& a = b.convolution;
  const Array dz = masked(in, a.activation == FusedActivation::relu), none({0}, in[0].dtype);
  const Axes axes(dz.shape, a.channels_last);
  Array db({dz.shape[axes.channel]}, dz.dtype);
  each_place(dz.shape, [&](const Place& p) { db.at({p[axes.channel]}) += dz.at(p); });
  return {b.data ? data_sums(dz, in[2], in[1].shape, a) : none,
          b.weight ? weight_sums(in[1], dz, in[2].shape, a) : none, b.bias ? db : none};
}

const References kProducts{{
    reference<MatmulAttrs>("matmul",
                           [](const Arrays& in, const MatmulAttrs& a) -> Arrays {
                             return {product(a.transpose_a ? swapped(in[0]) : in[0],
                                             a.transpose_b ? swapped(in[1]) : in[1])};
                           }),
    reference<DenseAttrs>("dense", dense),
    reference<DenseBackwardAttrs>("dense_backward", dense_backward),
    reference<ConvolutionAttrs>("convolution", convolution),
    reference<ConvolutionAttrs>(
        "deconvolution",
        [](const Arrays& in, const ConvolutionAttrs& a) -> Arrays {
          const Axes axes(in[0].shape, a.channels_last);
          const int64_t channels = in[1].shape[axes.channel] * a.groups;
          return {data_sums(in[0], in[1], sized(in[0].shape, a, in[0].shape[0], channels), a)};
        }),
    reference<ConvolutionAttrs>("convolution_weight_grad",
                                [](const Arrays& in, const ConvolutionAttrs& a) -> Arrays {
                                  const Axes axes(in[0].shape, a.channels_last);
                                  const int64_t out = in[1].shape[axes.channel],
                                                channels = in[0].shape[axes.channel] / a.groups;
                                  return {weight_sums(in[0], in[1],
                                                      sized(in[0].shape, a, out, channels), a)};
                                }),
    reference<ConvolutionBackwardAttrs>("convolution_backward", convolution_backward),
    each_exact(reference("multi_sum_sq",
                         [](const Arrays& in) {
                           Array y({static_cast<int64_t>(in.size())}, f64);
                           for (size_t i = 0; i < in.size(); ++i)
                             for (Real x : in[i].values) y.values[i] += x * x;
                           return Arrays{y};
                         })),
    reference("multi_all_finite",
              [](const Arrays& in) {
                Array y({1}, f64, 1);
                for (const Array& x : in)
                  for (Real v : x.values)
                    if (!std::isfinite(v)) y.values[0] = 0;
                return Arrays{y};
              }),
}};

}  // namespace
}  // namespace locus::test
