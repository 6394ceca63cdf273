// Shared by the rearrange family's host files.
#pragma once

#include <functional>

#include <locus/core/tensor.h>
#include <locus/ops/rearrange/rearrange_kernel.h>
#include <locus/ops/rearrange/resample_kernel.h>

namespace locus::detail {

// The length of an axis of n elements after padding. ValueError for negative widths, and for an
// empty axis whose elements would be repeated.
int64_t padded_axis(int64_t n, int64_t before, int64_t after, int axis, PadRule rule);
// The number of windows along spatial axis s, of n elements. Errors begin with `who`.
int64_t window_count(int64_t n, const Windows& w, int s, const char* who = "");
// ShapeError unless 63 bits count the positions, between n elements, of `length` elements.
void expect_positions(int64_t n, int64_t length, int axis);
// The shape of the view "diagonal" of m. ShapeError for axes that m lacks.
Meta diagonal_meta(const Meta& m, const DiagonalAttrs& a);
// f(x); 16-bit x is cast to f32, and the result back.
Tensor in_f32(const Tensor& x, const std::function<Tensor(Tensor)>& f);

}  // namespace locus::detail
