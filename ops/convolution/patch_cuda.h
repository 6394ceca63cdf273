// Host side of the products out of patches (patch.h) on CUDA.
#pragma once

#include <locus/ops/convolution/gathered_cuda.h>

namespace locus::cuda {

// As multiply_gathered, but false, with nothing done, where patches do not fit. Forward products
// and data gradients; products of weight_products(). Take scratch memory, enqueue a launch; the
// second one enqueues two where it cuts the depth.
bool multiply_patches(const Call& call, const GatheredProducts& products,
                      GatheredMemory<float> memory);
bool weight_patches(const Call& call, const GatheredProducts& products,
                    GatheredMemory<float> memory);

}  // namespace locus::cuda
