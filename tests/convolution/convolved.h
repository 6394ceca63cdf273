// Whole numbers, their convolution and its gradients, by plain loops.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include <locus/ops/convolution/convolution_kernel.h>

namespace locus::test {

struct Convolved {
  using Values = std::vector<double>;

  Values x, w, dy, y, dx, dw;

  Convolved(const Convolution& g, std::mt19937& random)
      : x(drawn(random, g.images * g.groups * g.in * g.elements())),
        w(drawn(random, g.groups * g.out * g.depth())),
        dy(drawn(random, g.images * g.groups * g.out * g.positions())),
        y(dy.size()),
        dx(x.size()),
        dw(w.size()) {
    for (int64_t n = 0; n < g.images; ++n)
      for (int64_t o = 0; o < g.groups * g.out; ++o)
        for (int64_t c = 0; c < g.in; ++c)
          for (int64_t at = 0; at < g.positions(); ++at)
            for (int64_t tap = 0; tap < g.taps(); ++tap) {
              const int64_t index = data_read(g, at, tap);
              if (index < 0) continue;
              const auto xi = static_cast<size_t>(g.data_at(n, o / g.out * g.in + c, index)),
                         wi = static_cast<size_t>(g.weight_at(o, c, tap)),
                         yi = static_cast<size_t>(g.result_at(n, o, at));
              y[yi] += x[xi] * w[wi];
              dx[xi] += dy[yi] * w[wi];
              dw[wi] += dy[yi] * x[xi];
            }
  }

  // The data element that tap `tap` of result `at` reads, over three axes; -1: none.
  static int64_t data_read(const Convolution& g, int64_t at, int64_t tap) {
    int64_t where = 0, scale = 1;
    for (int a = 2; a >= 0; --a) {
      const int64_t i = g.data_index(a, at % g.result[a], tap % g.kernel[a]);
      if (i < 0 || i >= g.data[a]) return -1;
      where += i * scale;
      scale *= g.data[a];
      at /= g.result[a];
      tap /= g.kernel[a];
    }
    return where;
  }
  static Values drawn(std::mt19937& random, int64_t n) {
    Values v(static_cast<size_t>(n));
    for (double& e : v) e = std::uniform_int_distribution<int>(-9, 9)(random);
    return v;
  }
};

}  // namespace locus::test
