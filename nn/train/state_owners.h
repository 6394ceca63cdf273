// Which of several contexts keeps what is to be kept once. Internal to nn.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include <locus/core/context.h>

namespace locus::nn {

// What one of its contexts is to keep.
struct OwnedState {
  std::vector<Context> contexts;
  size_t bytes;
  std::optional<size_t> owner = {};  // the number of the one that keeps it already
};

// The number, among each one's contexts, of its owner. What has an owner keeps it, what has one
// context is kept there. Of the rest the largest go first, each to the context that keeps least by
// then, the first of these: from an empty start no context keeps more than the mean and the largest
// one. The same for the same list.
std::vector<size_t> owners(std::span<const OwnedState> all);

}  // namespace locus::nn
