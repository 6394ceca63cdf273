// Times in the transfer log, on links slow enough to stand out.
#include <locus/core/transfer_log.h>

#include <locus/core/tensor.h>
#include <locus/ops/create.h>
#include "tests/support/contexts.h"
#include "tests/support/slow.h"

namespace locus::test {
namespace {

// Of the log's entries of a kind; -1 if there are none.
double seconds(const TransferLog& log, TransferKind kind) {
  double sum = -1;
  for (const TransferEntry& e : log.entries())
    if (e.kind == kind) sum = std::max(sum, 0.0) + e.seconds;
  return sum;
}

TEST(TransferTimes, OfABlockingCopyAreTheLinksAndTheHosts) {
  LOCUS_NEEDS_EMULATED_GPUS();
  const LinkModelScope slow(kSlow);
  for (const Context host : {cpu(), cpu_pinned()}) {
    for (const bool up : {true, false}) {
      SCOPED_TRACE(to_string(host) + (up ? " up" : " down"));
      const Tensor x = full({kMegabyte}, 1, up ? host : gpu(0));
      x.wait_to_read();
      const TransferLog log;
      x.copyto(up ? gpu(0) : host);
      EXPECT_GE(seconds(log, TransferKind::copy), 0.050);
      EXPECT_LT(seconds(log, TransferKind::copy), 5);
      EXPECT_GE(seconds(log, TransferKind::copyto), 0.050);
    }
  }
}

TEST(TransferTimes, OfACopyThatDoesNotBlockAreTheLinksAlone) {
  LOCUS_NEEDS_EMULATED_GPUS();
  const LinkModelScope slow(kSlow);
  const Tensor x = full({kMegabyte}, 1, cpu_pinned());
  const TransferLog log;
  x.copyto(gpu(0), {.blocking = false});
  EXPECT_GE(seconds(log, TransferKind::copy), 0.050);
  EXPECT_LT(seconds(log, TransferKind::copy), 5);
  EXPECT_EQ(seconds(log, TransferKind::copyto), -1);
}

}  // namespace
}  // namespace locus::test
