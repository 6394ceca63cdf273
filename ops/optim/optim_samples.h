// Sample calls of the optimizer updates, for the tests that walk the registry. Included by optim.cc
// only.
#pragma once

#include <string_view>

#include <locus/core/op.h>
#include <locus/ops/create.h>
#include <locus/ops/optim.h>
#include <locus/ops/register.h>

namespace locus::optim_samples {

// Two sets of numbers. Every number that an update reads differs between them. No epsilon is small,
// because 1 / epsilon amplifies the rounding of a subnormal mean. No lower bound of a norm is above
// 0, because it would amplify that of a subnormal direction; tests/ops/optim_norms_test.cc tests
// one.
template <class N>
struct Two {
  N first, second;
};

inline Two<SGDUpdate> numbers(const SGDUpdate&) {
  return {{.lr = .1, .momentum = .9},
          {.lr = .2, .momentum = .5, .wd = .02, .rescale_grad = .25, .clip_gradient = .3}};
}
inline Two<AdamUpdate> numbers(const AdamUpdate&) {
  return {{.lr = .1, .beta1 = .8, .beta2 = .9, .epsilon = .1},
          {.lr = .2,
           .beta1 = .9,
           .beta2 = .99,
           .epsilon = .2,
           .wd = .02,
           .rescale_grad = .25,
           .clip_gradient = .3}};
}
inline Two<AdamWUpdate> numbers(const AdamWUpdate&) {
  return {{.lr = .5, .eta = .1, .beta1 = .8, .beta2 = .9, .epsilon = .1},
          {.lr = .7,
           .eta = .2,
           .beta1 = .9,
           .beta2 = .99,
           .epsilon = .2,
           .wd = .02,
           .rescale_grad = .25,
           .clip_gradient = .3}};
}
inline Two<RMSPropUpdate> numbers(const RMSPropUpdate&) {
  return {{.lr = .1, .gamma1 = .9, .gamma2 = .8, .epsilon = .5},
          {.lr = .2,
           .gamma1 = .8,
           .gamma2 = .9,
           .epsilon = .25,
           .wd = .02,
           .rescale_grad = .25,
           .clip_gradient = .3,
           .clip_weights = .7}};
}
inline Two<AdaGradUpdate> numbers(const AdaGradUpdate&) {
  return {{.lr = .1, .epsilon = .1},
          {.lr = .2, .epsilon = .2, .wd = .02, .rescale_grad = .25, .clip_gradient = .3}};
}
inline Two<AdaDeltaUpdate> numbers(const AdaDeltaUpdate&) {
  return {{.lr = .5, .rho = .9, .epsilon = .05},
          {.lr = 1, .rho = .8, .epsilon = .1, .wd = .02, .rescale_grad = .25, .clip_gradient = .3}};
}
inline Two<NadamUpdate> numbers(const NadamUpdate&) {
  return {{.lr = .1,
           .beta1 = .8,
           .beta2 = .9,
           .epsilon = .1,
           .momentum = .45,
           .next_momentum = .5,
           .schedule = .2,
           .correction2 = .3},
          {.lr = .2,
           .beta1 = .9,
           .beta2 = .99,
           .epsilon = .2,
           .wd = .02,
           .rescale_grad = .25,
           .clip_gradient = .3,
           .momentum = .6,
           .next_momentum = .7,
           .schedule = .4,
           .correction2 = .5}};
}
inline Two<FtrlUpdate> numbers(const FtrlUpdate&) {
  return {{.lr = .3, .lamda1 = 0, .beta = 0},
          {.lr = .5, .lamda1 = .1, .beta = 1, .wd = .02, .rescale_grad = .25, .clip_gradient = .3}};
}
inline Two<SignumUpdate> numbers(const SignumUpdate&) {
  return {{.lr = .1, .momentum = .7},
          {.lr = .2,
           .momentum = .9,
           .wd = .02,
           .rescale_grad = .25,
           .clip_gradient = .3,
           .wd_lh = .03}};
}
inline Two<LionUpdate> numbers(const LionUpdate&) {
  return {
      {.lr = .1, .beta1 = .8, .beta2 = .9},
      {.lr = .2, .beta1 = .9, .beta2 = .99, .wd = .02, .rescale_grad = .25, .clip_gradient = .3}};
}
inline Two<LambUpdate> numbers(const LambUpdate&) {
  return {{.lr = .1,
           .beta1 = .8,
           .beta2 = .9,
           .epsilon = .1,
           .correction1 = .2,
           .correction2 = .3,
           .lower_bound = 0},
          {.lr = .2,
           .beta1 = .9,
           .beta2 = .99,
           .epsilon = .2,
           .wd = .1,
           .rescale_grad = .5,
           .clip_gradient = .3,
           .correction1 = .4,
           .correction2 = .5,
           .upper_bound = 2}};
}
inline Two<LarsUpdate> numbers(const LarsUpdate&) {
  return {{.lr = .1, .momentum = .8, .eta = .2},
          {.lr = .2,
           .momentum = .9,
           .eta = .1,
           .epsilon = .01,
           .wd = .1,
           .rescale_grad = .5,
           .clip_gradient = .3}};
}

// Sums of squares and largest absolute values are >= 0. Here they exceed the square of any mean.
inline bool is_signed(std::string_view state) {
  return state == "mom" || state == "mean" || state == "g_mean" || state == "delta" || state == "z";
}

// A matrix alone, and a vector and a matrix in one call.
template <class N, const UpdateOp<N>& op>
Samples samples(Context c, DType d) {
  const Two<N> two = numbers(N());
  const auto call = [&](const N& n, const std::vector<Shape>& shapes) {
    Tensors in;
    const auto add = [&](const Shape& shape, double low, double high) {
      in.push_back(sample_values(c, d, shape, low, high, static_cast<int>(in.size()) + 1));
    };
    for (const Shape& shape : shapes) {
      add(shape, -2, 2);
      add(shape, -2, 2);
      for (const char* const* s = op.state_names; *s; ++s)
        is_signed(*s) ? add(shape, -2, 2) : add(shape, 5, 7);
    }
    Sample sample(std::move(in), Live<N>{n});
    sample.differentiable = false;
    return sample;
  };
  return {call(two.first, {{3, 4}}), call(two.second, {{5}, {2, 3}})};
}

}  // namespace locus::optim_samples
