// Ops in the forms that a program's own ops have. The walks over the registry test them, too.
#pragma once

#include <locus/ops/forms.h>

namespace locus::test {

struct Leak : formula::Unary<"test_leak", formula::kFloats, 2, formula::kX> {
  static constexpr unsigned kInRange = formula::kX;
  formula::Real slope = 0.25;
  static Leak sample() { return {{}, 0.7}; }
  LOCUS_HD auto apply(auto x) const { return x > 0 ? x : slope(x) * x; }
  auto grad(auto& x, auto&, auto& dy) const { return where(x > 0, dy, dy * slope(dy)); }
  void check(auto expect) const { expect(slope >= 0, "slope", slope, "0 or more"); }
};

struct Axpby : formula::Binary<"test_axpby", formula::kFloats, 2, formula::kNothing> {
  static constexpr bool kExact = false;
  formula::Real a = 1, b = 1;
  static Axpby sample() { return {{}, 2, -0.5}; }
  LOCUS_HD auto apply(auto x, auto y) const { return a(x) * x + b(y) * y; }
  auto dx(auto&, auto&, auto&, auto& d) const { return d * a(d); }
  auto dy(auto&, auto&, auto&, auto& d) const { return d * b(d); }
};

struct SumAbs : reduction::Reduction<"test_sum_abs", formula::kFloats, formula::kX> {
  static constexpr bool kInRange = true;
  LOCUS_HD static auto map(auto x) { return m::abs(x); }
  LOCUS_HD static auto combine(auto a, auto b) { return a + b; }
  auto grad(auto& x, auto&, auto& dy, auto&) const { return dy * sign(x); }
};

using OwnOps = formula::List<Leak, Axpby, SumAbs>;

void add_own_cuda_kernels();  // forms_test.cu

}  // namespace locus::test
