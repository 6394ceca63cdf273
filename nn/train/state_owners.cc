#include <locus/nn/train/state_owners.h>

#include <algorithm>
#include <map>
#include <numeric>

namespace locus::nn {

std::vector<size_t> owners(std::span<const OwnedState> all) {
  std::vector<size_t> order(all.size()), owner(all.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, [&](size_t a, size_t b) {
    const auto fixed = [](const OwnedState& k) { return k.owner || k.contexts.size() == 1; };
    return fixed(all[a]) != fixed(all[b]) ? fixed(all[a]) : all[a].bytes > all[b].bytes;
  });
  std::map<Context, size_t> kept;
  for (const size_t i : order) {
    const std::vector<Context>& contexts = all[i].contexts;
    const auto least =
        std::ranges::min_element(contexts, {}, [&](const Context& c) { return kept[c]; });
    owner[i] = all[i].owner.value_or(static_cast<size_t>(least - contexts.begin()));
    kept[contexts[owner[i]]] += all[i].bytes;
  }
  return owner;
}

}  // namespace locus::nn
