// Copies and waits inside of functions are of the user's line.
#include <locus/core/transfer_log.h>

#include <locus/ops/create.h>
#include <locus/ops/join.h>
#include <locus/ops/named.h>
#include <locus/ops/statistics.h>
#include "tests/support/contexts.h"

namespace {

using namespace locus;
using testing::HasSubstr;

TEST(TransferLines, OfWaitsInsideFunctionsAreTheUsers) {
  LOCUS_NEEDS_ANY_GPUS(1);
  const Tensor x = array({3., 1., 2.}, gpu(0)), weights = array({1., 2., 3.}, gpu(0)),
               counts = array({2, 0, 1}, gpu(0)), q = array({.5, .1}, gpu(0));
  const TransferLog log;
  const unsigned first = __LINE__ + 1;
  average(x, {.weights = weights});
  repeat(x, counts, 0);
  quantile(x, q);
  invoke("unique", {x});
  invoke("bincount", {counts});
  const unsigned last = __LINE__ - 1;
  const std::vector<TransferEntry> entries = log.entries();
  EXPECT_GE(entries.size(), 5u);
  for (const TransferEntry& e : entries) {
    SCOPED_TRACE(to_string(e.caller));
    ASSERT_NE(e.caller.file, nullptr);
    EXPECT_THAT(e.caller.file, HasSubstr("transfer_lines_test.cc"));
    EXPECT_GE(e.caller.line, first);
    EXPECT_LE(e.caller.line, last);
  }
}

}  // namespace
