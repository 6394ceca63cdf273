// Chooses which context keeps a state that is kept once. Internal to nn.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include <locus/core/context.h>

namespace locus::nn {

// A state that one of its contexts keeps.
struct OwnedState {
  std::vector<Context> contexts;
  size_t bytes;
  std::optional<size_t> owner = {};  // index of the context that has it already
};

// The index of each state's owner among its contexts. States with an owner or one context are
// placed first. The others follow, largest first, each on the context that keeps least so far (the
// first of equals). If all are placed so, on the same contexts, none keeps more than the mean plus
// the largest state. Deterministic.
std::vector<size_t> owners(std::span<const OwnedState> all);

}  // namespace locus::nn
