#include <locus/ops/linalg/operands.h>

#include <span>
#include <string>
#include <vector>

#include <locus/core/base/recording_hooks.h>
#include <locus/core/dtype.h>
#include <locus/ops/call_check.h>
#include <locus/ops/copy.h>
#include <locus/ops/index.h>
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

Tensor prepare_matrices(const char* who, const Tensor& x) {
  const Tensor y = prepare_operand(who, "a", x);
  if (x.ndim() < 2) throw ShapeError(who, ": a ", describe(x), ": expected at least 2 axes");
  return y;
}

Tensor prepare_square_matrices(const char* who, const Tensor& x) {
  const Tensor y = prepare_matrices(who, x);
  if (x.shape()[-1] != x.shape()[-2])
    throw ShapeError(who, ": a ", describe(x), ": expected square matrices");
  return y;
}

void expect_success(const char* who, const Tensor& a, const Tensor& failed, const char* what,
                    Caller from) {
  try {
    capture::check_wait(a.context(), who, from);
  } catch (const CaptureError&) {
    throw CaptureError(who,
                       ": the host waits for the check of the result; pass {.check = false} to ",
                       "record the call");
  }
  if (failed.size() == 0 || !any(failed).item<bool>(from)) return;
  std::string which = "the matrix";
  if (failed.ndim() > 0) {
    std::string entry;
    for (const Tensor& i : nonzero(failed, from))
      entry += text_of(entry.empty() ? "" : ", ", i[0].item<int64_t>());
    which = text_of("entry (", entry, ") of the batch");
  }
  throw ValueError(who, ": a ", describe(a), ": ", which, what,
                   "; {.check = false} gives NaN there instead");
}

namespace {

// The batch of two stacks of matrices.
Shape broadcast_batches(const auto& operands, const Shape& a, const Shape& b) {
  const auto batch = [](const Shape& s) {
    return Shape(std::span(s.begin(), static_cast<size_t>(s.rank() - 2)));
  };
  try {
    return broadcast_shapes(batch(a), batch(b));
  } catch (const ShapeError& e) {
    throw ShapeError(operands(), "the batches do not broadcast: ", e.what());
  }
}

Tensor broadcast_matrices(const Tensor& x, const Shape& batch) {
  const Shape own = x.shape();
  std::vector<int64_t> shape(batch.begin(), batch.end());
  shape.insert(shape.end(), own.end() - 2, own.end());
  const Shape whole(shape);
  return own == whole ? x : broadcast_to(x, whole);
}

}  // namespace

LinearSystem::LinearSystem(const char* who, const Tensor& a_given, const Tensor& b_given,
                           bool square) {
  a = square ? prepare_square_matrices(who, a_given) : prepare_matrices(who, a_given);
  b = prepare_operand(who, "b", b_given);
  detail::expect_together(who, "a", a_given, "b", b_given);
  const auto operands = [&] {
    return text_of(who, ": a ", describe(a_given), ", b ", describe(b_given), ": ");
  };
  b_is_vector = b.ndim() == 1;
  if (b.ndim() == 0) throw ShapeError(operands(), "expected b of at least 1 axis");
  if (b_is_vector) b = expand_dims(b, 1);
  const int64_t n = a.shape()[-2], rows = b.shape()[-2];
  if (rows != n)
    throw ShapeError(operands(), "expected b with ", n, " rows, a's length, got ", rows);
  const DType d = promote(a.dtype(), b.dtype());
  if (a.dtype() != d) a = cast(a, d);
  if (b.dtype() != d) b = cast(b, d);
  const Shape batch = broadcast_batches(operands, a.shape(), b.shape());
  a = broadcast_matrices(a, batch);
  b = broadcast_matrices(b, batch);
}
Tensor LinearSystem::restore_vector(const Tensor& x) const {
  return b_is_vector ? squeeze(x, -1) : x;
}

}  // namespace locus::linalg
