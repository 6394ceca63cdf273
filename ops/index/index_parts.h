// What the files of the index family share on the host.
#pragma once

#include <locus/core/tensor.h>
#include <locus/ops/index/index_kernel.h>

namespace locus::detail {

// ids as i32 or i64; DTypeError for a mask.
Tensor integer_ids(const char* op, const Tensor& ids);
// The dtype and shape of data taken by ids.
Meta taken(const Meta& data, const Meta& ids, const TakeAttrs& a);

}  // namespace locus::detail
