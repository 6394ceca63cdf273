// Gradients of broadcast stacks of matrices.
#include <vector>

#include <locus/core/autograd.h>
#include <locus/ops/matmul.h>
#include "tests/tape/gradcheck.h"

namespace locus::test {
namespace {

// The gradient of a broadcast operand is a sum of matrix products. Single products may be too large
// for f16.
TEST(MatmulGradient, OfABroadcastStackIsRoundedOnce) {
  const auto of = [](const Shape& shape, DType d, double size, const auto& sign) {
    std::vector<double> v;
    for (int64_t i = 0; i < shape.size(); ++i)
      v.push_back(sign(i) * (size + static_cast<double>(i % 5)));
    return from_values(v, shape, cpu(), d);
  };
  struct Case {
    Shape a, b;
  };
  for (const Case& one :
       {Case{{4, 2, 3}, {3, 2}}, Case{{2, 3}, {4, 3, 2}}, Case{{2, 1, 2, 3}, {4, 3, 2}},
        Case{{4, 1, 2, 2}, {1, 2, 2, 2}}, Case{{7, 1, 2, 3}, {1, 1, 4, 3, 2}}})
    for (DType d : {f16, bf16}) {
      SCOPED_TRACE(to_string(one.a) + " " + to_string(one.b) + " " + name(d));
      const auto gradients = [&](DType in) {
        const auto positive = [](int64_t) { return 1; };
        const Tensors x{of(one.a, d, 256, positive).astype(in),
                        of(one.b, d, 256, positive).astype(in)};
        for (const Tensor& t : x) t.attach_grad();
        Tensor c;
        {
          const autograd::Record record;
          c = matmul(x[0], x[1]);
        }
        // Neighbouring matrices along each axis of the stack have opposite signs.
        const int64_t size = c.shape()[-1] * c.shape()[-2], last = c.shape()[-3];
        const auto sign = [=](int64_t i) {
          const int64_t matrix = i / size;
          return (matrix / last + matrix % last) % 2 ? -1 : 1;
        };
        c.backward({.head_gradient = of(c.shape(), d, 512, sign).astype(in)});
        return Tensors{x[0].grad(), x[1].grad()};
      };
      const Tensors got = gradients(d), right = gradients(f64);
      for (size_t k = 0; k < 2; ++k) EXPECT_EQ(values(got[k]), values(right[k].astype(d)));
    }
}

}  // namespace
}  // namespace locus::test
