// Compares every op with its reference, on every context, in every dtype. Samples cover new ops.
// Related walks: registry_gradient_test.cc (gradients), registry_range_test.cc (large and small
// numbers), registry_attributes_test.cc (attributes).
#include <algorithm>
#include <cmath>
#include <set>
#include <string>

#include <locus/core/memory/storage.h>
#include <locus/ops/create.h>
#include "tests/registry/walk.h"

namespace locus::test {
namespace {

class Registry : public RegistryWalk {
 protected:
  template <class F>
  void each_sample(F f, bool floating = false) {
    for (Context c : end_contexts())
      for (DType d : dtypes(op(), c)) {
        if (floating && !is_floating(d)) continue;
        for (const Sample& s : op().samples(c, d)) {
          SCOPED_TRACE(to_string(c) + " " + name(d));
          f(c, d, s);
          if (HasFailure()) return;
        }
      }
  }
  Near near(DType d) const {
    return {tolerance(d),
            reference().each_exact && is_floating(d) ? 4 * rounding_unit(d) : tolerance(d)};
  }
};

Tensors moved(const Tensors& in, Context c) {
  Tensors out;
  for (const Tensor& t : in) out.push_back(t.copyto(c));
  return out;
}
// The inputs with f(value, its number) for each floating value.
template <class F>
Tensors with_values(const Tensors& in, const std::vector<int>& left, F f) {
  Tensors out;
  for (const Tensor& t : in) {
    const bool stays = std::ranges::count(left, static_cast<int>(out.size())) > 0;
    std::vector<double> v = values(t);
    for (size_t i = 0; i < v.size(); ++i) v[i] = f(v[i], i);
    out.push_back(
        is_floating(t.dtype()) && !stays ? from_values(v, t.shape(), t.context(), t.dtype()) : t);
  }
  return out;
}

TEST_P(Registry, SaysWhatItLacks) {
  EXPECT_TRUE(op().samples || op().no_samples) << "neither samples nor a reason for having none";
  EXPECT_TRUE(op().gradient || op().no_gradient) << "neither a gradient nor a reason for none";
  if (op().make_view || op().function || op().needs_peers) return;
  EXPECT_FALSE(dtypes(op(), cpu()).empty()) << "no CPU kernel";
  for (Context c : contexts())
    EXPECT_EQ(dtypes(op(), c), dtypes(op(), cpu())) << "other dtypes on " << c << " than on cpu(0)";
#ifdef LOCUS_WITH_CUDA  // also where there is no GPU
  EXPECT_EQ(dtypes(op(), DeviceType::gpu), dtypes(op(), DeviceType::cpu))
      << "other dtypes in CUDA than on the CPU";
#endif
}

TEST_P(Registry, AgreesWithItsReference) {
  LOCUS_NEEDS_REFERENCE();
  each_sample([&](Context c, DType d, const Sample& s) {
    const Tensors got = run(op(), s.inputs, s.attrs, c);
    for (const Tensor& t : got) EXPECT_EQ(t.context(), c);
    expect_results(got, reference().apply(arrays_of(s.inputs), s.attrs), near(d), "result");
  });
}

TEST_P(Registry, AgreesWithItsReferenceOnStridedInputs) {
  LOCUS_NEEDS_REFERENCE();
  each_sample([&](Context c, DType d, const Sample& s) {
    Tensors in;
    for (const Tensor& t : s.inputs) in.push_back(strided(t));
    expect_results(run(op(), in, s.attrs, c), reference().apply(arrays_of(s.inputs), s.attrs),
                   near(d), "strided result");
  });
}

// Numbers far from 0 that lie close together: one pass over their squares loses their spread.
TEST_P(Registry, AgreesWithItsReferenceFarFromZero) {
  LOCUS_NEEDS_REFERENCE();
  if (reference().lost_far) GTEST_SKIP() << op().name << " cancels there";
  each_sample(
      [&](Context c, DType d, const Sample& s) {
        const Tensors in = with_values(s.inputs, {}, [](double v, size_t) { return v + 4096; });
        Near far = near(d);
        if (!reference().each_exact) far = {tolerance(d), 0x1p15 * tolerance(d), tolerance(d)};
        far.most = range(d).most;
        expect_results(run(op(), in, s.attrs, c), reference().apply(arrays_of(in), s.attrs), far,
                       "result");
      },
      true);
}

TEST_P(Registry, AgreesWithItsReferenceOnNaNAndInfinity) {
  LOCUS_NEEDS_REFERENCE();
  each_sample(
      [&](Context c, DType d, const Sample& s) {
        const double special[] = {NAN, INFINITY, -INFINITY, -0.0, 0.0};
        for (size_t step : {3, 11}) {
          const Tensors in = with_values(s.inputs, s.finite, [&](double v, size_t i) {
            return i % step == 0 ? special[(i / step) % 5] : v;
          });
          expect_results(run(op(), in, s.attrs, c), reference().apply(arrays_of(in), s.attrs),
                         near(d), "result with NaN and infinity");
        }
      },
      true);
}

// Ops that refuse all samples without elements on the first axes of all inputs, or of the first
// input. Attributes fix a shape or a number, or only some inputs may be empty.
bool refuses_empty(const std::string& name) {
  static const std::set<std::string> all{
      "slice",           "reshape",          "mask_indices",
      "mask_select",     "mask_select_grad", "rms_norm_grad",
      "layer_norm_grad", "dense_backward",   "convolution_backward",
      "embed_diagonal",  "resize_nearest",   "choice",
      "multinomial"};
  return all.contains(name);
}

TEST_P(Registry, TakesEmptyInputsOrSaysWhyNot) {
  LOCUS_NEEDS_REFERENCE();
  int taken = 0;
  const auto take = [&](Context c, DType d, const Sample& s, size_t emptied) {
    Tensors in;
    for (const Tensor& t : s.inputs) {
      View v = t.impl().view;
      if (v.meta.rank > 0 && in.size() < emptied) v.meta.shape[0] = 0;
      in.push_back(alias(t, v));
    }
    Tensors got;
    try {
      got = run(op(), in, s.attrs, c);
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find(op().name), std::string::npos) << e.what();
      return;
    }
    ++taken;
    expect_results(got, reference().apply(arrays_of(in), s.attrs), near(d), "result of nothing");
    if (op().make_view || op().function || op().in_place) return;
    Tensors used;  // memory with old values
    for (const Tensor& t : got) used.push_back(full(t.shape(), 1, {c, t.dtype()}));
    const std::vector<Ref> from(in.begin(), in.end()), to(used.begin(), used.end());
    detail::invoke_into(op(), from, s.attrs.view(), to);
    for (size_t i = 0; i < got.size(); ++i)
      expect_near(values(used[i]), values(got[i]), 0, "result of nothing, over another");
  };
  each_sample([&](Context c, DType d, const Sample& s) {
    take(c, d, s, s.inputs.size());
    if (s.inputs.size() > 1) take(c, d, s, 1);
  });
  EXPECT_NE(taken > 0, refuses_empty(op().name)) << taken << " samples were taken";
}

TEST_P(Registry, RefusesMixedContextsBeforeAllocating) {
  LOCUS_NEEDS_SAMPLES();
  const std::vector<Context> all = distinct_contexts();
  bool mixed = false;
  for (Context a : all) {
    for (Context b : all) {
      if (a == b) continue;
      const DType d = dtypes(op(), cpu()).front();
      for (const Sample& s : op().samples(cpu(), d)) {
        for (size_t odd = 1; odd < s.inputs.size(); ++odd) {
          mixed = true;
          Tensors in = moved(s.inputs, a);
          in[odd] = moved({s.inputs[odd]}, b)[0];
          wait_all();
          const uint64_t at_a = memory_pool(a).stats().allocations,
                         at_b = memory_pool(b).stats().allocations;
          const std::string text =
              message_of<ContextMismatch>([&] { run_directly(op(), in, s.attrs, a); });
          EXPECT_NE(text.find(to_string(a)), std::string::npos) << text;
          EXPECT_NE(text.find(to_string(b)), std::string::npos) << text;
          EXPECT_NE(text.find("as_in_context"), std::string::npos) << text;
          EXPECT_EQ(memory_pool(a).stats().allocations, at_a);
          EXPECT_EQ(memory_pool(b).stats().allocations, at_b);
          if (HasFailure()) return;
        }
      }
    }
  }
  if (!mixed) GTEST_SKIP() << op().name << " has samples of one input at most";
}

// Only a view may share memory.
TEST_P(Registry, ResultsHaveMemoryOfTheirOwn) {
  LOCUS_NEEDS_SAMPLES();
  if (op().make_view) GTEST_SKIP() << op().name << " is a view";
  each_sample([&](Context c, DType, const Sample& s) {
    Tensors in = s.inputs;
    const Tensors got = run(op(), in, s.attrs, c);
    for (size_t i = 0; i < got.size(); ++i) {
      for (size_t k = 0; k < in.size(); ++k)
        EXPECT_FALSE(got[i].size() > 0 && got[i].shares_memory_with(in[k]))
            << "result " << i << " is in the memory of input " << k;
      for (size_t k = 0; k < i; ++k)
        EXPECT_FALSE(got[i].size() > 0 && got[i].shares_memory_with(got[k]))
            << "result " << i << " is in the memory of result " << k;
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Ops, Registry, testing::ValuesIn(every_op()),
                         [](const auto& p) { return p.param->name; });

TEST(RegistryLookUp, NamesNearOpsWhenThereIsNone) {
  const std::string text = message_of<Error>([] { get_op("ad"); });
  EXPECT_NE(text.find("add"), std::string::npos) << text;
}

TEST(RegistryLookUp, RefusesToDefineANameTwice) { EXPECT_THROW(define_op("add"), Error); }

}  // namespace
}  // namespace locus::test
