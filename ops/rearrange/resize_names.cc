#include <locus/ops/named.h>
#include <locus/ops/resize.h>

namespace locus {

void register_resize_names() {
  ops::define(
      "interpolate(data, size: ints, mode: nearest|linear|bilinear|trilinear = nearest, "
      "align_corners: bool = false)",
      [](const ops::Arguments& a) {
        return interpolate(a.tensor(0), a["size"],
                           {.mode = a["mode"], .align_corners = a["align_corners"]});
      })
      .made_of({"resize_nearest", "resize_linear"});
  ops::define("space_to_depth(data, block_size: int)", [](const ops::Arguments& a) {
    return space_to_depth(a.tensor(0), a["block_size"]);
  }).made_of({"reshape", "transpose"});
  ops::define("depth_to_space(data, block_size: int)", [](const ops::Arguments& a) {
    return depth_to_space(a.tensor(0), a["block_size"]);
  }).made_of({"reshape", "transpose"});

  const auto options = [](const ops::Arguments& a) {
    return Im2colOptions{.stride = a["stride"], .dilate = a["dilate"], .pad = a["pad"]};
  };
  ops::define(
      "im2col(data, kernel: ints, stride: ints = 1, dilate: ints = 1, pad: ints = 0)",
      [options](const ops::Arguments& a) { return im2col(a.tensor(0), a["kernel"], options(a)); })
      .made_of({"im2col", "reshape"});
  ops::define(
      "col2im(data, output_size: ints, kernel: ints, stride: ints = 1, dilate: ints = 1, "
      "pad: ints = 0)",
      [options](const ops::Arguments& a) {
        return col2im(a.tensor(0), a["output_size"], a["kernel"], options(a));
      })
      .made_of({"col2im", "reshape"});
}

}  // namespace locus
