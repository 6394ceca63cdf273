#include <locus/ops/products/operands.h>

#include <locus/ops/call_check.h>
#include <locus/ops/elementwise/call.h>

namespace locus::detail {

void check_operands(const char* op, const Tensors& operands, const char* one, const char* all) {
  for (size_t i = 0; i < operands.size(); ++i) {
    expect_tensor(op, operands[i], one, " ", i);
    // Only an error needs the names, which take time to build.
    if (!mix(operands[0].context(), operands[i].context())) [[unlikely]]
      expect_together(op, text_of(all, "[0]"), operands[0], text_of(all, "[", i, "]"), operands[i]);
  }
}

void check_operands(const char* op, const Tensor& a, const Tensor& b) {
  expect_tensor(op, a, "a");
  expect_tensor(op, b, "b");
  expect_together(op, "a", a, "b", b);
}

Tensors promote_all(const Tensors& operands) {
  DType d = operands[0].dtype();
  for (const Tensor& x : operands) d = promote(d, x.dtype());
  Tensors promoted;
  for (const Tensor& x : operands) promoted.push_back(as(x, d));
  return promoted;
}

}  // namespace locus::detail
