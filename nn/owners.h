// Which of several contexts keeps what is to be kept once. Internal to nn.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include <locus/core/context.h>

namespace locus::nn {

// What one of its contexts is to keep.
struct Kept {
  std::vector<Context> contexts;
  size_t bytes;
};

// The number, among each one's contexts, of its owner. The largest go first, each to the context
// that keeps least by then, the first of these: no context keeps more than the mean and the largest
// one. What has one context counts there. The same for the same list.
std::vector<size_t> owners(std::span<const Kept> all);

}  // namespace locus::nn
