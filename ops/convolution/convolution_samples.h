// Sample calls of convolution.cc's ops, for tests of all registered ops.
#pragma once

#include <locus/core/op.h>

namespace locus::convolution_samples {

Samples forward(Context c, DType d);
Samples transpose(Context c, DType d);
Samples weight_grad(Context c, DType d);
Samples backward(Context c, DType d);

}  // namespace locus::convolution_samples
