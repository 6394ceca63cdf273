// Calls by name of views, indexing, joins and copies.
#pragma once

#include <locus/ops/copy.h>
#include <locus/ops/index.h>
#include <locus/ops/join.h>
#include <locus/ops/view.h>
#include "tests/registry/named_call.h"

namespace locus::test {

inline NamedCalls named_shapes() {
  using T = const Tensors&;
  using C = Context;
  const NamedInput m{{2, 3}}, image{{2, 4, 6, 6}};
  return {
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
  };
}

}  // namespace locus::test
