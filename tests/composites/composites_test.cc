// Compares composites (composite_table.h) with their formulas. A function of the headers that is
// neither an op nor in the table fails CompositeTable.HasEveryFunctionOfTheHeaders.
#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include <locus/core/generator.h>
#include <locus/core/kernel.h>
#include <locus/core/op.h>
#include <locus/ops/copy.h>
#include <locus/ops/create.h>
#include <locus/ops/view.h>
#include "tests/composites/composite_table.h"
#include "tests/registry/header_functions.h"
#include "tests/registry/run.h"
#include "tests/support/contexts.h"
#include "tests/tape/gradcheck.h"

namespace locus::test {
namespace {

// Functions tested elsewhere.
const std::map<std::string, const char*> kElsewhere = {
    {"array", "create_test.cc: from values of the host"},
    {"call", "forms_test.cc: of a form"},
    {"empty", "create_test.cc: its values are any"},
    {"sample_values", "create_test.cc: what tests are made of"},
    {"multi_clip_norm", "optim_norms_test.cc: in place"},
    {"sync_batch_norm", "sync_norm_test.cc: of several contexts"},
    {"all_reduce_many", "collective_test.cc: of several contexts"},
    {"reduce_many", "collective_ways_test.cc: of several contexts"},
    {"broadcast", "collective_test.cc: of several contexts"},
    {"broadcast_many", "collective_ways_test.cc: of several contexts"},
    {"send_recv", "collective_exchange_test.cc: of several contexts"},
    {"unique", "unique_test.cc: several results"},
    {"cummax", "scan_test.cc: values and positions, of the op cum_extreme"},
    {"cummin", "scan_test.cc: values and positions, of the op cum_extreme"},
    {"weighted_average", "statistics_test.cc: two results, one of them of weights alone"},
};

Tensors inputs_of(const Composite& f, Context c, DType d) {
  Tensors in;
  for (const Shape& shape : f.inputs)
    in.push_back(sample_values(c, d, shape, f.low, 2, static_cast<int>(in.size())));
  return in;
}

Tensors call(const Composite& f, const Tensors& in, Context c, DType d) {
  random::seed(5);
  return f.call(in, {c, d});
}

Hosts expected(const Composite& f, const Tensors& in) {
  Hosts hosts;
  for (const Tensor& x : in) hosts.push_back({x.shape(), values(x)});
  return f.formula(hosts);
}

double tolerance(DType d) {
  return d == f64 ? 1e-12 : d == f32 ? 4e-6 : d == f16 ? 4e-3 : d == bf16 ? 3e-2 : 0;
}

void expect_formula(const Composite& f, const Tensors& in, Context c, DType d) {
  const Tensors out = call(f, in, c, d);
  const Hosts wanted = expected(f, in);
  ASSERT_EQ(out.size(), wanted.size());
  for (size_t i = 0; i < out.size(); ++i) {
    EXPECT_EQ(out[i].context(), c);
    EXPECT_EQ(out[i].dtype(), f.result.value_or(d));
    ASSERT_EQ(out[i].shape(), wanted[i].shape);
    std::vector<double> got = values(out[i]), want = wanted[i].numbers;
    if (f.in_any_order) {
      std::ranges::sort(got);
      std::ranges::sort(want);
    }
    expect_near(got, want, tolerance(d), f.name);
  }
}

class Composites : public testing::TestWithParam<Composite> {
 protected:
  template <class F>
  void on_each(const F& check) const {
    for (const Context c : end_contexts())
      for (const DType d : GetParam().dtypes) {
        SCOPED_TRACE(to_string(c) + " " + name(d));
        check(c, d);
        if (HasFailure()) return;
      }
  }
};

TEST_P(Composites, AgreeWithTheirFormulas) {
  on_each(
      [&](Context c, DType d) { expect_formula(GetParam(), inputs_of(GetParam(), c, d), c, d); });
}

TEST_P(Composites, TakeStridedInputs) {
  on_each([&](Context c, DType d) {
    Tensors in;
    for (const Tensor& x : inputs_of(GetParam(), c, d)) in.push_back(strided(x));
    expect_formula(GetParam(), in, c, d);
  });
}

TEST_P(Composites, TakeEmptyInputs) {
  if (GetParam().inputs.empty()) GTEST_SKIP() << GetParam().name << " has no inputs";
  on_each([&](Context c, DType d) {
    Tensors in = inputs_of(GetParam(), c, d);
    in[0] = slice_axis(in[0], 0, Slice(0, 0));
    if (in.size() == 2 && in[1].shape() == GetParam().inputs[0]) in[1] = in[0];
    expect_formula(GetParam(), in, c, d);
  });
}

TEST_P(Composites, ShareMemoryOnlyAsViews) {
  on_each([&](Context c, DType d) {
    const Tensors in = inputs_of(GetParam(), c, d), out = call(GetParam(), in, c, d);
    for (const Tensor& y : out) {
      for (const Tensor& x : in) EXPECT_EQ(y.shares_memory_with(x), GetParam().view);
    }
    if (GetParam().view) return;
    for (size_t i = 0; i < out.size(); ++i) {  // writing one result changes no other one
      const std::vector<double> before = values(out[i]);
      for (size_t k = 0; k < out.size(); ++k)
        for (const int v : {0, 1}) {
          if (k == i) continue;
          const Tensor kept = copy(out[k]);
          full(out[k].shape(), v, {c, out[k].dtype()}).copyto(out[k]);
          EXPECT_EQ(values(out[i]), before);
          kept.copyto(out[k]);
        }
    }
  });
}

TEST_P(Composites, RefuseMixedContexts) {
  if (GetParam().inputs.size() < 2) GTEST_SKIP() << GetParam().name << " has one input at most";
  Tensors in = inputs_of(GetParam(), cpu(0), f32);
  in[1] = in[1].copyto(cpu(1));
  const std::string text = message_of<ContextMismatch>([&] { call(GetParam(), in, cpu(0), f32); });
  EXPECT_NE(text.find("as_in_context"), std::string::npos) << text;
}

TEST_P(Composites, GradientsAgreeWithFiniteDifferences) {
  if (GetParam().inputs.empty()) GTEST_SKIP() << GetParam().name << " has no inputs";
  if (GetParam().result == i64) GTEST_SKIP() << GetParam().name << " has integer results";
  if (std::ranges::none_of(GetParam().dtypes, is_floating))
    GTEST_SKIP() << GetParam().name << " has integer operands";
  for (const Context c : end_contexts()) {
    SCOPED_TRACE(to_string(c));
    check_gradients([&](const Tensors& in) { return call(GetParam(), in, c, f64); },
                    inputs_of(GetParam(), c, f64));
  }
}

INSTANTIATE_TEST_SUITE_P(Functions, Composites, testing::ValuesIn(composites()),
                         [](const auto& p) { return std::string(p.param.name); });

TEST(CompositeTable, HasEveryFunctionOfTheHeaders) {
  register_builtins();
  std::set<std::string> wanted, sampled;
  for (const std::string& name : functions_of_headers())
    if (!find_op(name) && !name.starts_with("operator")) wanted.insert(name);
  for (const Composite& f : composites()) sampled.insert(f.name);
  for (const auto& [name, where] : kElsewhere) EXPECT_TRUE(sampled.insert(name).second) << name;
  std::vector<std::string> unlike;
  std::ranges::set_symmetric_difference(sampled, wanted, std::back_inserter(unlike));
  EXPECT_THAT(unlike, testing::IsEmpty())
      << "functions of ops/*.h that have neither an op of their name nor a sample: add one to a "
      << "table that tests/composites/composite_table.h includes; or samples of no function";
}

}  // namespace
}  // namespace locus::test
