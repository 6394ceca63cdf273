#include <locus/ops/convolution.h>
#include <locus/ops/named.h>

namespace locus {

void register_convolution_names() {
  const auto options = [](const ops::Arguments& a) -> ConvolutionOptions {
    return {.strides = a["strides"],
            .padding = a["padding"],
            .dilation = a["dilation"],
            .groups = a["groups"],
            .layout = a["layout"]};
  };
  ops::define(
      "convolution(data, weight, bias = none, strides: ints = 1, padding: ints = 0, "
      "dilation: ints = 1, groups: int = 1, layout: text = none, activation: none|relu = none)",
      [options](const ops::Arguments& a) {
        ConvolutionOptions o = options(a);
        o.activation = a["activation"];
        return convolution(a.tensor(0), a.tensor(1), a.tensor(2), o);
      });
  ops::define(
      "convolution_weight_grad(data, dy, kernel: ints, strides: ints = 1, padding: ints = 0, "
      "dilation: ints = 1, groups: int = 1, layout: text = none)",
      [options](const ops::Arguments& a) {
        return convolution_weight_grad(a.tensor(0), a.tensor(1), a["kernel"], options(a));
      });
  ops::define(
      "deconvolution(data, weight, bias = none, strides: ints = 1, padding: ints = 0, "
      "dilation: ints = 1, adj: ints = 0, groups: int = 1, layout: text = none)",
      [](const ops::Arguments& a) {
        return deconvolution(a.tensor(0), a.tensor(1), a.tensor(2),
                             {.strides = a["strides"],
                              .padding = a["padding"],
                              .dilation = a["dilation"],
                              .adj = a["adj"],
                              .groups = a["groups"],
                              .layout = a["layout"]});
      });
}

}  // namespace locus
