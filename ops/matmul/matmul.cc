#include <locus/ops/matmul.h>

#include <algorithm>
#include <string>
#include <vector>

#include <locus/core/amp.h>
#include <locus/core/base/at_line.h>
#include <locus/core/base/recording_hooks.h>
#include <locus/core/memory/storage.h>
#include <locus/core/observe/memory_events.h>
#include <locus/core/op.h>
#include <locus/devices/cpu.h>
#include <locus/ops/call_check.h>
#include <locus/ops/copy.h>
#include <locus/ops/create.h>
#include <locus/ops/matmul/matmul_kernel.h>
#include <locus/ops/view.h>

namespace locus {

namespace {

DType matmul_infer(std::span<const Meta> in, const MatmulAttrs& attrs, std::span<Meta> out) {
  const Meta &a = in[0], &b = in[1];
  if (a.rank < 2 || b.rank < 2)
    throw ShapeError("expected matrices or stacks of them (two axes or more), got ", Shape(a),
                     " and ", Shape(b));
  const int64_t m = a.shape[a.rank - (attrs.transpose_a ? 1 : 2)];
  const int64_t ka = a.shape[a.rank - (attrs.transpose_a ? 2 : 1)];
  const int64_t kb = b.shape[b.rank - (attrs.transpose_b ? 1 : 2)];
  const int64_t n = b.shape[b.rank - (attrs.transpose_b ? 2 : 1)];
  if (ka != kb)
    throw ShapeError("expected the columns of the left operand (", ka,
                     ") to be as many as the rows of the right one (", kb, "): shapes ", Shape(a),
                     attrs.transpose_a ? " transposed" : "", " and ", Shape(b),
                     attrs.transpose_b ? " transposed" : "");
  const Shape batch = broadcast_shapes(Shape(std::span(a.shape, static_cast<size_t>(a.rank - 2))),
                                       Shape(std::span(b.shape, static_cast<size_t>(b.rank - 2))));
  out[0] = make_meta(a.dtype, batch);
  out[0].rank = static_cast<int8_t>(batch.rank() + 2);
  out[0].shape[batch.rank()] = m;
  out[0].shape[batch.rank() + 1] = n;
  return one_dtype(in);
}

// x as a stack of `rank` axes. Its axes `summed` are joined to the rows, or to the columns.
Tensor joined(const Tensor& x, uint32_t summed, int rank, bool rows) {
  int64_t dims[kMaxRank], joint = 1;
  std::fill_n(dims, kMaxRank, 1);
  const Shape given = x.shape();
  std::copy(given.begin(), given.end(), dims + rank - given.rank());
  std::vector<int> order;
  std::vector<int64_t> lengths;
  const auto keep = [&](int axis) {
    order.push_back(axis);
    lengths.push_back(dims[axis]);
  };
  for (int i = 0; i < rank - 2; ++i)
    if (!(summed >> i & 1)) keep(i);
  if (!rows) keep(rank - 2);
  for (int i = 0; i < rank; ++i) {
    if (i < rank - 2 ? !(summed >> i & 1) : i != (rows ? rank - 2 : rank - 1)) continue;
    order.push_back(i);
    joint *= dims[i];
  }
  lengths.push_back(joint);
  if (rows) keep(rank - 1);
  return transpose(x.reshape(Shape(dims, rank)), order).reshape(Shape(lengths));
}

Tensors matmul_gradient(const Saved& saved, std::span<const Tensor> dout) {
  const auto [ta, tb] = saved.attrs<MatmulAttrs>();
  const Tensor &a = saved.in(0), &b = saved.in(1), &dc = dout[0];
  Tensors gradients(2);
  // The product sums over the axes along which operand i was broadcast. A stack of 16-bit products
  // would be rounded, and could overflow, before its sum.
  const auto product = [&](int i, const Tensor& left, const Tensor& right, MatmulAttrs transposes) {
    const Meta& m = saved.in_meta(i);
    const int rank = dc.ndim(), more = rank - m.rank;
    uint32_t summed = 0;
    int kept = 2;
    bool placed = true;  // the remaining axes are the operand's
    for (int k = 0; k < rank - 2; ++k)
      if ((k < more || m.shape[k - more] == 1) && dc.shape()[k] != 1) {
        summed |= 1u << k;
      } else {
        ++kept;
        placed = placed && kept <= m.rank && dc.shape()[k] == m.shape[kept - 3];
      }
    placed = placed && kept == m.rank;
    const auto of = [&](const Tensor& x, bool rows) {
      return summed ? joined(x, summed, rank, rows) : x;
    };
    const Tensor g = matmul(of(left, transposes.transpose_a), of(right, !transposes.transpose_b),
                            transposes, placed ? saved.place(i) : Tensor());
    gradients[static_cast<size_t>(i)] = placed ? g : g.reshape(saved.in_shape(i));
  };
  if (saved.needs(0)) ta ? product(0, b, dc, {tb, true}) : product(0, dc, b, {false, !tb});
  if (saved.needs(1)) tb ? product(1, dc, a, {true, ta}) : product(1, a, dc, {!ta, false});
  return gradients;
}

Samples matmul_samples(Context c, DType d) {
  const auto x = [&](const Shape& s, int variant) {
    return sample_values(c, d, s, -2, 2, variant);
  };
  return {
      Sample({x({3, 4}, 0), x({4, 5}, 1)}, MatmulAttrs{}),
      Sample({x({1, 1}, 0), x({1, 1}, 1)}, MatmulAttrs{}),
      Sample({x({7, 2}, 0), x({7, 3}, 1)}, MatmulAttrs{true, false}),
      Sample({x({2, 9}, 0), x({5, 9}, 1)}, MatmulAttrs{false, true}),
      Sample({x({6, 2}, 0), x({3, 6}, 1)}, MatmulAttrs{true, true}),
      Sample({x({2, 3, 4}, 0), x({2, 4, 2}, 1)}, MatmulAttrs{}),
      Sample({x({2, 1, 3, 4}, 0), x({3, 2, 4}, 1)}, MatmulAttrs{false, true}),
      Sample({x({33, 17}, 0), x({17, 35}, 1)}, MatmulAttrs{}),
  };
}

bool readable(const Tensor& x) {
  if (x.contiguous()) return true;
  const View& v = x.impl().view;
  const int r = v.meta.rank;
  return leading(v.meta.shape[r - 2], v.meta.shape[r - 1], v.stride[r - 2], v.stride[r - 1]).ok;
}

// Calls the op "matmul". Errors name `who`.
Tensor product(const char* who, const Tensor& a, const Tensor& b) {
  return detail::called_as(who, "matmul", [&] {
    if (a.dtype() == b.dtype()) return matmul(a, b, MatmulAttrs{});
    const DType d = promote(a.dtype(), b.dtype());
    return matmul(a.astype(d), b.astype(d), MatmulAttrs{});
  });
}

void check_operands(const char* who, const Tensor& a, const Tensor& b) {
  detail::expect_tensor(who, a, "the left operand");
  detail::expect_tensor(who, b, "the right operand");
}
void check_ranks(const char* op, const Tensor& a, const Tensor& b) {
  if (a.ndim() == 0 || b.ndim() == 0)
    throw ShapeError(op, ": expected operands of one axis or more, got ", describe(a), " and ",
                     describe(b), "; multiply a 0-d tensor with *");
}

// Contracts the last axis of a with the first of b.
Tensor contract(const char* who, const Tensor& a, const Tensor& b) {
  const int ra = a.ndim(), rb = b.ndim();
  const Shape sa = a.shape(), sb = b.shape();
  const int64_t k = sa[-1];
  if (k != sb[0])
    throw ShapeError(who, ": expected the last axis of the left operand (", k,
                     ") to be as long as the first axis of the right one (", sb[0],
                     "): ", describe(a), " and ", describe(b));
  if (ra + rb - 2 > kMaxRank)
    throw ShapeError(who, ": expected a result of at most ", kMaxRank, " axes: ", describe(a),
                     " and ", describe(b));
  int64_t m = 1, n = 1, dims[2 * kMaxRank];
  int rank = 0;
  for (int i = 0; i < ra - 1; ++i) m *= dims[rank++] = sa[i];
  for (int i = 1; i < rb; ++i) n *= dims[rank++] = sb[i];
  const Tensor c =
      product(who, ra == 2 ? a : a.reshape(Shape{m, k}), rb == 2 ? b : b.reshape(Shape{k, n}));
  return c.reshape(Shape(std::span<const int64_t>(dims, static_cast<size_t>(rank))));
}

}  // namespace

Tensor matmul(const Tensor& a, const Tensor& b, const MatmulAttrs& transposes, const Tensor& out,
              Caller from) try {
  const UserLine user_line(from);
  static const OpRef<MatmulAttrs> op("matmul");
  if (a.ndim() >= 2 && b.ndim() >= 2) {
    // Kernels take any strides but are fast only if rows or columns are contiguous.
    const bool ra = readable(a), rb = readable(b);
    if (!ra || !rb)
      return invoke(op, {ra ? a : contiguous(a), rb ? b : contiguous(b)}, transposes, out);
  }
  return invoke(op, {a, b}, transposes, out);
} catch (const Error&) {
  rethrow_at(from);
}

Tensor dot(const Tensor& a, const Tensor& b, Caller from) try {
  const UserLine user_line(from);
  check_operands("dot", a, b);
  if (amp::narrows({&a, &b})) [[unlikely]]
    return dot(amp::narrow(a), amp::narrow(b));
  if (a.ndim() == 2 && b.ndim() == 2) return product("dot", a, b);
  check_ranks("dot", a, b);
  return contract("dot", a, b);
} catch (const Error&) {
  rethrow_at(from);
}

Tensor matmul(const Tensor& a, const Tensor& b, Caller from) try {
  const UserLine user_line(from);
  check_operands("matmul", a, b);
  if (amp::narrows({&a, &b})) [[unlikely]]
    return matmul(amp::narrow(a), amp::narrow(b));
  const int ra = a.ndim(), rb = b.ndim();
  if (ra == 2 && rb == 2) return product("matmul", a, b);
  check_ranks("matmul", a, b);
  // If b is one matrix, the stack a is one tall matrix.
  if (rb <= 2) return contract("matmul", a, b);
  if (ra > 1) return product("matmul", a, b);
  const Tensor c = product("matmul", a.reshape(Shape{1, a.size()}), b);
  const Shape s = c.shape();
  int64_t dims[kMaxRank];
  for (int i = 0; i < s.rank() - 2; ++i) dims[i] = s[i];
  dims[s.rank() - 2] = s[-1];
  return c.reshape(Shape(std::span<const int64_t>(dims, static_cast<size_t>(s.rank() - 1))));
} catch (const Error&) {
  rethrow_at(from);
}

void set_matmul_precision(Precision p) {
  if (p > Precision::tf32)
    throw ValueError("set_matmul_precision: precision ", static_cast<int>(p),
                     "; expected Precision::f32 or Precision::tf32");
  capture::settings.store(static_cast<uint32_t>(p), std::memory_order_relaxed);
}
Precision matmul_precision() {
  return static_cast<Precision>(capture::settings.load(std::memory_order_relaxed));
}

void register_matmul() {
  OpDef<MatmulAttrs>("matmul", {"a", "b"})
      .infer<&matmul_infer>()
      .gradient<&matmul_gradient>(Keep::inputs)
      .samples<&matmul_samples>()
      .layout(Layout::rows);
}

}  // namespace locus
