// Compiles and replays every op of the registry; samples cover new ops.
#include <locus/core/compile.h>
#include <locus/core/device.h>
#include <locus/core/op.h>
#include <locus/ops/random.h>
#include "tests/registry/run.h"
#include "tests/replay/captures.h"
#include "tests/support/contexts.h"

namespace locus::test {
namespace {

class CompiledRegistry : public testing::TestWithParam<const Op*> {};

TEST_P(CompiledRegistry, ReplaysAsItRuns) {
  const Op& op = *GetParam();
  if (!op.samples) GTEST_SKIP() << op.name << " has no samples: " << op.no_samples;
  if (op.no_capture) GTEST_SKIP() << op.name << " cannot be captured: " << op.no_capture;
  for (const Context c : end_contexts()) {
    for (int i = 0; i < kNumDTypes; ++i) {
      const auto d = static_cast<DType>(i);
      if (!op.make_view && !op.function && !op.kernel(device(c).kernels(), d)) continue;
      random::seed(3);
      for (const Sample& s : op.samples(c, d)) {
        SCOPED_TRACE(to_string(c) + " " + name(d));
        Compiled f([&](const Tensors& in) { return run(op, in, s.attrs, c); });
        for (int replay = 0; replay < 4; ++replay) {
          Tensors in;  // the first again, then others of the same values
          for (const Tensor& t : s.inputs) in.push_back(replay < 2 ? t : t.copyto(c));
          churn(c);
          const Tensors eager = run(op, in, s.attrs, c), got = f(in);
          ASSERT_EQ(got.size(), eager.size());
          for (size_t k = 0; k < got.size(); ++k) {
            ASSERT_EQ(got[k].shape(), eager[k].shape());
            ASSERT_EQ(got[k].dtype(), eager[k].dtype());
            std::vector<char> a(static_cast<size_t>(got[k].size()) * size_of(got[k].dtype()));
            std::vector<char> b(a.size());
            got[k].to_host(a.data(), got[k].dtype());
            eager[k].to_host(b.data(), eager[k].dtype());
            EXPECT_EQ(a, b);
          }
          if (HasFailure()) return;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, CompiledRegistry, testing::ValuesIn(every_op()),
                         [](const auto& p) { return p.param->name; });

}  // namespace
}  // namespace locus::test
