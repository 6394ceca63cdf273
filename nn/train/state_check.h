// States that training is to go on from, beside those that are there. Internal to nn.
#pragma once

#include <string>
#include <vector>

#include <locus/core/caller.h>
#include <locus/core/io.h>

namespace locus::nn {

// What `given` has by this name: FormatError, ShapeError or DTypeError, which begin with `who`,
// where there is none, or it is not like that.
const Tensor& expect_like(const NamedTensors& given, const std::string& key, const Tensor& like,
                          const std::string& who);
// All of `given` in the order of `own`, the first of which and each ".../count" are counts.
// FormatError for others, too few or too many, and what is there twice.
std::vector<const Tensor*> expect_states(const NamedTensors& given, const NamedTensors& own,
                                         const std::string& who, Caller from);

}  // namespace locus::nn
