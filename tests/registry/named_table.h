// A call by name of every function in ops::list(), and the same call of the function itself.
// Functions of formulas without attributes are missing: their inputs are the registry's samples.
// named_functions_test.cc walks the table.
#pragma once

#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include <locus/ops/activation.h>
#include <locus/ops/allclose.h>
#include <locus/ops/collective.h>
#include <locus/ops/convolution.h>
#include <locus/ops/copy.h>
#include <locus/ops/create.h>
#include <locus/ops/dense.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/index.h>
#include <locus/ops/join.h>
#include <locus/ops/named.h>
#include <locus/ops/norm.h>
#include <locus/ops/optim.h>
#include <locus/ops/pooling.h>
#include <locus/ops/random.h>
#include <locus/ops/reduce.h>
#include <locus/ops/softmax.h>
#include <locus/ops/unary.h>
#include <locus/ops/view.h>

namespace locus::test {

// An input: floats lie within (.2, 2), integers are 0, 1 or 2.
struct NamedInput {
  NamedInput(std::initializer_list<Dim> lengths, DType d = f32) : shape(lengths), dtype(d) {}
  Shape shape;
  DType dtype;
};

struct NamedCall {
  std::string name;
  std::vector<NamedInput> inputs;
  ops::Attributes attributes;
  // x: the inputs; c: where they live.
  std::function<ops::Result(const Tensors& x, Context c)> call;
};
inline void PrintTo(const NamedCall& f, std::ostream* os) { *os << f.name; }

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

inline std::vector<NamedCall> named_calls() {
  using T = const Tensors&;
  using C = Context;
  const NamedInput m{{2, 3}}, image{{2, 4, 6, 6}}, of_4{{4}};
  return {
      // elementwise
      {"clip", {m}, {{"a_min", .5}, {"a_max", 1}}, [](T x, C) { return clip(x[0], .5, 1); }},
      {"smooth_l1", {m}, {{"scalar", 2}}, [](T x, C) { return smooth_l1(x[0], 2); }},
      {"silu", {m}, {}, [](T x, C) { return silu(x[0]); }},
      {"swish", {m}, {{"beta", 1.7}}, [](T x, C) { return swish(x[0], 1.7); }},
      {"leaky_relu", {m}, {{"slope", .1}}, [](T x, C) { return leaky_relu(x[0], .1); }},
      {"prelu", {m, {{3}}}, {}, [](T x, C) { return prelu(x[0], x[1]); }},
      {"elu", {m}, {{"alpha", .7}}, [](T x, C) { return elu(x[0], .7); }},
      {"hard_sigmoid", {m}, {{"beta", .3}}, [](T x, C) { return hard_sigmoid(x[0], .2, .3); }},
      {"softcap", {m}, {{"c", 1.5}}, [](T x, C) { return softcap(x[0], 1.5); }},
      {"allclose",
       {m, m},
       {{"atol", 9.}},
       [](T x, C) {
         return full({}, allclose(x[0], x[1], {.atol = 9}), {cpu(), bool_});
       }},
      // create and random
      {"zeros",
       {},
       {{"shape", {2, 3}}},
       [](T, C c) {
         return zeros({2, 3}, c);
       }},
      {"ones",
       {},
       {{"shape", 4}, {"dtype", f64}},
       [](T, C c) {
         return ones({4}, {c, f64});
       }},
      {"full",
       {},
       {{"shape", {2}}, {"fill_value", 3}, {"dtype", "int8"}},
       [](T, C c) {
         return full({2}, 3, {c, i8});
       }},
      {"zeros_like", {m}, {{"dtype", "f16"}}, [](T x, C) { return zeros_like(x[0], f16); }},
      {"ones_like", {m}, {}, [](T x, C) { return ones_like(x[0]); }},
      {"arange",
       {},
       {{"stop", 9}, {"start", 1.5}, {"step", 2}},
       [](T, C c) { return arange(1.5, 9, 2, c); }},
      {"linspace",
       {},
       {{"start", 0}, {"stop", 1}, {"num", 5}, {"endpoint", false}},
       [](T, C c) { return linspace(0, 1, 5, false, c); }},
      {"eye", {}, {{"N", 3}, {"M", 4}, {"k", -1}}, [](T, C c) { return eye(3, 4, -1, c); }},
      {"uniform",
       {},
       {{"high", 3}, {"size", {2, 3}}},
       [](T, C c) {
         return random::uniform(0, 3, {2, 3}, c);
       }},
      {"normal",
       {},
       {{"scale", 2}, {"size", {5}}},
       [](T, C c) { return random::normal(0, 2, {5}, c); }},
      {"randint",
       {},
       {{"low", -3}, {"high", 9}, {"size", 7}},
       [](T, C c) { return random::randint(-3, 9, {7}, c); }},
      {"bernoulli",
       {},
       {{"prob", .4}, {"size", 20}},
       [](T, C c) { return random::bernoulli(.4, {20}, c); }},
      {"permutation", {}, {{"n", 6}}, [](T, C c) { return random::permutation(6, c); }},
      {"shuffle", {m}, {}, [](T x, C) { return random::shuffle(x[0]); }},
      // reduce
      {"sum", {m}, {{"axis", 1}}, [](T x, C) { return sum(x[0], 1); }},
      {"mean",
       {m},
       {{"axis", {0, 1}}, {"keepdims", true}},
       [](T x, C) {
         return mean(x[0], {.axis = {0, 1}, .keepdims = true});
       }},
      {"prod", {m}, {{"axis", -2}}, [](T x, C) { return prod(x[0], -2); }},
      {"max", {m}, {{"axis", {}}}, [](T x, C) { return max(x[0]); }},
      {"min", {m}, {{"keepdims", true}}, [](T x, C) { return min(x[0], {.keepdims = true}); }},
      {"any", {m}, {{"axis", 0}}, [](T x, C) { return any(x[0], 0); }},
      {"all", {m}, {{"axis", 0}}, [](T x, C) { return all(x[0], 0); }},
      {"argmax", {m}, {{"axis", 1}}, [](T x, C) { return argmax(x[0], 1); }},
      {"argmin", {m}, {}, [](T x, C) { return argmin(x[0]); }},
      {"logsumexp", {m}, {{"axis", 1}}, [](T x, C) { return logsumexp(x[0], 1); }},
      {"var", {m}, {{"ddof", 1}}, [](T x, C) { return var(x[0], {.ddof = 1}); }},
      {"std",
       {m},
       {{"axis", 1}, {"ddof", .5}},
       [](T x, C) { return locus::std(x[0], {.axis = 1, .ddof = .5}); }},
      {"norm",
       {m},
       {{"ord", 3}, {"axis", 0}},
       [](T x, C) { return norm(x[0], {.ord = 3, .axis = 0}); }},
      {"sum_to",
       {m},
       {{"shape", {1, 3}}},
       [](T x, C) {
         return sum_to(x[0], {1, 3});
       }},
      // softmax, products
      {"softmax",
       {m},
       {{"axis", 0}, {"temperature", .5}},
       [](T x, C) { return softmax(x[0], {.axis = 0, .temperature = .5}); }},
      {"log_softmax",
       {m},
       {{"temperature", 2}},
       [](T x, C) { return log_softmax(x[0], {.temperature = 2}); }},
      {"softmax_cross_entropy",
       {{{4, 3}}, {{4}, i64}},
       {},
       [](T x, C) { return softmax_cross_entropy(x[0], x[1]); }},
      {"dot", {m, {{3, 2}}}, {}, [](T x, C) { return dot(x[0], x[1]); }},
      {"matmul",
       {m, {{4, 3}}},
       {{"transpose_b", true}},
       [](T x, C) { return matmul(x[0], x[1], {.transpose_b = true}); }},
      {"dense",
       {m, {{5, 3}}, {{5}}},
       {{"activation", "relu"}},
       [](T x, C) { return dense(x[0], x[1], x[2], FusedActivation::relu); }},
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
      // view
      {"reshape",
       {m},
       {{"shape", {3, -1}}},
       [](T x, C) {
         return reshape(x[0], {3, -1});
       }},
      {"flatten", {image}, {}, [](T x, C) { return flatten(x[0]); }},
      {"transpose",
       {m},
       {{"axes", {1, 0}}},
       [](T x, C) {
         return transpose(x[0], {1, 0});
       }},
      {"swapaxes",
       {image},
       {{"axis1", 1}, {"axis2", -1}},
       [](T x, C) { return swapaxes(x[0], 1, -1); }},
      {"expand_dims", {m}, {{"axis", -1}}, [](T x, C) { return expand_dims(x[0], -1); }},
      {"squeeze", {{{1, 3, 1}}}, {{"axis", 2}}, [](T x, C) { return squeeze(x[0], 2); }},
      {"broadcast_to",
       {m},
       {{"shape", {4, 2, 3}}},
       [](T x, C) {
         return broadcast_to(x[0], {4, 2, 3});
       }},
      {"flip", {m}, {{"axis", 1}}, [](T x, C) { return flip(x[0], 1); }},
      {"slice_axis",
       {m},
       {{"axis", 1}, {"begin", -1}, {"step", -1}},
       [](T x, C) { return slice_axis(x[0], 1, Slice(-1, std::nullopt, -1)); }},
      // index, join, copy
      {"take",
       {{{5, 2}}, {{3}, i64}},
       {{"axis", 1}, {"mode", "clip"}},
       [](T x, C) { return take(x[0], x[1], {.axis = 1, .mode = IndexMode::clip}); }},
      {"pick",
       {{{4, 3}}, {{4}, i32}},
       {{"keepdims", true}},
       [](T x, C) { return pick(x[0], x[1], {.keepdims = true}); }},
      {"one_hot",
       {{{4}, i64}},
       {{"depth", 3}, {"on_value", 5}, {"dtype", "i32"}},
       [](T x, C) { return one_hot(x[0], 3, {.on_value = 5, .dtype = i32}); }},
      {"nonzero", {{{3, 4}, i64}}, {}, [](T x, C) { return nonzero(x[0]); }},
      {"concat", {m, {{2, 1}}}, {}, [](T x, C) { return concat(x); }},
      {"concatenate", {m, m}, {}, [](T x, C) { return concat(x, {.axis = 0}); }},
      {"stack", {m, m, m}, {{"axis", -1}}, [](T x, C) { return stack(x, {.axis = -1}); }},
      {"split",
       {m},
       {{"num_outputs", 3}, {"squeeze_axis", true}},
       [](T x, C) { return split(x[0], 3, {.squeeze_axis = true}); }},
      {"tile",
       {m},
       {{"reps", {2, 1, 2}}},
       [](T x, C) {
         return tile(x[0], {2, 1, 2});
       }},
      {"repeat", {m}, {{"repeats", 2}, {"axis", 1}}, [](T x, C) { return repeat(x[0], 2, 1); }},
      {"copy", {m}, {}, [](T x, C) { return copy(x[0]); }},
      {"contiguous", {m}, {}, [](T x, C) { return contiguous(x[0]); }},
      {"cast", {m}, {{"dtype", "float64"}}, [](T x, C) { return cast(x[0], f64); }},
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
