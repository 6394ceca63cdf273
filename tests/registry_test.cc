// Walks the registry: every op, on every context, in every dtype it lists. Nothing here knows an
// op; a new one is covered by its samples.
#include <algorithm>
#include <cmath>
#include <optional>

#include <locus/core/device.h>
#include <locus/core/op.h>
#include <locus/core/storage.h>
#include <locus/ops/create.h>
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

Tensors moved(const Tensors& in, Context c) {
  Tensors out;
  for (const Tensor& t : in) out.push_back(t.copyto(c));
  return out;
}
// Copies on the host, in doubles where they are floating or of dtype d.
Tensors widened(const Tensors& in, DType d) {
  Tensors out;
  for (const Tensor& t : in) {
    const bool wide = is_floating(t.dtype()) || t.dtype() == d;
    out.push_back(allocate(cpu(), make_meta(wide ? f64 : t.dtype(), t.shape())));
    t.copyto(out.back());
  }
  return out;
}
// What the op makes of doubles on the host. None when it has no kernel for them or takes no input,
// or when its attributes or another input say that they must be of dtype d.
std::optional<Tensors> in_doubles(const Op& op, const Tensors& in, const Attrs& attrs, DType d) {
  if (in.empty() || op.random || !op.kernel(DeviceType::cpu, f64)) return std::nullopt;
  try {
    return run(op, widened(in, d), attrs, cpu());
  } catch (const DTypeError&) {
    return std::nullopt;
  }
}

// What an integer or bool of dtype d holds of a whole number; sums and products wrap alike.
double held(double v, DType d) {
  return dispatch(d, [v](auto type) {
    using T = typename decltype(type)::type;
    if constexpr (std::is_same_v<T, bool>)
      return v != 0 ? 1.0 : 0.0;
    else if constexpr (std::is_integral_v<T>)
      return static_cast<double>(static_cast<T>(static_cast<int64_t>(v)));
    else
      return v;
  });
}

void expect_same(const Tensors& got, const Tensors& wanted, double tol, const char* what) {
  ASSERT_EQ(got.size(), wanted.size());
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i].shape(), wanted[i].shape()) << what;
    expect_near(values(got[i]), values(wanted[i]), tol, what);
  }
}

// The same of an op on integers or bools, where doubles tell: a fraction, or what is past 2^53, is
// not compared.
void expect_whole(const Tensors& got, const Tensors& wide) {
  ASSERT_EQ(got.size(), wide.size());
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i].shape(), wide[i].shape());
    const std::vector<double> is = values(got[i]);
    std::vector<double> wanted = values(wide[i]);
    for (size_t k = 0; k < is.size(); ++k) {
      const double v = wanted[k];
      wanted[k] = std::fabs(v) < 0x1p53 && v == std::trunc(v) ? held(v, got[i].dtype()) : is[k];
    }
    expect_near(is, wanted, 0, "result");
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
  if (op().make_view || op().function || op().meets) return;
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
        const std::optional<Tensors> wide =
            d == f64 && c == cpu() ? std::nullopt : in_doubles(op(), s.inputs, s.attrs, d);
        if (wide && is_floating(d))
          expect_same(got, *wide, tolerance(d), "result");
        else if (wide)
          expect_whole(got, *wide);
        // Doubles on cpu(0), and what cannot be widened there, the op's own tests look at.
        if (c != cpu() && !(wide && is_floating(d)))
          expect_same(got, run(op(), moved(s.inputs, cpu()), s.attrs, cpu()),
                      !op().random && is_floating(got[0].dtype()) ? tolerance(d) : 0, "result");
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
          const bool stays = std::ranges::count(s.finite, static_cast<int>(in.size())) > 0;
          std::vector<double> v = values(t);
          const double special[] = {NAN, INFINITY, -INFINITY, -0.0, 0.0};
          for (size_t i = 0; i < v.size(); i += 3) v[i] = special[(i / 3) % 5];
          in.push_back(is_floating(t.dtype()) && !stays ? from_values(v, t.shape(), c, t.dtype())
                                                        : t);
        }
        const std::optional<Tensors> wide = c == cpu()
                                                ? in_doubles(op(), in, s.attrs, d)
                                                : run(op(), moved(in, cpu()), s.attrs, cpu());
        if (wide)
          expect_same(run(op(), in, s.attrs, c), *wide, tolerance(d),
                      "result with NaN and infinity");
        if (HasFailure()) return;
      }
    }
  }
}

TEST_P(Registry, TakesEmptyInputsOrSaysWhyNot) {
  if (!callable()) return;
  const auto empty = [](const Tensor& t) { return t.size() == 0; };
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
          const Tensors got = run(op(), in, s.attrs, c);
          if (op().broadcasts && std::any_of(in.begin(), in.end(), empty)) {
            EXPECT_TRUE(std::all_of(got.begin(), got.end(), empty));
          }
          if (c != cpu())
            expect_same(got, run(op(), moved(in, cpu()), s.attrs, cpu()), 2 * tolerance(d),
                        "result of nothing");
          if (op().make_view || op().function || op().in_place) continue;
          Tensors used;  // whatever their memory held, they hold the result
          for (const Tensor& t : got) used.push_back(full(t.shape(), 1, {c, t.dtype()}));
          const std::vector<Ref> from(in.begin(), in.end()), to(used.begin(), used.end());
          detail::invoke_into(op(), from, s.attrs.view(), to);
          expect_same(used, got, 0, "result of nothing, over another");
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
        const bool wide = in_doubles(op(), s.inputs, s.attrs, d).has_value();
        if (c == cpu() && (d == f64 || !wide)) continue;  // it would be compared with itself
        const Tensors got = gradients(f, s.inputs);
        const Tensors wanted = gradients(f, wide ? widened(s.inputs, d) : moved(s.inputs, cpu()));
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

INSTANTIATE_TEST_SUITE_P(Ops, Registry, testing::ValuesIn(every_op()),
                         [](const auto& p) { return p.param->name; });

TEST(RegistryLookUp, NamesNearOpsWhenThereIsNone) {
  const std::string text = message_of<Error>([] { get_op("ad"); });
  EXPECT_NE(text.find("add"), std::string::npos) << text;
}

TEST(RegistryLookUp, RefusesToDefineANameTwice) { EXPECT_THROW(define_op("add"), Error); }

}  // namespace
}  // namespace locus::test
