#include "planning/candidates.h"

#include <algorithm>
#include <cmath>

namespace planning {

std::vector<int> balanced(const ModelCost& model, int stages, double samples) {
  const int layers = static_cast<int>(model.layers.size());
  std::vector<double> until(at(layers + 1));
  for (int i = 0; i < layers; ++i) {
    const LayerCost& c = model.layers[at(i)];
    until[at(i + 1)] = until[at(i)] + c.forward.at(samples) + c.backward.at(samples);
  }
  until.back() += model.loss.forward.at(samples) + model.loss.backward.at(samples);
  // worst[s][i]: the longest stage if s + 1 stages split the first i layers best
  std::vector<std::vector<double>> worst(at(stages), until);
  std::vector<std::vector<int>> last(at(stages), std::vector<int>(at(layers + 1)));
  for (int s = 1; s < stages; ++s)
    for (int i = 0; i <= layers; ++i) {
      worst[at(s)][at(i)] = INFINITY;
      for (int k = s; k < i; ++k) {
        const double longest = std::max(worst[at(s - 1)][at(k)], until[at(i)] - until[at(k)]);
        if (longest >= worst[at(s)][at(i)]) continue;
        worst[at(s)][at(i)] = longest;
        last[at(s)][at(i)] = k;
      }
    }
  std::vector<int> begins{layers};
  for (int s = stages - 1; s >= 0; --s)
    begins.insert(begins.begin(), s == 0 ? 0 : last[at(s)][at(begins[0])]);
  return begins;
}

std::vector<int> counts(int n) {
  std::vector<int> all;
  for (int k = 1; k < n; k *= 2) all.push_back(k);
  all.push_back(n);
  return all;
}

std::vector<Layout> candidates(const ModelCost& model, int n, int64_t batch) {
  const int layers = static_cast<int>(model.layers.size());
  std::vector<Layout> all;
  for (int p = 1; p <= std::min(n, layers); ++p)
    for (const int m : {1, 2, 4, 8, 16, 32}) {
      const bool fitting = p > 1 ? m >= p && m <= 4 * p : m <= (n == 1 ? 8 : 4);
      if (n % p != 0 || !fitting || int64_t{n} / p * m > batch) continue;
      const double samples = static_cast<double>(batch) * p / n / m;
      Layout l;
      l.begins = balanced(model, p, samples);
      l.replicas = n / p;
      l.microbatches = m;
      all.push_back(l);
    }
  if (n > 1 && model.cut_from >= 0 && model.parts.contains(n)) {
    Layout l;
    l.begins = {0, layers};
    l.cut = n;
    if (model.cut_from > 0) l.begins.insert(l.begins.begin() + 1, model.cut_from);
    all.push_back(l);
  }
  return all;
}

}  // namespace planning
