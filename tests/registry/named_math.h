// Calls by name of functions of elements, reductions, scans and products.
#pragma once

#include <locus/ops/activation.h>
#include <locus/ops/allclose.h>
#include <locus/ops/create.h>
#include <locus/ops/dense.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/matmul.h>
#include <locus/ops/random.h>
#include <locus/ops/reduce.h>
#include <locus/ops/scan.h>
#include <locus/ops/softmax.h>
#include <locus/ops/unary.h>
#include "tests/registry/named_call.h"

namespace locus::test {

inline NamedCalls named_math() {
  using T = const Tensors&;
  using C = Context;
  const NamedInput m{{2, 3}};
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
      {"cumsum", {m}, {{"axis", 1}}, [](T x, C) { return cumsum(x[0], 1); }},
      {"cumprod", {m}, {}, [](T x, C) { return cumprod(x[0]); }},
      {"logcumsumexp", {m}, {{"axis", 0}}, [](T x, C) { return logcumsumexp(x[0], 0); }},
      {"cummax", {m}, {{"axis", -1}}, [](T x, C) { return cummax(x[0], -1); }},
      {"cummin", {m}, {{"axis", 0}}, [](T x, C) { return cummin(x[0], 0); }},
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
  };
}

}  // namespace locus::test
