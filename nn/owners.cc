#include <locus/nn/owners.h>

#include <algorithm>
#include <map>
#include <numeric>

namespace locus::nn {

std::vector<size_t> owners(std::span<const Kept> all) {
  std::vector<size_t> order(all.size()), owner(all.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, [&](size_t a, size_t b) {
    const bool fixed_a = all[a].contexts.size() == 1, fixed_b = all[b].contexts.size() == 1;
    return fixed_a != fixed_b ? fixed_a : all[a].bytes > all[b].bytes;
  });
  std::map<Context, size_t> kept;
  for (const size_t i : order) {
    const std::vector<Context>& contexts = all[i].contexts;
    const auto least =
        std::ranges::min_element(contexts, {}, [&](const Context& c) { return kept[c]; });
    kept[*least] += all[i].bytes;
    owner[i] = static_cast<size_t>(least - contexts.begin());
  }
  return owner;
}

}  // namespace locus::nn
