// Walks the registry: every op, on every context, in every dtype it lists. Nothing here knows an
// op; a new one is covered by its samples.
#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include <locus/core/device.h>
#include <locus/core/op.h>
#include <locus/core/storage.h>
#include <locus/ops/register.h>
#include "tests/contexts.h"
#include "tests/gradcheck.h"
#include "tests/run.h"

namespace locus::test {
namespace {

class Registry : public testing::TestWithParam<const Op*> {
 protected:
  const Op& op() const { return *GetParam(); }
  bool callable() const { return op().samples; }
};

// Views and functions take all dtypes.
bool has(const Op& op, DeviceType kernels, DType d) {
  return op.make_view || op.function || op.kernel(kernels, d);
}
std::vector<DType> dtypes(const Op& op, DeviceType kernels) {
  std::vector<DType> list;
  for (int d = 0; d < kNumDTypes; ++d)
    if (has(op, kernels, static_cast<DType>(d))) list.push_back(static_cast<DType>(d));
  return list;
}
std::vector<DType> dtypes(const Op& op, Context c) { return dtypes(op, device(c).kernels()); }

double tolerance(DType d) {
  switch (d) {
    case f64:
      return 1e-12;
    case f16:
      return 4e-3;
    case bf16:
      return 3e-2;
    default:
      return 4e-6;
  }
}

Tensors moved(const Tensors& in, Context c, bool widen) {
  Tensors out;
  for (const Tensor& t : in) {
    const DType d = widen && is_floating(t.dtype()) ? f64 : t.dtype();
    out.push_back(allocate(c, make_meta(d, t.shape())));
    t.copyto(out.back());
  }
  return out;
}

void expect_same(const Tensors& got, const Tensors& wanted, double tol, const char* what) {
  ASSERT_EQ(got.size(), wanted.size());
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i].shape(), wanted[i].shape()) << what;
    expect_near(values(got[i]), values(wanted[i]), tol, what);
  }
}

// Whether this sample's attributes fix the dtype, so that inputs cannot be widened.
bool widens(const Op& op, const Tensors& in, const Attrs& attrs) {
  if (in.empty() || !op.kernel(DeviceType::cpu, f64)) return false;
  const bool any =
      std::any_of(in.begin(), in.end(), [](auto& t) { return is_floating(t.dtype()); });
  if (!any) return false;
  try {
    const Tensors wide = run(op, moved(in, cpu(), true), attrs, cpu());
    const Tensors same = run(op, moved(in, cpu(), false), attrs, cpu());
    return !is_floating(same[0].dtype()) || wide[0].dtype() == f64;
  } catch (const Error&) {
    return false;
  }
}

TEST_P(Registry, SaysWhatItLacks) {
  if (!op().samples) {
    EXPECT_NE(op().no_samples, nullptr) << "neither samples nor a reason for having none";
    if (op().no_samples) std::printf("%s: no samples: %s\n", op().name.c_str(), op().no_samples);
  }
  if (!op().gradient) {
    EXPECT_NE(op().no_gradient, nullptr) << "neither a gradient nor a reason for having none";
    if (op().no_gradient) std::printf("%s: no gradient: %s\n", op().name.c_str(), op().no_gradient);
  }
  if (op().make_view || op().function) return;
  EXPECT_FALSE(dtypes(op(), cpu()).empty()) << "no CPU kernel";
  for (Context c : contexts())
    EXPECT_EQ(dtypes(op(), c), dtypes(op(), cpu())) << "other dtypes on " << c << " than on cpu(0)";
#ifdef LOCUS_WITH_CUDA  // also where there is no GPU
  EXPECT_EQ(dtypes(op(), DeviceType::gpu), dtypes(op(), DeviceType::cpu))
      << "other dtypes in CUDA than on the CPU";
#endif
}

TEST_P(Registry, AgreesWithDoublesOnTheHost) {
  if (!callable()) return;
  for (Context c : contexts()) {
    for (DType d : dtypes(op(), c)) {
      for (const Sample& s : op().samples(c, d)) {
        SCOPED_TRACE(to_string(c) + " " + name(d));
        const Tensors got = run(op(), s.inputs, s.attrs, c);
        for (const Tensor& t : got) EXPECT_EQ(t.context(), c);
        const bool widen = !op().random && widens(op(), s.inputs, s.attrs);
        const Tensors wanted = run(op(), moved(s.inputs, cpu(), widen), s.attrs, cpu());
        const double tol = op().random                            ? 0
                           : is_floating(got[0].dtype()) || widen ? tolerance(d)
                                                                  : 0;
        expect_same(got, wanted, tol, "result");
        if (HasFailure()) return;
      }
    }
  }
}

TEST_P(Registry, TakesStridedInputs) {
  if (!callable()) return;
  for (Context c : contexts()) {
    for (DType d : dtypes(op(), c)) {
      for (const Sample& s : op().samples(c, d)) {
        SCOPED_TRACE(to_string(c) + " " + name(d));
        Tensors in;
        for (const Tensor& t : s.inputs) in.push_back(strided(t));
        expect_same(run(op(), in, s.attrs, c), run(op(), s.inputs, s.attrs, c), tolerance(d),
                    "strided result");
        if (HasFailure()) return;
      }
    }
  }
}

TEST_P(Registry, PassesNaNAndInfinityOnAlike) {
  if (!callable() || op().random) return;
  for (Context c : contexts()) {
    for (DType d : {f32, f64}) {
      if (!has(op(), device(c).kernels(), d)) continue;
      for (const Sample& s : op().samples(c, d)) {
        SCOPED_TRACE(to_string(c) + " " + name(d));
        Tensors in;
        for (const Tensor& t : s.inputs) {
          std::vector<double> v = values(t);
          const double special[] = {NAN, INFINITY, -INFINITY, -0.0, 0.0};
          if (is_floating(t.dtype()))
            for (size_t i = 0; i < v.size(); i += 3) v[i] = special[(i / 3) % 5];
          in.push_back(is_floating(t.dtype()) ? from_values(v, t.shape(), c, t.dtype()) : t);
        }
        expect_same(run(op(), in, s.attrs, c), run(op(), moved(in, cpu(), false), s.attrs, cpu()),
                    tolerance(d), "result with NaN and infinity");
        if (HasFailure()) return;
      }
    }
  }
}

TEST_P(Registry, TakesEmptyInputsOrSaysWhyNot) {
  if (!callable()) return;
  for (Context c : contexts()) {
    for (DType d : dtypes(op(), c)) {
      for (const Sample& s : op().samples(c, d)) {
        SCOPED_TRACE(to_string(c) + " " + name(d));
        Tensors in;
        for (const Tensor& t : s.inputs) {
          View v = t.impl().view;
          if (v.meta.rank > 0) v.meta.shape[0] = 0;
          in.push_back(alias(t, v));
        }
        try {
          for (const Tensor& out : run(op(), in, s.attrs, c))
            EXPECT_EQ(int64_t(values(out).size()), out.size());
        } catch (const Error& e) {
          EXPECT_NE(std::string(e.what()).find(op().name), std::string::npos) << e.what();
        }
      }
    }
  }
}

TEST_P(Registry, RefusesMixedContextsBeforeAllocating) {
  if (!callable()) return;
  const std::vector<Context> all = distinct_contexts();
  for (Context a : all) {
    for (Context b : all) {
      if (a == b) continue;
      const DType d = dtypes(op(), cpu()).front();
      for (const Sample& s : op().samples(cpu(), d)) {
        for (size_t odd = 1; odd < s.inputs.size(); ++odd) {
          Tensors in = moved(s.inputs, a, false);
          in[odd] = moved({s.inputs[odd]}, b, false)[0];
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
}

TEST_P(Registry, GradientsAgreeWithFiniteDifferences) {
  if (!callable() || !op().gradient) return;
  if (!has(op(), DeviceType::cpu, f64)) return;
  for (const Sample& s : op().samples(cpu(), f64)) {
    if (!s.differentiable) continue;
    check_gradients([&](const Tensors& in) { return run(op(), in, s.attrs, cpu()); }, s.inputs);
    if (HasFailure()) return;
  }
}

TEST_P(Registry, GradientsAgreeOnEveryContextAndDType) {
  if (!callable() || !op().gradient) return;
  for (Context c : contexts()) {
    for (DType d : {f32, f64, f16, bf16}) {
      if (!has(op(), device(c).kernels(), d)) continue;
      for (const Sample& s : op().samples(c, d)) {
        if (!s.differentiable) continue;
        SCOPED_TRACE(to_string(c) + " " + name(d));
        const auto f = [&](const Tensors& in) {
          return run(op(), in, s.attrs, in.empty() ? c : in[0].context());
        };
        const Tensors got = gradients(f, s.inputs);
        const Tensors wanted =
            gradients(f, moved(s.inputs, cpu(), widens(op(), s.inputs, s.attrs)));
        for (size_t i = 0; i < got.size(); ++i) {
          if (!got[i].defined()) continue;
          EXPECT_EQ(got[i].context(), c);
          expect_near(values(got[i]), values(wanted[i]), 8 * tolerance(d), "gradient");
        }
        if (HasFailure()) return;
      }
    }
  }
}

std::vector<const Op*> every_op() {
  register_builtins();
  return all_ops();
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
