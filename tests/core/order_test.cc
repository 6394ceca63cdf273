// Waits requested before the op that needs them.
#include <locus/core/wait_for.h>

#include <locus/core/autograd.h>
#include <locus/core/stream.h>
#include <locus/core/tape/grad_memory.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include "tests/support/contexts.h"
#include "tests/support/slow.h"

namespace locus::test {
namespace {

// A later wait would include the gate.
TEST(Order, AWaitIsForEarlierWorkOnly) {
  LOCUS_NEEDS_EMULATED_GPUS();
  LOCUS_NEEDS_ANY_GPUS(2);
  const Tensor x = ones({4}, gpu(0)) + 1;
  wait_for(x, gpu(1));
  const Gate gate(current_stream(gpu(0)));
  const Tensor y = x.copyto(gpu(1)) + 1;
  const Event there(current_stream(gpu(1)));
  EXPECT_TRUE(eventually([&] { return there.query(); }));
}

TEST(Order, AGradientThatMovedWaitsForNothingThatItsStreamIsGivenLater) {
  LOCUS_NEEDS_EMULATED_GPUS();
  const Tensor x = ones({4}, gpu(0));
  x.attach_grad();
  {
    const autograd::Record record;
    (x * 2).backward();
  }
  const Stream other(gpu(0));
  const StreamScope scope(other);
  autograd::move_grad(x);
  Gate gate(device(gpu(0)).stream(Lane::compute));
  x.grad() += 1;
  const Event there(other.view());
  EXPECT_TRUE(eventually([&] { return there.query(); }));
  gate.open();
  EXPECT_EQ(values(x.grad()), std::vector<double>(4, 3));
}

}  // namespace
}  // namespace locus::test
