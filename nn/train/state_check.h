// Checks states before training continues from them. Internal to nn.
#pragma once

#include <string>
#include <vector>

#include <locus/core/caller.h>
#include <locus/core/io.h>

namespace locus::nn {

// The tensor `key` of `given`. If it is missing or not like `like`, FormatError, ShapeError or
// DTypeError, which begin with `who`.
const Tensor& expect_like(const NamedTensors& given, const std::string& key, const Tensor& like,
                          const std::string& who);
// All of `given`, in the order of `own`. The first and each ".../count" are counts, >= 0.
// FormatError for missing, unknown or repeated names.
std::vector<const Tensor*> expect_states(const NamedTensors& given, const NamedTensors& own,
                                         const std::string& who, Caller from);

}  // namespace locus::nn
