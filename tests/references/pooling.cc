#include <locus/ops/pooling/pooling_kernel.h>
#include "tests/references/reference.h"

namespace locus::test {
namespace {

using Lengths = std::vector<int64_t>;

struct Windows {
  const Lengths& x;
  const PoolingAttrs& a;
  size_t first = a.channels_last ? 1 : 2, count = x.size() - 2;

  Lengths results() const {
    Lengths y = x;
    for (size_t i = 0; i < count; ++i) {
      int64_t& n = y[first + i];
      const int64_t padded = n + 2 * a.padding[i], more = padded - a.window[i];
      const int64_t steps = (a.ceil_mode ? more + a.stride[i] - 1 : more) / a.stride[i];
      // No window begins in the padding after the data.
      const bool outside = a.ceil_mode && steps * a.stride[i] >= n + a.padding[i];
      n = a.adaptive ? a.result[i] : steps + (outside ? 0 : 1);
    }
    return y;
  }
  // Begin and end of a result's window, padding included.
  struct Bounds {
    int64_t begin, end;
  };
  Bounds bounds(const Place& result, size_t i) const {
    const int64_t at = result[first + i], n = x[first + i];
    if (a.adaptive) {
      const int64_t m = a.result[i];
      return {at * n / m, ((at + 1) * n + m - 1) / m};
    }
    const int64_t begin = at * a.stride[i] - a.padding[i];
    return {begin, std::min(begin + a.window[i], n + a.padding[i])};
  }
  // The places of the data in a window, in row-major order.
  std::vector<Place> places(const Place& result) const {
    Lengths lengths(x.size(), 1);
    for (size_t i = 0; i < count; ++i) {
      const auto [begin, end] = bounds(result, i);
      lengths[first + i] = end - begin;
    }
    std::vector<Place> all;
    each_place(lengths, [&](const Place& p) {
      Place at = result;
      for (size_t i = 0; i < count; ++i) {
        at[first + i] = bounds(result, i).begin + p[first + i];
        if (at[first + i] < 0 || at[first + i] >= x[first + i]) return;
      }
      all.push_back(at);
    });
    return all;
  }
  Real divisor(const Place& result) const {
    if (!a.count_include_pad) return static_cast<Real>(places(result).size());
    Real n = 1;
    for (size_t i = 0; i < count; ++i)
      n *= static_cast<Real>(bounds(result, i).end - bounds(result, i).begin);
    return n;
  }
  // The first NaN of a window, or its first maximum.
  Place greatest(const Array& data, const Place& result) const {
    const std::vector<Place> all = places(result);
    Place best = all.at(0);
    for (const Place& p : all) {
      if (std::isnan(data.at(best))) break;
      if (std::isnan(data.at(p)) || data.at(p) > data.at(best)) best = p;
    }
    return best;
  }
};

const References kPooling{{
    reference<PoolingAttrs>("max_pool",
                            [](const Arrays& in, const PoolingAttrs& a) -> Arrays {
                              const Windows windows{in[0].shape, a};
                              Array y(windows.results(), in[0].dtype);
                              each_place(y.shape, [&](const Place& p) {
                                y.at(p) = in[0].at(windows.greatest(in[0], p));
                              });
                              return {y};
                            }),
    reference<PoolingAttrs>("max_pool_gather",
                            [](const Arrays& in, const PoolingAttrs& a) -> Arrays {
                              const Windows windows{in[0].shape, a};
                              Array y(windows.results(), in[0].dtype);
                              each_place(y.shape, [&](const Place& p) {
                                y.at(p) = in[1].at(windows.greatest(in[0], p));
                              });
                              return {y};
                            }),
    reference<PoolingAttrs>("max_pool_grad",
                            [](const Arrays& in, const PoolingAttrs& a) -> Arrays {
                              const Windows windows{in[0].shape, a};
                              Array dx(in[0].shape, in[0].dtype);
                              each_place(in[1].shape, [&](const Place& p) {
                                dx.at(windows.greatest(in[0], p)) += in[1].at(p);
                              });
                              return {dx};
                            }),
    reference<PoolingAttrs>("avg_pool",
                            [](const Arrays& in, const PoolingAttrs& a) -> Arrays {
                              const Windows windows{in[0].shape, a};
                              Array y(windows.results(), in[0].dtype);
                              each_place(y.shape, [&](const Place& p) {
                                for (const Place& from : windows.places(p))
                                  y.at(p) += in[0].at(from) / windows.divisor(p);
                              });
                              return {y};
                            }),
    reference<PoolingAttrs>("avg_pool_grad",
                            [](const Arrays& in, const PoolingAttrs& a) -> Arrays {
                              Lengths shape = in[0].shape;
                              for (size_t i = 0; i + 2 < shape.size(); ++i)
                                shape[(a.channels_last ? 1 : 2) + i] = a.size[i];
                              const Windows windows{shape, a};
                              Array dx(shape, in[0].dtype);
                              each_place(in[0].shape, [&](const Place& p) {
                                for (const Place& to : windows.places(p))
                                  dx.at(to) += in[0].at(p) / windows.divisor(p);
                              });
                              return {dx};
                            }),
}};

}  // namespace
}  // namespace locus::test
