#include <algorithm>

#include <locus/ops/norm/norm_kernel.h>
#include "tests/references/reference.h"

namespace locus::test {
namespace {

enum class Over { rows, channels };

// The statistic and the channel of each element.
struct Groups {
  const Array& x;
  const NormAttrs& a;
  Over over;

  std::vector<int64_t> shape() const {
    const auto axis = static_cast<size_t>(a.axis);
    if (over == Over::channels) return {x.shape[axis]};
    std::vector<int64_t> s(x.shape.begin(), x.shape.begin() + a.axis);
    s.push_back(a.groups);
    return s;
  }
  Place channel(const Place& p) const { return {p[static_cast<size_t>(a.axis)]}; }
  Place statistic(const Place& p) const {
    if (over == Over::channels) return channel(p);
    Place at(p.begin(), p.begin() + a.axis);
    const int64_t each = x.shape[static_cast<size_t>(a.axis)] / a.groups;
    at.push_back(channel(p)[0] / each);
    return at;
  }
  Array mean_of(const std::function<Real(const Place&)>& f) const {
    Array total(shape(), f64), count = total;
    each_place(x.shape, [&](const Place& p) {
      total.at(statistic(p)) += f(p);
      count.at(statistic(p)) += 1;
    });
    for (size_t i = 0; i < total.values.size(); ++i)
      total.values[i] = count.values[i] > 0 ? total.values[i] / count.values[i] : 0;
    return total;
  }
  Array sum_over_channels(DType d, const std::function<Real(const Place&)>& f) const {
    Array total({x.shape[static_cast<size_t>(a.axis)]}, d);
    each_place(x.shape, [&](const Place& p) { total.at(channel(p)) += f(p); });
    return total;
  }
};

struct Statistics {
  Array mean, var;
};
Statistics statistics(const Groups& g) {
  const auto finite = [](Real v) { return std::isfinite(v) ? v : kNaN; };
  Array mean = mapped(g.mean_of([&](const Place& p) { return g.x.at(p); }), finite);
  Array var = g.mean_of([&](const Place& p) {
    const Real d = g.x.at(p) - mean.at(g.statistic(p));
    return d * d;
  });
  return {mean, var};
}
Array normalised(const Groups& g, const Array& mean, const Array& var, const Array& gamma,
                 const Array* beta) {
  Array y = g.x;
  each_place(y.shape, [&](const Place& p) {
    const Place s = g.statistic(p), c = g.channel(p);
    const Real hat = (g.x.at(p) - mean.at(s)) / std::sqrt(var.at(s) + g.a.epsilon);
    y.at(p) = hat * gamma.at(c) + (beta ? beta->at(c) : 0);
  });
  return y;
}

Arrays of_rows(const Arrays& in, const NormAttrs& a) {
  const Groups g{in[0], a, Over::rows};
  const auto [mean, var] = statistics(g);
  return {normalised(g, mean, var, in[1], &in[2]), mean, var};
}
Arrays rms(const Arrays& in, const NormAttrs& a) {
  const Groups g{in[0], a, Over::rows};
  const Array square = g.mean_of([&](const Place& p) { return in[0].at(p) * in[0].at(p); });
  return {normalised(g, Array(g.shape(), f64), square, in[1], nullptr), square};
}

// dx, dgamma and dbeta; `centred`: the mean is subtracted and has a gradient.
Arrays backward(const Groups& g, const NormGradAttrs& a, const Array& dy, const Array& gamma,
                const Array& mean, const Array& var, bool centred) {
  const Array& x = g.x;
  const auto rstd = [&](const Place& p) {
    return 1 / std::sqrt(var.at(g.statistic(p)) + a.epsilon);
  };
  const auto hat = [&](const Place& p) { return (x.at(p) - mean.at(g.statistic(p))) * rstd(p); };
  const auto scaled = [&](const Place& p) { return dy.at(p) * gamma.at(g.channel(p)); };
  const Array mean_dy = g.mean_of(scaled),
              mean_hat = g.mean_of([&](const Place&p) { return scaled(p) * hat(p); });
  Array dx = dy;
  each_place(x.shape, [&](const Place& p) {
    const Place s = g.statistic(p);
    Real d = scaled(p);
    if (!a.given) d -= hat(p) * mean_hat.at(s) + (centred ? mean_dy.at(s) : 0);
    dx.at(p) = d * rstd(p);
  });
  const Array none({0}, dy.dtype);
  Arrays result{
      a.data ? dx : none,
      a.gamma ? g.sum_over_channels(gamma.dtype, [&](const Place& p) { return dy.at(p) * hat(p); })
              : none};
  if (centred)
    result.push_back(
        a.beta ? g.sum_over_channels(gamma.dtype, [&](const Place& p) { return dy.at(p); }) : none);
  return result;
}

const References kNorms{{
    reference<NormAttrs>("layer_norm", of_rows),
    reference<NormAttrs>("group_norm", of_rows),
    reference<NormAttrs>("instance_norm", of_rows),
    reference<NormAttrs>("rms_norm", rms),
    reference<NormGradAttrs>(
        "layer_norm_grad",
        [](const Arrays& in, const NormGradAttrs& a) {
          return backward({in[1], a, Over::rows}, a, in[0], in[2], in[3], in[4], true);
        }),
    reference<NormGradAttrs>("rms_norm_grad",
                             [](const Arrays& in, const NormGradAttrs& a) {
                               return backward({in[1], a, Over::rows}, a, in[0], in[2],
                                               Array(in[3].shape, f64), in[3], false);
                             }),
    reference<BatchNormAttrs>("batch_norm",
                              [](const Arrays& in, const BatchNormAttrs& a) -> Arrays {
                                const Groups g{in[0], a, Over::channels};
                                const auto [mean, var] = statistics(g);
                                const Real kept = in[0].size() > 0 ? a.momentum : 1;
                                const auto next = [&](const Array& before, const Array& now) {
                                  return combined(before, now, [&](Real x, Real y) {
                                    return kept * x + (1 - kept) * y;
                                  });
                                };
                                return {normalised(g, mean, var, in[1], &in[2]), mean, var,
                                        next(in[3], mean), next(in[4], var)};
                              }),
    reference<NormAttrs>(
        "batch_norm_inference",
        [](const Arrays& in, const NormAttrs& a) -> Arrays {
          return {normalised({in[0], a, Over::channels}, in[3], in[4], in[1], &in[2])};
        }),
    reference<NormAttrs>("batch_norm_statistics",
                         [](const Arrays& in, const NormAttrs& a) -> Arrays {
                           const auto [mean, var] = statistics({in[0], a, Over::channels});
                           return {mean, var};
                         }),
    reference<NormGradAttrs>(
        "batch_norm_grad",
        [](const Arrays& in, const NormGradAttrs& a) {
          return backward({in[1], a, Over::channels}, a, in[0], in[2], in[3], in[4], true);
        }),
}};

}  // namespace
}  // namespace locus::test
