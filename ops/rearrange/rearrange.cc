// Inference, gradients and samples of the rearrangements.
#include <locus/core/error.h>
#include <locus/core/memory/storage.h>
#include <locus/core/op.h>
#include <locus/ops/copy.h>
#include <locus/ops/create.h>
#include <locus/ops/rearrange/rearrange_parts.h>
#include <locus/ops/view.h>

namespace locus {
namespace {

using detail::padded_axis, detail::window_count;

// --- Shapes of results ---

Meta result_of(const Pad& r, const Meta& in) {
  detail::check_number("", r.value, in.dtype);
  Meta out = in;
  for (int a = 0; a < in.rank; ++a)
    out.shape[a] = padded_axis(in.shape[a], r.before[a], r.after[a], a, r.rule);
  return out;
}

Meta result_of(const Roll& r, const Meta& in) {
  for (int a = 0; a < in.rank; ++a)
    if (r.shift[a] != 0 && (r.shift[a] < 0 || r.shift[a] >= in.shape[a]))
      throw ValueError("expected a shift in [0, ", in.shape[a], ") for axis ", a, ", got ",
                       r.shift[a]);
  return in;
}

Meta result_of(const Triangle& r, const Meta& in) {
  if (in.rank < 2) throw ShapeError("expected a matrix, or a batch of matrices");
  const int64_t rows = in.shape[in.rank - 2], columns = in.shape[in.rank - 1];
  if (r.k < -rows || r.k > columns)
    throw ValueError("expected k from ", -rows, " to ", columns, ", got ", r.k);
  return in;
}

Meta result_of(const Windows& r, const Meta& in) {
  const int axes = in.rank - 2;
  if (axes < 1 || axes > 3)
    throw ShapeError("expected data with 1 to 3 spatial axes, rank 3 to 5, got ", Shape(in));
  Meta out{in.dtype, static_cast<int8_t>(2 + 2 * axes), {in.shape[0], in.shape[1]}};
  for (int s = 0; s < axes; ++s) {
    out.shape[2 + s] = r.kernel[s];
    out.shape[2 + axes + s] = window_count(in.shape[2 + s], r, s);
  }
  return out;
}

Meta result_of(const Nearest& r, const Meta& in) {
  Meta out = in;
  for (int a = 0; a < in.rank; ++a) {
    if (r.size[a] < 0 || (r.size[a] > 0 && in.shape[a] == 0))
      throw ShapeError("cannot make ", r.size[a], " elements of ", in.shape[a], " along axis ", a);
    if (r.size[a] != in.shape[a]) detail::expect_positions(in.shape[a], r.size[a], a);
    out.shape[a] = r.size[a];
  }
  return out;
}

// --- Gradients: a rearrangement's adjoint, applied to the gradient of its result ---

Tensor adjoint(const Pad& r, const Tensor& dout, const Meta& in) {
  if (r.rule == PadRule::constant) {
    std::vector<Index> inside;
    for (int a = 0; a < in.rank; ++a)
      inside.push_back(Slice(r.before[a], r.before[a] + in.shape[a]));
    return detail::basic_index(dout, inside);
  }
  static const OpRef<PadGrad> op("pad_grad");
  return detail::in_f32(dout, [&](Tensor d) {
    for (int a = 0; a < in.rank; ++a)
      if (r.before[a] != 0 || r.after[a] != 0)
        d = invoke(op, {d}, PadGrad{r.before[a], in.shape[a], a, r.rule});
    return d;
  });
}

Tensor adjoint(Roll r, const Tensor& dout, const Meta& in) {
  static const OpRef<Roll> op(Roll::kName);
  for (int a = 0; a < in.rank; ++a)
    if (r.shift[a] != 0) r.shift[a] = in.shape[a] - r.shift[a];
  return invoke(op, {dout}, r);
}

Tensor adjoint(const Triangle& r, const Tensor& dout, const Meta&) {
  static const OpRef<Triangle> op(Triangle::kName);
  return invoke(op, {dout}, r);
}

Tensor adjoint(const Windows& r, const Tensor& dout, const Meta& in) {
  static const OpRef<Columns> op(Columns::kName);
  Columns c{r};
  for (int s = 0; s < in.rank - 2; ++s) c.size[s] = in.shape[2 + s];
  return invoke(op, {dout}, c);
}

Tensor adjoint(const Nearest&, const Tensor& dout, const Meta& in) {
  static const OpRef<NearestGrad> op(NearestGrad::kName);
  return detail::in_f32(dout, [&](Tensor d) {
    for (int a = 0; a < in.rank; ++a)
      if (d.shape()[a] != in.shape[a]) d = invoke(op, {d}, NearestGrad{in.shape[a], a});
    return d;
  });
}

// --- Samples ---

template <class R>
struct Case {
  Shape shape;
  R rearrangement;
};

std::vector<Case<Pad>> cases(const Pad&, DType) {
  return {{{2, 3}, {{}, {1, 0}, {0, 2}, 1}},
          {{4}, {{}, {2}, {9}, 0, PadRule::reflect}},
          {{3, 2}, {{}, {7, 1}, {2, 3}, 0, PadRule::symmetric}},
          {{2, 3, 2}, {{}, {0, 4}, {1, 5}, 0, PadRule::wrap}},
          {{2, 3}, {{}, {1, 2}, {2, 1}, 0, PadRule::edge}},
          {{}, {}}};
}
std::vector<Case<Roll>> cases(const Roll&, DType) {
  return {{{5}, {{}, {2}}}, {{2, 3, 4}, {{}, {1, 2, 0}}}, {{3, 4}, {{}, {0, 3}}}};
}
std::vector<Case<Triangle>> cases(const Triangle&, DType) {
  return {{{3, 4}, {{}, 0, false}}, {{2, 4, 3}, {{}, -2, false}}, {{3, 3}, {{}, 1, false}},
          {{3, 4}, {{}, 0, true}},  {{2, 4, 3}, {{}, -2, true}},  {{3, 3}, {{}, 1, true}}};
}
std::vector<Case<Windows>> cases(const Windows&, DType) {
  return {{{2, 2, 5, 6}, {{}, {2, 3}, {1, 2}, {2, 1}, {1, 0}}},
          {{1, 2, 7}, {{}, {3}, {2}, {1}, {2}}},
          {{1, 1, 3, 4, 3}, {{}, {2, 2, 2}, {1, 1, 1}, {1, 2, 1}, {0, 1, 1}}}};
}
std::vector<Case<Nearest>> cases(const Nearest&, DType) {
  return {{{2, 3, 4}, {{}, {2, 7, 3}}}, {{5, 2}, {{}, {3, 2}}}};
}

// --- Registration ---

template <class R>
DType infer(std::span<const Meta> in, const R& r, std::span<Meta> out) {
  out[0] = result_of(r, in[0]);
  return in[0].dtype;
}
template <class R>
Tensors gradient(const Saved& saved, std::span<const Tensor> dout) {
  return {adjoint(saved.attrs<R>(), dout[0], saved.in_meta(0))};
}
template <class R>
Samples samples(Context c, DType d) {
  Samples all;
  for (const Case<R>& k : cases(R(), d))
    all.push_back(Sample({sample_values(c, d, k.shape)}, k.rearrangement));
  return all;
}

}  // namespace

namespace detail {

int64_t padded_axis(int64_t n, int64_t before, int64_t after, int axis, PadRule rule) {
  if (before < 0 || after < 0)
    throw ValueError("expected widths of at least 0, got (", before, ", ", after, ") for axis ",
                     axis);
  int64_t length;
  if (__builtin_add_overflow(n, before, &length) || __builtin_add_overflow(length, after, &length))
    throw ShapeError("expected a length that 63 bits count for axis ", axis);
  if (n == 0 && length > 0 && rule != PadRule::constant)
    throw ValueError("axis ", axis,
                     " is empty, so no element can be repeated; expected mode constant");
  return length;
}

void expect_positions(int64_t n, int64_t length, int axis) {
  int64_t product = 0;
  if (__builtin_mul_overflow(n, length, &product) || product >= int64_t{1} << 62)
    throw ShapeError("cannot make ", length, " elements of ", n, " along axis ", axis,
                     ": expected lengths whose product is less than 2^62");
}

int64_t window_count(int64_t n, const Windows& w, int s, const char* who) {
  constexpr int64_t kMost = int64_t{1} << 29;  // so that 32 bits count where 31 count the result
  if (w.kernel[s] < 1 || w.stride[s] < 1 || w.dilate[s] < 1 || w.pad[s] < 0 || w.pad[s] > kMost ||
      w.kernel[s] > kMost / w.dilate[s] || w.stride[s] > kMost)
    throw ValueError(
        who, "expected kernel, stride and dilate of at least 1, and pad of at least 0, got ",
        w.kernel[s], ", ", w.stride[s], ", ", w.dilate[s], " and ", w.pad[s], " for spatial axis ",
        s);
  const int64_t reach = (w.kernel[s] - 1) * w.dilate[s] + 1, padded = n + 2 * w.pad[s];
  if (n < 1 || padded < reach)
    throw ShapeError(who, "expected spatial axis ", s, ", ", n, " long with ", w.pad[s],
                     " of padding on both sides, to be at least the window's ", reach);
  return (padded - reach) / w.stride[s] + 1;
}

Tensor in_f32(const Tensor& x, const std::function<Tensor(Tensor)>& f) {
  const DType d = x.dtype();
  return d == f16 || d == bf16 ? cast(f(cast(x, f32)), d) : f(x);
}

}  // namespace detail

void register_rearrange() {
  each_rearrangement([](auto r) {
    using R = decltype(r);
    OpDef<R>(R::kName, {"data"})
        .template infer<&infer<R>>()
        .layout(Layout::rows)
        .template gradient<&gradient<R>>(Keep::none)
        .template samples<&samples<R>>();
  });
}

}  // namespace locus
