// Compares each gradient with differences of the op's reference, and gradients of gradients with
// differences of gradients.
#include <cmath>

#include <locus/core/memory/storage.h>
#include "tests/registry/walk.h"

namespace locus::test {
namespace {

class RegistryGradients : public RegistryWalk {
 protected:
  // Calls f with each context, floating dtype and differentiable sample.
  template <class F>
  void each_sample(F f) {
    bool any = false;
    for (Context c : kernel_contexts())
      for (DType d : {f64, f32, f16, bf16}) {
        if (!has(op(), device(c).kernels(), d)) continue;
        for (const Sample& s : op().samples(c, d)) {
          if (!s.differentiable) continue;
          any = true;
          SCOPED_TRACE(to_string(c) + " " + name(d));
          f(c, d, s);
          if (HasFailure()) return;
        }
      }
    if (!any) GTEST_SKIP() << op().name << " has no sample in a floating dtype to differentiate";
  }

  void check(const Sample& s, DType d, bool create_graph) {
    const Tensors got = gradients_of(op(), s.inputs, s.attrs, 1, create_graph);
    const Arrays in = arrays_of(s.inputs);
    const double allowed = d == f64 ? 1e-9 : 8 * tolerance(d);
    for (size_t k = 0; k < in.size(); ++k) {
      if (!varies(s.inputs[k]) || in[k].size() == 0) continue;
      const Array dx = got[k].defined() ? array_of(got[k]) : Array(in[k].shape, d);
      if (got[k].defined()) {
        EXPECT_EQ(got[k].context(), s.inputs[k].context());
        EXPECT_EQ(got[k].dtype(), s.inputs[k].dtype());
      }
      ASSERT_EQ(dx.shape, in[k].shape);
      if (is_elementwise(op())) {
        Slopes right = slopes(op(), in, s.attrs, k, 1);
        for (size_t i = 0; i < dx.values.size(); ++i) {
          if (!std::isnan(right.doubt.values[i])) continue;
          ASSERT_NE(d, f64) << "the reference is not smooth at a sample";
          right.values.values[i] = dx.values[i];  // rounding moved the input to an edge
        }
        EXPECT_EQ(difference(dx, right.values, {allowed, allowed}), "")
            << "gradient of input " << k;
      } else {
        for (int variant = 0; variant < 4; ++variant) {
          std::vector<Real> direction;
          for (double w : weights(in[k].size(), 5 + variant)) direction.push_back(w);
          const Slope right = slope_along(op(), in, s.attrs, k, direction, 1);
          ASSERT_FALSE(d == f64 && std::isnan(right.doubt))
              << "the reference is not smooth at a sample";
          if (std::isnan(right.doubt)) continue;
          Real sum = 0, size = 0;
          for (size_t i = 0; i < direction.size(); ++i) {
            sum += dx.values[i] * direction[i];
            size += std::fabs(dx.values[i] * direction[i]);
          }
          EXPECT_LE(std::fabs(sum - right.value), allowed * (1 + size))
              << "gradient of input " << k << " along direction " << variant << ": " << double(sum)
              << ", right: " << double(right.value);
        }
      }
      if (HasFailure()) return;
    }
  }
};

TEST_P(RegistryGradients, AgreeWithDifferencesOfTheReference) {
  LOCUS_NEEDS_GRADIENT();
  each_sample([&](Context, DType d, const Sample& s) { check(s, d, false); });
}

TEST_P(RegistryGradients, AgreeWithDifferencesOfTheReferenceWhenRecorded) {
  LOCUS_NEEDS_GRADIENT();
  each_sample([&](Context, DType d, const Sample& s) { check(s, d, true); });
}

TEST_P(RegistryGradients, OfTheSecondOrderAgreeWithDifferences) {
  LOCUS_NEEDS_GRADIENT();
  if (!has(op(), DeviceType::cpu, f64)) GTEST_SKIP() << op().name << " does not take f64";
  for (const Sample& s : op().samples(cpu(), f64)) {
    if (!s.differentiable) continue;
    check_gradients([&](const Tensors& in) { return run(op(), in, s.attrs, cpu()); }, s.inputs);
    if (HasFailure()) return;
  }
}

// Results of grad() may be written, so they share no memory.
TEST_P(RegistryGradients, HaveMemoryOfTheirOwn) {
  LOCUS_NEEDS_GRADIENT();
  each_sample([&](Context c, DType, const Sample& s) {
    Tensors variables, heads;
    autograd::GradOptions options;
    options.allow_unused = true;
    {
      const autograd::Record record;
      for (const Tensor& t : s.inputs)
        if (varies(t)) {
          t.attach_grad();
          variables.push_back(t);
        }
      for (const Tensor& out : run(op(), s.inputs, s.attrs, c))
        if (needs_grad(out.impl())) {
          heads.push_back(out);
          options.head_gradients.push_back(
              from_values(weights(out.size(), 1), out.shape(), c, out.dtype()));
        }
    }
    if (heads.empty()) return;
    const Tensors got = autograd::grad(heads, variables, options);
    for (size_t i = 0; i < got.size(); ++i) {
      if (!got[i].defined() || got[i].size() == 0) continue;
      const auto expect_apart = [&](const Tensors& others, size_t n, const char* what) {
        for (size_t k = 0; k < n; ++k)
          EXPECT_FALSE(others[k].defined() && got[i].shares_memory_with(others[k]))
              << "gradient " << i << " is in the memory of " << what << " " << k;
      };
      expect_apart(variables, variables.size(), "input");
      expect_apart(heads, heads.size(), "result");
      expect_apart(options.head_gradients, heads.size(), "head gradient");
      expect_apart(got, i, "gradient");
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Ops, RegistryGradients, testing::ValuesIn(every_op()),
                         [](const auto& p) { return p.param->name; });

}  // namespace
}  // namespace locus::test
