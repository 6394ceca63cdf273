// Calls by name of NumPy's functions that order, gather, rearrange, search and count, and of random
// numbers.
#pragma once

#include <locus/ops/elementwise.h>
#include <locus/ops/gather.h>
#include <locus/ops/index.h>
#include <locus/ops/join.h>
#include <locus/ops/order.h>
#include <locus/ops/random.h>
#include <locus/ops/rearrange.h>
#include <locus/ops/resize.h>
#include <locus/ops/search.h>
#include <locus/ops/special.h>
#include <locus/ops/statistics.h>
#include <locus/ops/unary.h>
#include <locus/ops/view.h>
#include "tests/registry/named_call.h"

namespace locus::test {

inline NamedCalls named_order() {
  using T = const Tensors&;
  using C = Context;
  const NamedInput m{{2, 3}}, ids{{2, 2}, i64};
  return {
      // order
      {"sort",
       {m},
       {{"axis", 0}, {"descending", true}},
       [](T x, C) { return sort(x[0], {.axis = 0, .descending = true}); }},
      {"argsort",
       {m},
       {{"axis", {}}},
       [](T x, C) { return argsort(x[0], {.axis = std::nullopt}); }},
      {"lexsort", {m, m}, {{"axis", 0}}, [](T x, C) { return lexsort(x, {.axis = 0}); }},
      {"topk",
       {m},
       {{"k", 2}, {"largest", false}},
       [](T x, C) {
         const Topk t = topk(x[0], 2, {.largest = false});
         return Tensors{t.values, t.indices};
       }},
      {"partition", {m}, {{"kth", 1}}, [](T x, C) { return partition(x[0], 1); }},
      {"argpartition",
       {m},
       {{"kth", {0, -1}}, {"axis", 1}},
       [](T x, C) {
         return argpartition(x[0], {0, -1}, {.axis = 1});
       }},
      // gather
      {"take_along_axis",
       {{{2, 3}}, ids},
       {{"mode", "clip"}},
       [](T x, C) { return take_along_axis(x[0], x[1], {.mode = IndexMode::clip}); }},
      {"put_along_axis",
       {m, ids, {{2, 1}}},
       {{"axis", 1}, {"inplace", false}},
       [](T x, C) { return put_along_axis(x[0], x[1], x[2], {.axis = 1, .inplace = false}); }},
      {"gather_nd", {{{3, 3}}, ids}, {}, [](T x, C) { return gather_nd(x[0], x[1]); }},
      {"scatter_nd",
       {{{4, 2}}, {{1, 4}, i64}},
       {{"shape", {3, 2}}, {"accumulate", true}},
       [](T x, C) {
         return scatter_nd(x[0], x[1], {3, 2}, {.accumulate = true});
       }},
      {"index_add",
       {{{3, 2}}, {{4}, i64}, {{4, 2}}},
       {{"axis", 0}, {"alpha", 2}},
       [](T x, C) { return index_add(x[0], 0, x[1], x[2], {.alpha = 2}); }},
      {"index_put",
       {{{3, 3}}, {{2}}, {{2}, i64}, {{2}, i64}},
       {{"accumulate", true}},
       [](T x, C) {
         return index_put(x[0], {x[2], x[3]}, x[1], {.accumulate = true});
       }},
      {"argwhere", {{{3, 4}, i64}}, {}, [](T x, C) { return argwhere(x[0]); }},
      {"compress",
       {{{3}, i64}, m},
       {{"axis", 1}},
       [](T x, C) { return compress(x[0], x[1], {.axis = 1}); }},
      {"sequence_mask",
       {m, {{3}, i64}},
       {{"use_sequence_length", true}, {"value", -1}},
       [](T x, C) { return sequence_mask(x[0], x[1], {.value = -1}); }},
      {"unravel_index",
       {{{4}, i64}},
       {{"shape", {2, 3}}},
       [](T x, C) {
         return unravel_index(x[0], {2, 3});
       }},
      {"ravel_multi_index",
       {{{4}, i64}, {{4}, i64}},
       {{"dims", {2, 3}}, {"mode", "wrap"}},
       [](T x, C) {
         return ravel_multi_index(x, {2, 3}, IndexMode::wrap);
       }},
      // search
      {"searchsorted",
       {{{2}}, m},
       {{"side", "right"}},
       [](T x, C) { return searchsorted(x[0], x[1], {.side = Side::right}); }},
      {"digitize",
       {m, {{2}}},
       {{"right", true}},
       [](T x, C) { return digitize(x[0], x[1], {.right = true}); }},
      {"bincount",
       {{{6}, i64}, {{6}}},
       {{"minlength", 5}},
       [](T x, C) { return bincount(x[0], {.weights = x[1], .minlength = 5}); }},
      {"histogram",
       {{{6}, i64}, {{2}, i64}, {{6}}},
       {{"density", true}},
       [](T x, C) { return histogram(x[0], x[1], {.weights = x[2], .density = true}); }},
      {"isin",
       {{{6}, i64}, {{2}, i64}},
       {{"invert", true}},
       [](T x, C) { return isin(x[0], x[1], {.invert = true}); }},
      {"unique",
       {m},
       {{"return_inverse", true}, {"axis", 1}},
       [](T x, C) {
         const Unique u = unique(x[0], {.return_inverse = true, .axis = 1});
         return Tensors{u.values, u.inverse};
       }},
  };
}

inline NamedCalls named_rearrange() {
  using T = const Tensors&;
  using C = Context;
  const NamedInput m{{2, 3}}, image{{2, 4, 6, 6}};
  return {
      {"pad",
       {m},
       {{"pad_width", {0, 1, 2, 2}}, {"mode", "reflect"}},
       [](T x, C) {
         return pad(x[0], {{0, 1}, {2, 2}}, {.mode = PadMode::reflect});
       }},
      {"roll",
       {m},
       {{"shift", {1, -1}}, {"axis", {0, 1}}},
       [](T x, C) {
         return roll(x[0], {1, -1}, {0, 1});
       }},
      {"tril", {m}, {{"k", -1}}, [](T x, C) { return tril(x[0], -1); }},
      {"triu", {m}, {{"k", 1}}, [](T x, C) { return triu(x[0], 1); }},
      {"diag", {{{3}}}, {{"k", 1}}, [](T x, C) { return diag(x[0], 1); }},
      {"meshgrid",
       {{{3}}, {{2}}},
       {{"indexing", "ij"}},
       [](T x, C) { return meshgrid(x, {.indexing = Indexing::ij}); }},
      {"interpolate",
       {image},
       {{"size", {4, 9}}, {"mode", "bilinear"}, {"align_corners", true}},
       [](T x, C) {
         return interpolate(x[0], {4, 9},
                            {.mode = InterpolateMode::bilinear, .align_corners = true});
       }},
      {"space_to_depth",
       {image},
       {{"block_size", 2}},
       [](T x, C) { return space_to_depth(x[0], 2); }},
      {"depth_to_space",
       {image},
       {{"block_size", 2}},
       [](T x, C) { return depth_to_space(x[0], 2); }},
      {"im2col",
       {image},
       {{"kernel", {2, 3}}, {"stride", 2}, {"pad", 1}},
       [](T x, C) {
         return im2col(x[0], {2, 3}, {.stride = 2, .pad = 1});
       }},
      {"col2im",
       {{{2, 8, 9}}},
       {{"output_size", 6}, {"kernel", {2, 2}}, {"stride", 2}},
       [](T x, C) {
         return col2im(x[0], 6, {2, 2}, {.stride = 2});
       }},
      {"moveaxis",
       {image},
       {{"source", {0, 1}}, {"destination", {-1, 0}}},
       [](T x, C) {
         return moveaxis(x[0], {0, 1}, {-1, 0});
       }},
      {"rot90",
       {image},
       {{"k", -1}, {"axes", {2, 3}}},
       [](T x, C) {
         return rot90(x[0], -1, {2, 3});
       }},
      {"diagonal",
       {image},
       {{"offset", 1}, {"axis1", 2}, {"axis2", 3}},
       [](T x, C) { return diagonal(x[0], 1, 2, 3); }},
      {"split_v2",
       {m},
       {{"indices_or_sections", {1, 2}}, {"axis", 1}},
       [](T x, C) {
         return split(x[0], {1, 2}, {.axis = 1});
       }},
      {"array_split", {m}, {{"num_outputs", 2}}, [](T x, C) { return array_split(x[0], 2); }},
      // elementwise
      {"around", {m}, {{"decimals", 1}}, [](T x, C) { return around(x[0], 1); }},
      {"nan_to_num",
       {m},
       {{"nan", 2}, {"neginf", -5}},
       [](T x, C) { return nan_to_num(x[0], 2, {}, -5); }},
      {"polygamma", {m}, {{"n", 2}}, [](T x, C) { return polygamma(2, x[0]); }},
      {"divmod", {m, m}, {}, [](T x, C) { return divmod(x[0], x[1]); }},
  };
}

inline NamedCalls named_statistics() {
  using T = const Tensors&;
  using C = Context;
  const NamedInput m{{2, 3}};
  return {
      {"nansum", {m}, {{"axis", 1}}, [](T x, C) { return nansum(x[0], {.axis = 1}); }},
      {"nanmean", {m}, {{"axis", 0}}, [](T x, C) { return nanmean(x[0], {.axis = 0}); }},
      {"nanprod",
       {m},
       {{"keepdims", true}},
       [](T x, C) { return nanprod(x[0], {.keepdims = true}); }},
      {"nanmax", {m}, {{"axis", 1}}, [](T x, C) { return nanmax(x[0], {.axis = 1}); }},
      {"nanmin", {m}, {{"axis", -1}}, [](T x, C) { return nanmin(x[0], {.axis = -1}); }},
      {"nanvar", {m}, {{"ddof", 1}}, [](T x, C) { return nanvar(x[0], {.ddof = 1}); }},
      {"nanstd", {m}, {{"axis", 1}}, [](T x, C) { return nanstd(x[0], {.axis = 1}); }},
      {"count_nonzero",
       {m},
       {{"axis", 1}},
       [](T x, C) { return count_nonzero(x[0], {.axis = 1}); }},
      {"ptp", {m}, {{"axis", 1}}, [](T x, C) { return ptp(x[0], {.axis = 1}); }},
      {"average",
       {m, {{3}}},
       {{"axis", 1}},
       [](T x, C) { return average(x[0], {.axis = 1, .weights = x[1]}); }},
      {"weighted_average",
       {m, m},
       {{"keepdims", true}},
       [](T x, C) {
         const Average a = weighted_average(x[0], {.weights = x[1], .keepdims = true});
         return Tensors{a.average, a.sum_of_weights};
       }},
      {"diff",
       {m, {{2, 1}}},
       {{"n", 2}},
       [](T x, C) { return diff(x[0], {.n = 2, .prepend = x[1]}); }},
      {"median", {m}, {{"axis", 0}}, [](T x, C) { return median(x[0], {.axis = 0}); }},
      {"quantile",
       {m},
       {{"q", {.2, .7}}, {"axis", 1}},
       [](T x, C) {
         return quantile(x[0], {.2, .7}, {.axis = 1});
       }},
      {"percentile",
       {m},
       {{"q", {30, 80}}, {"method", "hazen"}, {"keepdims", true}},
       [](T x, C) {
         return percentile(x[0], {30, 80}, {.method = QuantileMethod::hazen, .keepdims = true});
       }},
  };
}

inline NamedCalls named_random() {
  using T = const Tensors&;
  using C = Context;
  const NamedInput m{{2, 3}};
  return {
      {"truncated_normal",
       {},
       {{"lower", -1}, {"upper", 2}, {"mean", .5}, {"size", 9}},
       [](T, C c) { return random::truncated_normal(-1, 2, .5, 1, {9}, c); }},
      {"laplace",
       {},
       {{"scale", 3}, {"size", {2, 3}}},
       [](T, C c) {
         return random::laplace(0, 3, {2, 3}, c);
       }},
      {"binomial",
       {},
       {{"n", 9}, {"p", .3}, {"size", 20}},
       [](T, C c) { return random::binomial(9, .3, {20}, c); }},
      {"exponential", {m}, {}, [](T x, C) { return random::exponential(x[0]); }},
      {"random_gamma",
       {m, {{3}}},
       {{"size", {4, 2, 3}}},
       [](T x, C) {
         return random::gamma(x[0], x[1], {4, 2, 3});
       }},
      {"beta", {m, {{3}}}, {{"dtype", f64}}, [](T x, C) { return random::beta(x[0], x[1], f64); }},
      {"poisson", {m}, {}, [](T x, C) { return random::poisson(x[0]); }},
      {"multinomial",
       {},
       {{"n", 20}, {"pvals", {.5, .2, .3}}, {"size", 4}},
       [](T, C c) {
         return random::multinomial(20, {.5, .2, .3}, {4}, c);
       }},
      {"choice",
       {{{5, 2}}},
       {{"size", 3}, {"replace", false}},
       [](T x, C) { return random::choice(x[0], {3}, {.replace = false}); }},
  };
}

}  // namespace locus::test
