#include <locus/ops/convolution/convolution_samples.h>

#include <algorithm>
#include <vector>

#include <locus/ops/convolution/convolution_kernel.h>
#include <locus/ops/create.h>

namespace locus::convolution_samples {
namespace {

struct Layer {
  Shape x, w;
  ConvolutionAttrs attrs;
};

std::vector<Layer> sample_layers() {
  std::vector<Layer> all;
  const auto add = [&](const Shape& x, const Shape& w, const auto& change) {
    ConvolutionAttrs a;
    change(a);
    all.push_back({x, w, a});
  };
  add({2, 2, 6}, {3, 2, 3}, [](auto& a) { a.padding[0] = 1; });
  add({2, 2, 5, 4}, {3, 2, 3, 2},
      [](auto& a) { a.stride[0] = 2, a.padding[0] = 2, a.padding[1] = 1, a.dilation[1] = 2; });
  add({1, 4, 3, 5}, {2, 2, 2, 2}, [](auto& a) { a.groups = 2, a.stride[1] = 3; });
  add({2, 3, 4, 4}, {6, 1, 3, 3}, [](auto& a) { a.groups = 3, a.padding[0] = a.padding[1] = 1; });
  add({2, 4, 5, 2}, {3, 3, 2, 2}, [](auto& a) { a.channels_last = true, a.stride[0] = 2; });
  add({1, 4, 4, 2}, {4, 2, 2, 1},
      [](auto& a) { a.channels_last = true, a.groups = 2, a.padding[1] = 1; });
  add({1, 2, 2, 3, 3}, {2, 2, 2, 2, 3}, [](auto& a) { a.padding[2] = 2, a.stride[2] = 2; });
  return all;
}

int first_axis(const ConvolutionAttrs& a) { return a.channels_last ? 1 : 2; }

Shape result_of(const Layer& l) {
  int64_t dims[kMaxRank];
  const int rank = l.x.rank(), first = first_axis(l.attrs);
  dims[0] = l.x[0];
  dims[l.attrs.channels_last ? rank - 1 : 1] = l.w[0];
  for (int i = 0; i < rank - 2; ++i) {
    const int64_t span = kernel_span(l.w[first + i], l.attrs.dilation[i]);
    dims[first + i] = (l.x[first + i] + 2 * l.attrs.padding[i] - span) / l.attrs.stride[i] + 1;
  }
  return Shape(dims, rank);
}

// Attributes for a result of this shape.
ConvolutionAttrs sized(ConvolutionAttrs a, const Shape& s) {
  for (int i = 0; i < s.rank() - 2; ++i) a.size[i] = s[first_axis(a) + i];
  return a;
}

bool padded(const Layer& l) {
  return std::ranges::any_of(l.attrs.padding, [](int64_t n) { return n > 0; });
}

}  // namespace

// 0 times a weight that is not finite is unspecified (ops/convolution.h): with padding, and if a
// data gradient reads past the results. With padding, so is 0 times such a dy.
Samples forward(Context c, DType d) {
  Samples all;
  for (const Layer& l : sample_layers()) {
    Tensors in{sample_values(c, d, l.x), sample_values(c, d, l.w, -2, 2, 1)};
    if (all.size() % 2 == 1) in.push_back(sample_values(c, d, {l.w[0]}, -2, 2, 2));
    all.push_back(Sample(in, l.attrs));
    if (padded(l)) all.back().finite = {1};
  }
  const auto x = [&](const Shape& s, double low, double high, int variant) {
    return sample_values(c, d, s, low, high, variant);
  };
  ConvolutionAttrs relu;
  relu.activation = FusedActivation::relu;
  all.push_back(
      Sample({x({2, 2, 4, 4}, 0.2, 1, 0), x({3, 2, 3, 3}, 0.2, 1, 1), x({3}, 0.2, 1, 2)}, relu));
  all.push_back(Sample({x({2, 2, 5}, 0.2, 1, 0), x({3, 2, 2}, -1, -0.2, 1)}, relu));
  return all;
}

Samples transpose(Context c, DType d) {
  Samples all;
  for (const Layer& l : sample_layers()) {
    all.push_back(Sample({sample_values(c, d, result_of(l)), sample_values(c, d, l.w, -2, 2, 1)},
                         sized(l.attrs, l.x)));
    all.back().finite = {1};
  }
  return all;
}

Samples weight_grad(Context c, DType d) {
  Samples all;
  for (const Layer& l : sample_layers()) {
    all.push_back(Sample({sample_values(c, d, l.x), sample_values(c, d, result_of(l), -2, 2, 1)},
                         sized(l.attrs, l.w)));
    if (padded(l)) all.back().finite = {1};
  }
  return all;
}

Samples backward(Context c, DType d) {
  Samples all;
  for (const Layer& l : sample_layers()) {
    ConvolutionBackwardAttrs attrs{l.attrs};
    Tensors in{sample_values(c, d, result_of(l)), sample_values(c, d, l.x, -2, 2, 1),
               sample_values(c, d, l.w, -2, 2, 2)};
    if (all.size() % 2 == 0) {
      attrs.convolution.activation = FusedActivation::relu;
      in.push_back(sample_values(c, d, result_of(l), -2, 2, 3));
    }
    attrs.data = all.size() % 3 != 1;
    attrs.weight = all.size() % 4 != 2;
    attrs.bias = all.size() % 5 != 3;
    all.push_back(Sample(in, attrs));
    all.back().finite = padded(l) ? std::vector<int>{0, 2} : std::vector<int>{2};
  }
  return all;
}

}  // namespace locus::convolution_samples
