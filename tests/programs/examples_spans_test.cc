#include "common/spans.h"

#include <locus/core/caller.h>
#include <locus/core/context.h>
#include <locus/core/kernel.h>
#include <locus/core/stream.h>

#include "tests/support/contexts.h"
#include "tests/support/slow.h"

namespace examples {
namespace {

TEST(Spans, OverlapIsTheTimeBothAreUnderWay) {
  EXPECT_EQ(overlap({{0, 1}}, {{1, 2}}), 0);
  EXPECT_EQ(overlap({{0, 1}}, {{3, 4}}), 0);
  EXPECT_EQ(overlap({{0, 4}}, {{1, 2}, {3, 6}}), 2);
  EXPECT_EQ(busy({{1, 2}, {3, 6}}), 4);
}

TEST(Spans, TextSaysWhenNothingRanAtOnce) {
  EXPECT_EQ(at_once_text("a", {{0, 4}}, "b", {{4, 6}}),
            "a worked for 4.00 s and b for 2.00 s, one after the other");
  EXPECT_EQ(at_once_text("a", {{0, 4}}, "b", {{3, 5}}),
            "a worked for 4.00 s and b for 2.00 s, both at once for 1.00 s, 50 % of the "
            "shorter");
}

TEST(Spans, AStreamThatWaitsForAnotherIsSeenToWait) {
  LOCUS_NEEDS_ANY_GPUS(2);
  using namespace locus;
  Stream first(gpu(0)), second(gpu(1));
  const auto work = [](const Stream& s) {
    for (int i = 0; i < 500; ++i) test::delay(s.view());
  };
  SpanRecorder recorder({gpu(0), gpu(1)});
  recorder.record(first, [&] { work(first); });
  second.wait(first.record());
  recorder.record(second, [&] { work(second); });
  const auto on_first = recorder.spans(gpu(0)), on_second = recorder.spans(gpu(1));
  ASSERT_EQ(on_first.size(), 1);
  ASSERT_EQ(on_second.size(), 1);
  EXPECT_GT(busy(on_first), 0);
  // Half, because a busy machine's clocks compare only to some milliseconds.
  EXPECT_LT(overlap(on_first, on_second), 0.5 * busy(on_second));
  EXPECT_GT(on_second[0].begin, on_first[0].begin + 0.5 * busy(on_first));
}

TEST(Spans, StreamsThatWorkAtOnceAreSeenTo) {
  LOCUS_NEEDS_ANY_GPUS(2);
  using namespace locus;
  Stream gate(gpu(0)), first(gpu(0)), second(gpu(1));
  SpanRecorder recorder({gpu(0), gpu(1)});
  // The first stream is busy until the second is done.
  recorder.record(first, [&] {
    recorder.record(second, [&] {
      for (int i = 0; i < 500; ++i) test::delay(second.view());
    });
    first.wait(second.record());
  });
  EXPECT_GT(overlap(recorder.spans(gpu(0)), recorder.spans(gpu(1))),
            0.5 * busy(recorder.spans(gpu(1))));
}

}  // namespace
}  // namespace examples
