#include <locus/core/transfer_log.h>

#include "tests/support/contexts.h"

namespace locus::test {
namespace {

using testing::HasSubstr;
using testing::Not;

// The advice of a table with one entry.
std::string advice(TransferKind kind, Context from, Context to, uint64_t count, uint64_t bytes) {
  const std::string text = format_transfers(
      {{kind, from, to, count, bytes, 0.25, Caller::here("/home/me/train/main.cc", 41), false}});
  return text.substr(text.find("Costliest"));
}

TEST(TransferTable, Advises) {
  using enum TransferKind;
  EXPECT_EQ(
      advice(item, gpu(0), cpu(), 1000, 4000),
      "Costliest, train/main.cc:41: 1000 scalars read one at a time; keep it on the device, read "
      "once: collect them on gpu(0) and call to_vector after the loop.\n");
  EXPECT_THAT(advice(item, gpu(0), cpu(), 1, 4), HasSubstr("read the value later"));
  EXPECT_THAT(advice(copy, cpu(), gpu(0), 100, 400), HasSubstr("gather them and copy once"));
  EXPECT_THAT(advice(copy, cpu(), gpu(0), 1, 1 << 28), HasSubstr("from a cpu_pinned() tensor"));
  EXPECT_THAT(advice(copy, gpu(0), cpu(), 1, 1 << 28), HasSubstr("into a cpu_pinned() tensor"));
  EXPECT_THAT(advice(copy, cpu_pinned(), gpu(0), 1, 1 << 28), Not(HasSubstr("pageable")));
  EXPECT_THAT(advice(copy, cpu_pinned(), gpu(0), 100, 1 << 28),
              HasSubstr("keep the data on gpu(0)"));
  EXPECT_THAT(advice(copy, gpu(0), gpu(1), 1, 1 << 28), HasSubstr("on one context"));
  EXPECT_THAT(advice(copy, cpu(0), cpu(1), 1, 1 << 28), HasSubstr("create the tensor where"));
  EXPECT_THAT(advice(copyto, gpu(0), cpu(), 1, 1 << 28), HasSubstr("{.blocking = false}"));
  EXPECT_THAT(advice(to_vector, gpu(0), cpu(), 20, 1 << 20), HasSubstr("read them once"));
  EXPECT_THAT(advice(print, gpu(0), cpu(), 1, 4), HasSubstr("print less often"));
  EXPECT_THAT(advice(wait_all, gpu(0), cpu(), 1, 0), HasSubstr("reading waits by itself"));
  EXPECT_THAT(advice(stream, gpu(0), cpu(), 1, 0), HasSubstr("Stream::wait"));
  EXPECT_THAT(advice(op, gpu(0), cpu(), 1, 0), HasSubstr("still copying"));
}

TEST(TransferTable, Layout) {
  using enum TransferKind;
  const Caller here = Caller::here("/home/me/train/main.cc", 41);
  EXPECT_EQ(
      format_transfers({{copy, cpu(), gpu(1), 2, 1500000, 0.001, here, false},
                        {item, gpu(1), cpu(), 1, 4, 2.5e-5, {}, true, false, "times of a model"}}),
      "what        from    to      count    bytes      time  GB/s  line\n"
      "copy        cpu(0)  gpu(1)      2  1.50 MB   1.00 ms  1.50  train/main.cc:41\n"
      "wait: item  gpu(1)  cpu(0)      1      4 B  25.0 µs*     -  (line not known)\n"
      "* emulated GPU: times of a model\n"
      "Costliest, train/main.cc:41: copied 2 times; keep the data on gpu(1) if it is used again "
      "there.\n");
}

TEST(TransferTable, TheCostliestIsWhatHeldTheHostUp) {
  using enum TransferKind;
  const Caller loader = Caller::here("loader.cc", 7), loss = Caller::here("train.cc", 9);
  const auto dearest = [&](double upload, double read) {
    const std::string text =
        format_transfers({{copy, cpu_pinned(), gpu(0), 100, 6400000, upload, loader},
                          {item, gpu(0), cpu(), 100, 400, read, loss}});
    return text.substr(text.find("Costliest"));
  };
  EXPECT_THAT(dearest(0.5, 0.1), HasSubstr("train.cc:9")) << "uploads run beside it";
  EXPECT_THAT(dearest(0.5, 0.01), HasSubstr("loader.cc:7"));
}

}  // namespace
}  // namespace locus::test
