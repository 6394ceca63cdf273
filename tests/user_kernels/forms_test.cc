// Ops of a program's own, made of formulas and reductions. The walks over the registry compare
// their results and gradients with the references below (tests/registry).
#include <locus/core/autograd.h>
#include <locus/core/compile.h>
#include <locus/core/error.h>
#include <locus/ops/create.h>
#include <locus/ops/forms_cpu.h>
#include <locus/ops/fuse.h>
#include "tests/references/reference.h"
#include "tests/support/contexts.h"
#include "tests/support/expect_line.h"
#include "tests/user_kernels/forms_ops.h"

namespace locus::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const bool defined = [] {
  define_ops(OwnOps());
#ifdef LOCUS_WITH_CUDA
  add_own_cuda_kernels();
#endif
  return true;
}();

const References kReferences{{
    each_exact(reference<Leak>("test_leak",
                               [](const Arrays& in, const Leak& f) -> Arrays {
                                 return {mapped(
                                     in[0], [&](Real x) { return x > 0 ? x : x * Real{f.slope}; })};
                               })),
    reference<formula::WithNumber<Axpby>>(
        "test_axpby",
        [](const Arrays& in, const formula::WithNumber<Axpby>& attrs) -> Arrays {
          const auto f = [&](Real x, Real y) {
            return Real{attrs.formula.a} * x + Real{attrs.formula.b} * y;
          };
          if (in.size() == 2) return {combined(in[0], in[1], f)};
          const Array number({}, in[0].dtype, held(real(attrs.scalar), in[0].dtype));
          return {attrs.scalar_first ? combined(number, in[0], f) : combined(in[0], number, f)};
        }),
    reference<ReduceBy<SumAbs>>("test_sum_abs",
                                [](const Arrays& in, const ReduceBy<SumAbs>& attrs) -> Arrays {
                                  const Array& x = in[0];
                                  std::vector<int64_t> all = x.shape, kept;
                                  for (int i = 0; i < x.rank(); ++i) {
                                    const bool gone = attrs.axes >> i & 1;
                                    if (gone) all[static_cast<size_t>(i)] = 1;
                                    if (!gone || attrs.keepdims)
                                      kept.push_back(all[static_cast<size_t>(i)]);
                                  }
                                  Array y(all, x.dtype);
                                  each_place(x.shape, [&](Place p) {
                                    const Real v = std::fabs(x.at(p));
                                    for (size_t i = 0; i < p.size(); ++i)
                                      if (attrs.axes >> i & 1) p[i] = 0;
                                    y.at(p) += v;
                                  });
                                  y.shape = kept;
                                  return {y};
                                }),
}};

TEST(Forms, AreCalledWithAttributesAndNumbers) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor x = array({-2.F, 4.F}, c), y = array({{1.F}, {2.F}}, c);
    EXPECT_THAT(values(call(Leak{{}, 0.5}, x)), ElementsAre(-1, 4));
    EXPECT_THAT(values(call(Axpby{{}, 2, -1}, x, y)), ElementsAre(-5, 7, -6, 6));
    EXPECT_THAT(values(call(Axpby{{}, 2, -1}, 3, x)), ElementsAre(8, 2));
    EXPECT_THAT(values(reduce(SumAbs(), x)), ElementsAre(6));
    EXPECT_THAT(values(reduce(SumAbs(), y, {.axis = 0, .keepdims = true})), ElementsAre(3));
  }
}

TEST(Forms, AreDifferentiatedTwice) {
  Tensor x = array({-2.F, 3.F});
  x.attach_grad();
  autograd::Record record;
  const Tensor y = reduce(SumAbs(), call(Leak{{}, 0.5}, x) * x);
  const Tensor first = autograd::grad(y, {x}, {.create_graph = true})[0];
  EXPECT_THAT(values(first), ElementsAre(-2, 6));
  EXPECT_THAT(values(autograd::grad(reduce(SumAbs(), first), {x})[0]), ElementsAre(-1, 2));
}

TEST(Forms, AreRecordedAndReplayed) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    Compiled f([](const Tensors& in) {
      return Tensors{reduce(SumAbs(), call(Axpby{{}, 2, 1}, in[0], 1))};
    });
    for (int k = 0; k < 3; ++k)
      EXPECT_THAT(values(f({full({3}, -k, c)})[0]), ElementsAre(3 * std::abs(1 - 2 * k)));
    EXPECT_EQ(f.recorded(), 1);
  }
}

TEST(Forms, AreCallsOfTheirOwnInAFusedFunction) {
  const auto f = fuse([](const Tensor& x) { return call(Leak{{}, 0.5}, x + 1) * 2; }, "with_leak");
  EXPECT_THAT(values(f(array({-3.F, 1.F}))), ElementsAre(-2, 4));
  EXPECT_THAT(f.describe(), HasSubstr("kernel (Add); op test_leak, not fused; kernel (Multiply)"));
}

TEST(Forms, RefuseWhatBuiltInOpsRefuse) {
  const Tensor x = ones({3});
  EXPECT_THAT(message_of<ValueError>([&] {
                call(Leak{{}, -1}, x);
              }),
              HasSubstr("test_leak: data cpu(0) (3,) f32: expected 0 or more for slope, got -1"));
  EXPECT_THROW(call(Axpby(), x, ones({2})), ShapeError);
  EXPECT_NAMES_ITS_LINE(reduce(SumAbs(), x, {.axis = 2}));
  EXPECT_THAT(message_of<Error>([] { define_ops(OwnOps()); }), HasSubstr("test_leak"));
}

}  // namespace
}  // namespace locus::test
