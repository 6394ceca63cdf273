// Calls by name of what layers and optimizers are made of, and of collectives.
#pragma once

#include <locus/ops/collective.h>
#include <locus/ops/convolution.h>
#include <locus/ops/norm.h>
#include <locus/ops/optim.h>
#include <locus/ops/pooling.h>
#include "tests/registry/named_call.h"

namespace locus::test {

// A call of update op on one weight.
template <class Numbers>
NamedCall updates(const UpdateOp<Numbers>& op, size_t states, ops::Attributes attributes,
                  const Numbers& numbers) {
  std::vector<NamedInput> inputs(2 + states, {{3, 2}});
  return {op.name, inputs, std::move(attributes), [&op, numbers](const Tensors& x, Context) {
            std::vector<Tensors> lists;
            Tensors written{x[0]};
            for (size_t i = 2; i < x.size(); ++i) {
              lists.push_back({x[i]});
              written.push_back(x[i]);
            }
            op({x[0]}, {x[1]}, lists, numbers);
            return written;
          }};
}

inline NamedCalls named_layers() {
  using T = const Tensors&;
  using C = Context;
  const NamedInput m{{2, 3}}, image{{2, 4, 6, 6}}, of_4{{4}};
  return {
      // images
      {"convolution",
       {image, {{2, 2, 3, 3}}, {{2}}},
       {{"strides", {2, 1}}, {"padding", 1}, {"groups", 2}, {"activation", "relu"}},
       [](T x, C) {
         return convolution(
             x[0], x[1], x[2],
             {.strides = {2, 1}, .padding = 1, .groups = 2, .activation = FusedActivation::relu});
       }},
      {"deconvolution",
       {image, {{4, 2, 3, 3}}},
       {{"strides", 2}, {"adj", 1}},
       [](T x, C) { return deconvolution(x[0], x[1], {}, {.strides = 2, .adj = 1}); }},
      {"convolution_weight_grad",
       {image, {{2, 3, 4, 4}}},
       {{"kernel", 3}},
       [](T x, C) { return convolution_weight_grad(x[0], x[1], 3); }},
      {"max_pool",
       {image},
       {{"pool_size", {2, 3}}, {"strides", 1}},
       [](T x, C) {
         return max_pool(x[0], {2, 3}, {.strides = 1});
       }},
      {"avg_pool",
       {image},
       {{"pool_size", 4}, {"padding", 1}, {"ceil_mode", true}, {"count_include_pad", false}},
       [](T x, C) {
         return avg_pool(x[0], 4, {.padding = 1, .ceil_mode = true, .count_include_pad = false});
       }},
      {"global_max_pool",
       {image},
       {{"layout", "NHWC"}},
       [](T x, C) { return global_max_pool(x[0], "NHWC"); }},
      {"global_avg_pool", {image}, {}, [](T x, C) { return global_avg_pool(x[0]); }},
      {"adaptive_avg_pool",
       {image},
       {{"output_size", {2, 5}}},
       [](T x, C) {
         return adaptive_avg_pool(x[0], {2, 5});
       }},
      {"batch_norm",
       {image, of_4, of_4, of_4, of_4},
       {{"epsilon", .1}},
       [](T x, C) { return batch_norm(x[0], x[1], x[2], x[3], x[4], {.epsilon = .1}); }},
      {"layer_norm",
       {m, {{3}}, {{3}}},
       {{"epsilon", .1}},
       [](T x, C) { return layer_norm(x[0], x[1], x[2], {.epsilon = .1}); }},
      {"rms_norm", {m, {{2}}}, {{"axis", 0}}, [](T x, C) { return rms_norm(x[0], x[1], {0}); }},
      {"group_norm",
       {image, of_4, of_4},
       {{"num_groups", 2}},
       [](T x, C) { return group_norm(x[0], x[1], x[2], {.num_groups = 2}); }},
      {"instance_norm",
       {image, of_4, of_4},
       {},
       [](T x, C) { return instance_norm(x[0], x[1], x[2]); }},
      // of one context each
      {"all_reduce",
       {m},
       {{"op", "mean"}},
       [](T x, C c) { return all_reduce({c}, x, {.op = ReduceOp::mean}); }},
      {"reduce", {m}, {{"op", "mean"}}, [](T x, C c) { return reduce({c}, x, 0, ReduceOp::mean); }},
      {"reduce_scatter",
       {m},
       {{"axis", 1}},
       [](T x, C c) { return reduce_scatter({c}, x, {.axis = 1}); }},
      {"all_gather", {m}, {{"axis", 1}}, [](T x, C c) { return all_gather({c}, x, {.axis = 1}); }},
      {"all_to_all",
       {m},
       {{"concat_axis", 1}},
       [](T x, C c) { return all_to_all({c}, x, {.concat_axis = 1}); }},
      {"send_recv", {m}, {{"sources", 0}}, [](T x, C c) { return send_recv({c}, x, {0}); }},
      // optim
      {"multi_sum_sq", {m, of_4}, {}, [](T x, C) { return multi_sum_sq(x); }},
      {"multi_all_finite", {m, of_4}, {}, [](T x, C) { return multi_all_finite(x); }},
      {"multi_clip",
       {m, of_4},
       {{"limit", 1}},
       [](T x, C) {
         multi_clip(x, 1);
         return x;
       }},
      updates(sgd_update, 0, {{"lr", .3}}, {.lr = .3}),
      updates(sgd_mom_update, 1, {{"momentum", .8}}, {.momentum = .8}),
      updates(nag_mom_update, 1, {{"wd", .1}}, {.wd = .1}),
      updates(adam_update, 2, {{"beta2", .9}}, {.beta2 = .9}),
      updates(adamw_update, 2, {{"eta", .5}}, {.eta = .5}),
      updates(rmsprop_update, 1, {{"clip_weights", .7}}, {.clip_weights = .7}),
      updates(rmspropalex_update, 3, {{"gamma2", .7}}, {.gamma2 = .7}),
      updates(adagrad_update, 1, {{"epsilon", .1}}, {.epsilon = .1}),
      updates(adadelta_update, 2, {{"rho", .5}}, {.rho = .5}),
      updates(adamax_update, 2, {{"rescale_grad", .5}}, {.rescale_grad = .5}),
      updates(nadam_update, 2, {{"schedule", .3}}, {.schedule = .3}),
      updates(ftrl_update, 2, {{"lamda1", .2}}, {.lamda1 = .2}),
      updates(signsgd_update, 0, {{"lr", .2}}, {.lr = .2}),
      updates(signum_update, 1, {{"wd_lh", .1}}, {.wd_lh = .1}),
      updates(lion_update, 1, {{"clip_gradient", .4}}, {.clip_gradient = .4}),
      updates(lamb_update, 2, {{"upper_bound", .4}}, {.upper_bound = .4}),
      updates(lars_update, 1, {{"eta", .4}}, {.eta = .4}),
  };
}

}  // namespace locus::test
