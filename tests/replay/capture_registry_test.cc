// Records and replays every op of the registry; samples cover new ops.
#include <algorithm>

#include <locus/core/capture.h>
#include <locus/core/device.h>
#include <locus/core/op.h>
#include <locus/ops/create.h>
#include <locus/ops/random.h>
#include <locus/ops/view.h>
#include "tests/registry/run.h"
#include "tests/replay/captures.h"
#include "tests/support/contexts.h"

namespace locus::test {
namespace {

using testing::HasSubstr;

std::vector<char> bytes_of(const Tensor& x) {
  std::vector<char> bytes(static_cast<size_t>(x.size()) * size_of(x.dtype()));
  x.to_host(bytes.data(), x.dtype());
  return bytes;
}

// Random samples in a capture have new keys at each replay.
void draws_as_it_runs(const Op& op, Context c, DType d) {
  const auto draw = [&] {
    Tensors all;
    for (const Sample& s : op.samples(c, d)) all.push_back(run(op, s.inputs, s.attrs, c)[0]);
    return all;
  };
  Tensors out;
  Graph graph = recorded(c, [&] { out = draw(); });
  std::vector<std::vector<char>> eager, replayed;
  random::seed(11);
  for (int i = 0; i < 3; ++i)
    for (const Tensor& t : draw()) eager.push_back(bytes_of(t));
  random::seed(11);
  for (int i = 0; i < 3; ++i) {
    churn(c);
    graph.replay();
    for (const Tensor& t : out) replayed.push_back(bytes_of(t));
  }
  EXPECT_EQ(replayed, eager) << name(d);
  EXPECT_NE(replayed[1], replayed[3]) << name(d);
}

class CaptureRegistry : public testing::TestWithParam<const Op*> {};

TEST_P(CaptureRegistry, ReplaysAsItRuns) {
  const Op& op = *GetParam();
  if (op.no_capture) std::printf("%s: not capturable: %s\n", op.name.c_str(), op.no_capture);
  if (!op.samples) GTEST_SKIP() << op.name << " has no samples: " << op.no_samples;
  LOCUS_NEEDS_ANY_GPUS(1);
  const Context c = gpu(0);
  for (int i = 0; i < kNumDTypes; ++i) {
    const auto d = static_cast<DType>(i);
    if (!op.make_view && !op.function && !op.kernel(device(c).kernels(), d)) continue;
    if (op.random) {
      draws_as_it_runs(op, c, d);
      continue;
    }
    for (const Sample& s : op.samples(c, d)) {
      SCOPED_TRACE(name(d));
      if (op.no_capture) {
        Capture capture(c);
        EXPECT_THAT(message_of<CaptureError>([&] { run(op, s.inputs, s.attrs, c); }),
                    HasSubstr(op.name));
        continue;
      }
      run(op, s.inputs, s.attrs, c);
      Tensors out;
      Graph graph = recorded(c, [&] { out = run(op, s.inputs, s.attrs, c); });
      for (int replay = 0; replay < 3; ++replay) {
        // Rotates the values, which the op accepts.
        for (const Tensor& t : s.inputs) {
          std::vector<double> v = values(t);
          if (v.size() > 1) std::rotate(v.begin(), v.begin() + 1, v.end());
          array(v, f64).reshape(t.shape()).copyto(t);
        }
        churn(c);
        graph.replay();
        const Tensors eager = run(op, s.inputs, s.attrs, c);
        for (size_t k = 0; k < out.size(); ++k) EXPECT_EQ(bytes_of(out[k]), bytes_of(eager[k]));
        if (HasFailure()) return;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, CaptureRegistry, testing::ValuesIn(every_op()),
                         [](const auto& p) { return p.param->name; });

}  // namespace
}  // namespace locus::test
