// Host side of patch products (patch.h) on CUDA.
#pragma once

#include <locus/ops/convolution/gathered_cuda.h>

namespace locus::cuda {

// As multiply_gathered, for forward products and data gradients, and for weight_products(). If
// patches do not fit, they do nothing and return false. Both take scratch memory and enqueue a
// launch. If weight_patches() cuts the depth, it enqueues two.
bool multiply_patches(const Call& call, const GatheredProducts& products,
                      GatheredMemory<float> memory);
bool weight_patches(const Call& call, const GatheredProducts& products,
                    GatheredMemory<float> memory);

}  // namespace locus::cuda
