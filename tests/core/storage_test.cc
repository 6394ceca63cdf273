// The order of reads and writes of a tensor's memory in rare cases: its home moves, an op is
// refused.
#include <locus/core/memory/storage.h>

#include <locus/core/autograd.h>
#include <locus/core/error.h>
#include <locus/core/stream.h>
#include <locus/ops/compare.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include "tests/support/contexts.h"
#include "tests/support/slow.h"

namespace locus::test {
namespace {

using testing::Each;

constexpr int kLong = 200;  // delays: some milliseconds

void delay_long(StreamView s) {
  for (int i = 0; i < kLong; ++i) delay(s);
}

TEST(Storage, AWriteOnComputeWaitsForReadsOnTheStreamThatUploaded) {
  LOCUS_NEEDS_ANY_GPUS(1);
  for (Context c : gpus(num_gpus())) {
    const Tensor h = ones({512}, cpu_pinned()), back = zeros({512}, cpu_pinned());
    const Stream side(c);
    Tensor x;
    {
      const StreamScope on(side);
      x = h.copyto(c, {.blocking = false});
      const Tensor y = x + 1;  // waits for the upload, not for later work
      delay_long(side.view());
      x.copyto(back, {.blocking = false});
    }
    const Tensor z = x * 2;
    x += 1;
    EXPECT_THAT(values(back), Each(1.0)) << c;
    EXPECT_THAT(values(z), Each(2.0));
    EXPECT_THAT(values(x), Each(2.0));
  }
}

TEST(Storage, ARefusedWriteKeepsTheOrderOfTheOneBefore) {
  LOCUS_NEEDS_ANY_GPUS(1);
  for (Context c : gpus(num_gpus())) {
    const Tensor flags = ones({512}, {c, bool_});
    Tensor x = zeros({512}, {c, bool_});
    const Stream writer(c), reader(c);
    {
      const StreamScope on(reader);
      const Tensor before = logical_not(x);  // orders reader after all compute work so far
    }
    {
      const StreamScope on(writer);
      delay_long(writer.view());
      flags.copyto(x);
    }
    EXPECT_THROW(x -= flags, DTypeError);
    const StreamScope on(reader);
    EXPECT_THAT(values(logical_not(x)), Each(0.0)) << c;
  }
}

TEST(Storage, ARefusedWriteIsNoChangeForBackward) {
  for (Context c : contexts()) {
    const Tensor x = ones({3}, c);
    Tensor flags = ones({3}, {c, bool_});
    x.attach_grad();
    Tensor y;
    {
      const autograd::Record record;
      y = where(flags, x * 2, x);
    }
    EXPECT_THROW(flags -= flags, DTypeError);
    EXPECT_NO_THROW(y.backward());
    EXPECT_THAT(values(x.grad()), Each(2.0));
  }
}

}  // namespace
}  // namespace locus::test
