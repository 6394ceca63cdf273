// QR decompositions by orthogonalisation of the columns.
#include <locus/ops/linalg/qr_kernel.h>
#include "tests/references/reference.h"

namespace locus::test {
namespace {

// q and r of the reduced form. A complete q of as many columns is the same.
Arrays qr(const Arrays& in, const QrAttrs&) {
  const Array& a = in[0];
  const size_t rank = a.shape.size();
  const int64_t m = a.shape[rank - 2], n = a.shape[rank - 1], k = std::min(m, n);
  std::vector<int64_t> q_shape = a.shape, r_shape = a.shape, batch = a.shape;
  q_shape[rank - 1] = r_shape[rank - 2] = k;
  batch[rank - 2] = batch[rank - 1] = 1;
  Array q(q_shape, a.dtype), r(r_shape, a.dtype);
  each_place(batch, [&](Place p) {
    const auto at = [&](int64_t i, int64_t j) {
      p[rank - 2] = i;
      p[rank - 1] = j;
      return static_cast<const Place&>(p);
    };
    for (int64_t j = 0; j < n; ++j) {
      std::vector<Real> left;  // of column j
      for (int64_t i = 0; i < m; ++i) left.push_back(a.at(at(i, j)));
      for (int pass = 0; pass < 2; ++pass)  // the second removes what rounding left
        for (int64_t c = 0; c < std::min(j, k); ++c) {
          Real product = 0;
          for (int64_t i = 0; i < m; ++i) product += q.at(at(i, c)) * left[static_cast<size_t>(i)];
          for (int64_t i = 0; i < m; ++i) left[static_cast<size_t>(i)] -= product * q.at(at(i, c));
          r.at(at(c, j)) += product;
        }
      if (j >= k) continue;
      Real square = 0;
      for (const Real x : left) square += x * x;
      r.at(at(j, j)) = std::sqrt(square);
      for (int64_t i = 0; i < m; ++i)
        q.at(at(i, j)) = left[static_cast<size_t>(i)] / std::sqrt(square);
    }
  });
  return {q, r};
}

// Gradients multiply r with the gradient of r.
const References kReferences{{
    within_exponents(100, reference<QrAttrs>("qr", qr)),
    within_exponents(100,
                     reference("qr_r", [](const Arrays& in) { return Arrays{qr(in, {})[1]}; })),
}};

}  // namespace
}  // namespace locus::test
