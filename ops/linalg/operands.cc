#include <locus/ops/linalg/operands.h>

#include <span>
#include <string>
#include <vector>

#include <locus/core/base/recording_hooks.h>
#include <locus/core/dtype.h>
#include <locus/ops/call_check.h>
#include <locus/ops/copy.h>
#include <locus/ops/index.h>
#include <locus/ops/linalg/infer.h>
#include <locus/ops/reduce.h>
#include <locus/ops/view.h>

namespace locus::linalg {

Tensor prepare_operand(const char* who, const char* what, const Tensor& x) {
  detail::expect_tensor(who, x, what);
  const DType d = x.dtype();
  if (d == f16 || d == bf16)
    throw DTypeError(who, ": ", what, " ", describe(x), ": expected f32 or f64, got ", name(d),
                     "; cast it: ", what, ".astype(f32)");
  return is_floating(d) ? x : cast(x, f64);
}

Tensor prepare_matrices(const char* who, const Tensor& x, const char* what) {
  const Tensor y = prepare_operand(who, what, x);
  if (x.ndim() < 2)
    throw ShapeError(who, ": ", what, " ", describe(x),
                     ": expected at least 2 axes, rows and columns last");
  return y;
}

Tensor prepare_square_matrices(const char* who, const Tensor& x, const char* advice) {
  const Tensor y = prepare_matrices(who, x);
  if (x.shape()[-1] != x.shape()[-2])
    throw ShapeError(who, ": a ", describe(x), ": expected square matrices in the last two axes",
                     advice);
  return y;
}

namespace {

// Names the first matrix of `a` that failed: "the matrix", or "entry (1, 0) of the batch".
std::string name_failed(const Tensor& a, const Tensor& failed, Caller from) {
  const int batch_axes = a.ndim() - 2;
  if (batch_axes == 0) return "the matrix";
  const Tensors indices = nonzero(failed, from);
  std::string entry;
  for (int i = 0; i < batch_axes; ++i) {
    const Tensor& of_axis = indices[static_cast<size_t>(failed.ndim() - batch_axes + i)];
    const int64_t index = a.shape()[i] == 1 ? 0 : of_axis[0].item<int64_t>();
    entry += text_of(entry.empty() ? "" : ", ", index);
  }
  return text_of("entry (", entry, ") of the batch");
}

}  // namespace

void expect_success(const char* who, const Tensor& a, const Tensor& failed, const char* why,
                    Caller from, const CheckAdvice& advice) {
  try {
    capture::check_wait(a.context(), who, from);
  } catch (const CaptureError&) {
    throw CaptureError(who, ": the host waits for the check of the result; ", advice.in_capture);
  }
  if (failed.size() == 0 || !any(failed).item<bool>(from)) return;
  throw ValueError(who, ": a ", describe(a), ": ", name_failed(a, failed, from), why, "; ",
                   advice.on_failure);
}

namespace {

Shape batch_of(const Shape& s) {
  return Shape(std::span(s.begin(), static_cast<size_t>(s.rank() - 2)));
}
Shape join(std::span<const int64_t> first, std::span<const int64_t> last) {
  std::vector<int64_t> lengths(first.begin(), first.end());
  lengths.insert(lengths.end(), last.begin(), last.end());
  return Shape(lengths);
}

// The shape to which the batches of a and b broadcast.
Shape broadcast_batches(const auto& operands, const Shape& a, const Shape& b) {
  try {
    return broadcast_shapes(batch_of(a), batch_of(b));
  } catch (const ShapeError& e) {
    throw ShapeError(operands(), "the batches do not broadcast: ", e.what());
  }
}

Tensor broadcast_matrices(const Tensor& x, const Shape& batch) {
  const Shape own = x.shape(), shape = join(batch, std::span(own.end() - 2, own.end()));
  return own == shape ? x : broadcast_to(x, shape);
}

}  // namespace

LinearSystem::LinearSystem(const char* who, const Tensor& a_operand, const Tensor& b_operand,
                           bool square) {
  a = square ? prepare_square_matrices(who, a_operand, "; lstsq() takes other shapes")
             : prepare_matrices(who, a_operand);
  b = prepare_operand(who, "b", b_operand);
  detail::expect_together(who, "a", a_operand, "b", b_operand);
  const auto operands = [&] {
    return text_of(who, ": a ", describe(a_operand), ", b ", describe(b_operand), ": ");
  };
  b_is_vector_ = b.ndim() == 1;
  const int64_t n = a.shape()[-2];
  if (b.ndim() == 0)
    throw ShapeError(operands(), "expected b of at least 1 axis, with ", n, " rows");
  if (b_is_vector_) b = expand_dims(b, 1);
  const int64_t rows = b.shape()[-2];
  if (rows != n)
    throw ShapeError(operands(), "expected b with ", n, " rows, as many as a, got ", rows,
                     b_is_vector_ ? "" : "; for a batch of vectors, pass expand_dims(b, -1)");
  const DType d = promote(a.dtype(), b.dtype());
  if (a.dtype() != d) a = cast(a, d);
  if (b.dtype() != d) b = cast(b, d);
  const Shape batch = broadcast_batches(operands, a.shape(), b.shape());
  const Shape batch_of_a = batch_of(a.shape());
  const int64_t columns = std::max<int64_t>(1, b.shape()[-1]);
  if (square && batch_of_a.size() == 1 && batch.size() > 1 &&
      batch.size() <= kMaxLength / columns) {
    x_shape_ = join(batch, Shape{n, b.shape()[-1]});
    b = reshape(moveaxis(b, -2, 0), join(batch_of_a, Shape{n, batch.size() * b.shape()[-1]}));
    return;
  }
  a = broadcast_matrices(a, batch);
  b = broadcast_matrices(b, batch);
}

Tensor LinearSystem::restore(const Tensor& x) const {
  if (b_is_vector_) return squeeze(x, -1);
  if (x_shape_.rank() == 0) return x;
  const Shape batch_and_columns = join(batch_of(x_shape_), Shape{x_shape_[-1]});
  return moveaxis(reshape(x, join(Shape{x_shape_[-2]}, batch_and_columns)), 0, -2);
}

}  // namespace locus::linalg
