// Shared by the index family's host files.
#pragma once

#include <locus/core/tensor.h>
#include <locus/ops/index/index_kernel.h>

namespace locus::detail {

// ids, or f32 for 16-bit ids; DTypeError for a mask.
Tensor integer_ids(const char* op, const Tensor& ids);
// Dtype and shape of data taken by ids.
Meta taken(const Meta& data, const Meta& ids, const TakeAttrs& a);

}  // namespace locus::detail
