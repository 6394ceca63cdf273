// Every public function by name: the same bits as the function, and what ops::list() says of it.
#include <algorithm>
#include <map>
#include <set>
#include <string>

#include <locus/core/autograd.h>
#include <locus/core/capture.h>
#include <locus/core/generator.h>
#include <locus/core/op.h>
#include <locus/core/profiler.h>
#include <locus/ops/elementwise/kernels.h>
#include "tests/fuse/same.h"
#include "tests/registry/header_functions.h"
#include "tests/registry/named_table.h"
#include "tests/support/contexts.h"

namespace locus::test {
namespace {

// Functions without a name, and why.
const std::map<std::string, const char*> kUnnamed = {
    {"array", "from values of the host"},
    {"call", "of a form"},
    {"sample_values", "what tests are made of"},
    {"sync_batch_norm", "lists of tensors, one list for each operand"},
    {"all_reduce_many", "lists of lists, in place"},
    {"reduce_many", "lists of lists, in place"},
    {"broadcast_many", "lists of lists, in place"},
    {"broadcast", "a list of contexts; copyto has one"},
};
// Functions in the list but not in the table, and why.
const std::map<std::string, const char*> kUncalled = {
    {"empty", "its values are any"},
    {"copyto", "named_test.cc: to another context"},
    {"as_in_context", "named_test.cc: to another context"},
    {"multi_clip_norm", "named_test.cc: a tensor as an attribute"},
};

// Whether the walk can make a call of the op: a formula without attributes.
bool is_plain_formula(const Op& op) {
  switch (op.arguments.size()) {
    case 1:
      return *op.attrs_type == typeid(NoAttrs);
    case 2:
      return *op.attrs_type == typeid(BinaryAttrs);
    case 3:
      return *op.attrs_type == typeid(TernaryAttrs);
    default:
      return false;
  }
}

// The table, and functions of formulas with their registry samples. A function of neither has no
// call, and its tests fail.
std::vector<NamedCall> calls() {
  std::vector<NamedCall> all = named_calls();
  std::set<std::string> there;
  for (const NamedCall& f : all) there.insert(f.name);
  for (const ops::Info& info : ops::list()) {
    if (info.internal || there.contains(info.name) || kUncalled.contains(info.name)) continue;
    const Op* const op = find_op(info.name);
    if (!op || !is_plain_formula(*op)) {
      all.push_back({info.name, {}, {}, {}});
      continue;
    }
    const size_t n = op->arguments.size();
    const DType d = op->kernel(DeviceType::cpu, f32) ? f32 : i32;
    NamedCall f{info.name, std::vector<NamedInput>(n, {{2, 3}, d}), {}, {}};
    if (info.name == "where") f.inputs[0].dtype = bool_;
    f.call = [op](const Tensors& x, Context) -> ops::Result {
      const std::vector<Ref> refs(x.begin(), x.end());
      if (x.size() == 1) return invoke(*op, refs);
      if (x.size() == 2) return invoke(*op, refs, BinaryAttrs());
      return invoke(*op, refs, TernaryAttrs{.dtype = f32});
    };
    all.push_back(std::move(f));
  }
  return all;
}

class Named : public testing::TestWithParam<NamedCall> {
 protected:
  void SetUp() override {
    const std::string& name = GetParam().name;
    if (!GetParam().call)
      FAIL() << "no test calls " << name << " by name: add a call to a table of tests/registry/: "
             << "named_math.h (elementwise ops with attributes, reductions, scans), "
             << "named_products.h (products), named_linalg.h (linear algebra), "
             << "named_numpy.h (order, gather, search, rearrange, statistics, random), "
             << "named_shapes.h (views, indices, joins) or named_layers.h (layers, optimizers)";
  }
  ops::Info info() const { return ops::get(GetParam().name); }
  Tensors inputs(Context c) const {
    Tensors in;
    for (const NamedInput& x : GetParam().inputs)
      in.push_back(sample_values(c, x.dtype, x.shape, .2, 2, static_cast<int>(in.size())));
    return in;
  }
  // Functions without inputs run on the current context.
  static Tensors run(const auto& f, Context c) {
    const ContextScope scope(c);
    return f();
  }
  Tensors by_name(const Tensors& in, Context c) const {
    return run([&]() -> Tensors { return invoke(GetParam().name, in, GetParam().attributes); }, c);
  }
  bool writes_its_inputs() const {
    return GetParam().name.ends_with("_update") || GetParam().name == "multi_clip";
  }
};

TEST_P(Named, HasTheBitsOfTheFunction) {
  for (const Context c : end_contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensors in = inputs(c), own = inputs(c);
    random::seed(5);
    const Tensors got = by_name(in, c);
    random::seed(5);
    const Tensors wanted = run([&]() -> Tensors { return GetParam().call(own, c); }, c);
    ASSERT_EQ(got.size(), wanted.size());
    if (info().results > 0) {
      EXPECT_EQ(static_cast<int>(got.size()), info().results);
    }
    for (size_t i = 0; i < got.size(); ++i) expect_same(got[i], wanted[i]);
    for (size_t i = 0; i < in.size(); ++i) expect_same(in[i], own[i]);
  }
}

TEST_P(Named, TakesItsDefaults) {
  ops::Attributes required;
  for (const ops::Attribute& given : GetParam().attributes)
    for (const ops::AttributeInfo& a : info().attributes)
      if (a.name == given.name && a.fallback.empty()) required.push_back(given);
  try {
    invoke(GetParam().name, inputs(cpu()), required);
  } catch (const Error& e) {  // shapes may not fit
    EXPECT_THAT(e.what(), testing::Not(testing::HasSubstr("correct its signature")));
  }
}

TEST_P(Named, HasAGradientIfTheListSaysSo) {
  for (const Context c : end_contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensors in = inputs(c);
    if (writes_its_inputs() || in.empty()) {
      EXPECT_NE(info().no_gradient, "");
      continue;
    }
    const auto variable =
        std::ranges::find_if(in, [](const Tensor& x) { return is_floating(x.dtype()); });
    if (variable != in.end()) variable->attach_grad();
    Tensor head;
    {
      const autograd::Record record;
      const Tensors out = by_name(in, c);
      head = out[0];
      for (size_t i = 1; i < out.size(); ++i)
        if (is_floating(head.dtype()) && is_floating(out[i].dtype())) head = head + sum(out[i]);
    }
    const auto backward = [&] { head.backward(); };
    if (info().no_gradient.empty())
      EXPECT_NO_THROW(backward());
    else
      EXPECT_THROW(backward(), Error) << info().no_gradient;
  }
}

TEST_P(Named, IsCapturedIfTheListSaysSo) {
  LOCUS_NEEDS_ANY_GPUS(1);
  const Context c = gpu(0);
  by_name(inputs(c), c);  // libraries are loaded before a capture
  const Tensors in = inputs(c);
  wait_all();
  Capture capture(c);
  if (info().no_capture.empty())
    EXPECT_NO_THROW(by_name(in, c));
  else
    EXPECT_THROW(by_name(in, c), CaptureError) << info().no_capture;
}

TEST_P(Named, RunsTheOpsThatTheListNames) {
  const Tensors in = inputs(cpu());
  wait_all();
  profiler::start_totals();
  by_name(in, cpu());
  profiler::stop_totals();
  std::set<std::string> launched;
  for (const profiler::OpTotals& t : profiler::totals()) {
    const size_t colon = t.name.rfind(": ");  // behind a caller's name (core/call/named_calls.h)
    const std::string name = colon == std::string::npos ? t.name : t.name.substr(colon + 2);
    if (!name.starts_with("copy") && name != "contiguous") launched.insert(name);
  }
  const std::vector<std::string> made_of = info().made_of;
  EXPECT_FALSE(made_of.empty());
  for (const std::string& name : launched) EXPECT_THAT(made_of, testing::Contains(name));
  EXPECT_FALSE(info().dtypes.empty());
}

INSTANTIATE_TEST_SUITE_P(Functions, Named, testing::ValuesIn(calls()),
                         [](const auto& p) { return p.param.name; });

TEST(NamedList, HasEveryFunctionOfTheHeaders) {
  std::set<std::string> names;
  for (const ops::Info& info : ops::list()) {
    if (info.internal) continue;
    names.insert(info.name);
    names.insert(info.aliases.begin(), info.aliases.end());
  }
  for (const std::string& name : functions_of_headers())
    EXPECT_TRUE(names.contains(name) || name.starts_with("operator") || kUnnamed.contains(name))
        << name << " has no function by name: add it to its family's _names.cc";
  for (const auto& [name, why] : kUnnamed) EXPECT_FALSE(names.contains(name)) << name;
  for (const Op* op : all_ops())
    EXPECT_TRUE(names.contains(op->name) || !op->name.ends_with("_update")) << op->name;
}

TEST(NamedList, AliasesNameFunctions) {
  EXPECT_EQ(ops::get("lesser").aliases, std::vector<std::string>{"less"});
  for (const ops::Info& info : ops::list())
    for (const std::string& alias : info.aliases) EXPECT_EQ(ops::get(alias).name, info.name);
}

TEST(NamedList, SaysWhatTheSignatureSays) {
  const ops::Info info = ops::get("softmax");
  EXPECT_EQ(info.signature, "softmax(data, axis: int = -1, temperature: float = 1)");
  ASSERT_EQ(info.attributes.size(), 2u);
  EXPECT_EQ(info.attributes[1].name, "temperature");
  EXPECT_EQ(info.attributes[1].type, "float");
  EXPECT_EQ(info.attributes[1].fallback, "1");
  EXPECT_EQ(info.dtypes[0].first, DeviceType::cpu);
  EXPECT_EQ(info.dtypes[0].second, (std::vector<DType>{f32, f64, f16, bf16}));
  EXPECT_EQ(info.no_gradient, "");
  EXPECT_FALSE(info.internal);
}

TEST(NamedList, HasOpsWithoutAFunctionAsInternal) {
  const std::vector<ops::Info> all = ops::list();
  const auto found = std::ranges::find(all, "softmax_grad", &ops::Info::name);
  ASSERT_NE(found, all.end());
  EXPECT_TRUE(found->internal);
  EXPECT_EQ(found->signature, "softmax_grad(out, dout)");
}

}  // namespace
}  // namespace locus::test
