// Stream, Event and StreamScope: ownership, order, errors.
#include <locus/core/stream.h>

#include <chrono>
#include <optional>
#include <type_traits>
#include <utility>

#include <locus/core/error.h>
#include <locus/core/memory/storage.h>
#include <locus/core/transfer_log.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include "tests/support/contexts.h"
#include "tests/support/slow.h"

namespace locus::test {
namespace {

using testing::Each;
using testing::HasSubstr;

std::vector<Context> devices() { return gpus(num_gpus()); }

TEST(Stream, KnowsItsContext) {
  for (Context c : distinct_contexts()) {
    Stream s(c);
    EXPECT_EQ(s.context(), c);
    EXPECT_EQ(s.view().context, c);
    EXPECT_EQ(s.record().context(), c);
    s.synchronize();
  }
  EXPECT_THROW(Stream(gpu(num_gpus())), DeviceError);
}

TEST(Stream, MovesAndRefusesWhatWasMovedFrom) {
  for (Context c : contexts()) {
    Stream a(c);
    const StreamView view = a.view();
    Stream b(std::move(a));
    EXPECT_EQ(b.view().id, view.id);
    const Event e = b.record();
    const std::string advice = "Stream(" + to_string(c) + ")";
    EXPECT_THAT(message_of<Error>([&] { a.record(); }), HasSubstr(advice));
    EXPECT_THAT(message_of<Error>([&] { a.wait(e); }), HasSubstr("moved from"));
    EXPECT_THAT(message_of<Error>([&] { a.synchronize(); }), HasSubstr("Stream::synchronize"));
    EXPECT_THAT(message_of<Error>([&] { StreamScope on(a); }), HasSubstr(advice));
    EXPECT_THROW(a.view(), Error);
    EXPECT_THROW(a.context(), Error);
    b.synchronize();
    Stream other(c);
    b = std::move(other);  // closes b's empty stream
    b.synchronize();
    EXPECT_THROW(other.record(), Error);
  }
}

TEST(Stream, AnEventMovesAndRefusesWhatWasMovedFrom) {
  for (Context c : contexts()) {
    Stream s(c);
    Event a = s.record();
    Event b(std::move(a));
    EXPECT_EQ(b.context(), c);
    b.wait();
    EXPECT_TRUE(b.query());
    EXPECT_THAT(message_of<Error>([&] { a.query(); }), HasSubstr("moved from"));
    EXPECT_THROW(a.wait(), Error);
    EXPECT_THROW(a.context(), Error);
    EXPECT_THROW(s.wait(a), Error);
    EXPECT_THROW(b.elapsed_ms(a), Error);
  }
}

TEST(Stream, EventsOutliveTheirStream) {
  for (Context c : contexts()) {
    std::optional<Event> e;
    {
      Stream s(c);
      const StreamScope on(s);
      const Tensor x = ones({1000}, c) + 1;
      e.emplace(s.record());
    }
    EXPECT_TRUE(e->query()) << "a stream is closed after its work";
    Stream later(c);
    later.wait(*e);
    later.synchronize();
  }
}

TEST(Stream, ElapsedTimeNeedsTwoEventsOfOneDevice) {
  const std::vector<Context> all = contexts();
  for (Context a : all) {
    Stream s(a);
    const Event first = s.record();
    for (Context b : all) {
      Stream t(b);
      const Event other = t.record();
      if (a == b && !is_host(a)) {
        for (int i = 0; i < 50; ++i) delay(s.view());
        const Event last = s.record();
        EXPECT_GE(first.elapsed_ms(last), 0.9 * 50 * kDelay.count() / 1000);
      } else if (a == b) {
        EXPECT_THAT(message_of<Error>([&] { first.elapsed_ms(other); }), HasSubstr("clock"));
      } else {
        EXPECT_THAT(message_of<Error>([&] { first.elapsed_ms(other); }),
                    HasSubstr(to_string(a) + " and " + to_string(b)));
      }
    }
  }
}

TEST(Stream, WaitsForEventsOfEveryContext) {
  for (Context a : distinct_contexts()) {
    for (Context b : distinct_contexts()) {
      Stream writer(a), reader(b);
      Tensor x = zeros({1 << 14}, a);
      {
        const StreamScope on(writer);
        for (int i = 0; i < 200; ++i) delay(writer.view());
        x += 1;
      }
      const Event written = writer.record();
      reader.wait(written);
      const Event after = reader.record();
      after.wait();
      EXPECT_TRUE(written.query()) << a << " before " << b;
      EXPECT_THAT(values(x), Each(1.0));
    }
  }
}

TEST(Stream, NothingFiresBeforeTheWorkItWaitsFor) {
  LOCUS_NEEDS_ANY_GPUS(1);
  for (Context a : devices()) {
    for (Context b : devices()) {
      Stream writer(a), reader(b);
      Gate gate(writer.view());
      const Event written = writer.record();
      reader.wait(written);
      const Event after = reader.record();
      EXPECT_FALSE(written.query());
      EXPECT_FALSE(after.query()) << b << " did not wait for " << a;
      gate.open();
      after.wait();
      EXPECT_TRUE(written.query());
    }
  }
}

TEST(Stream, AScopeHoldsForItsContextOnly) {
  const Context other = cpu(1);
  for (Context c : contexts()) {
    Stream s(c);
    const StreamView before = current_stream(c);
    {
      const StreamScope on(s);
      EXPECT_EQ(current_stream(c).id, s.view().id);
      EXPECT_EQ(current_stream(other).context, other);
      EXPECT_THAT(values(ones({10}, other) + 1), Each(2.0));
      Stream inner(c);
      {
        const StreamScope nested(inner);
        EXPECT_EQ(current_stream(c).id, inner.view().id);
      }
      EXPECT_EQ(current_stream(c).id, s.view().id);
    }
    EXPECT_EQ(current_stream(c).id, before.id);
  }
}

TEST(Stream, AScopeHoldsForCopiesToo) {
  LOCUS_NEEDS_ANY_GPUS(1);
  for (Context c : devices()) {
    const Tensor h = full({1 << 12}, 3, cpu_pinned());
    Stream s(c);
    const StreamScope on(s);
    const Tensor d = h.copyto(c, {.blocking = false});
    EXPECT_EQ(d.impl().storage->home().id, s.view().id);
    const Tensor back = zeros({1 << 12}, cpu_pinned());
    d.copyto(back, {.blocking = false});
    s.record().wait();  // covers both copies
    EXPECT_THAT(values(back), Each(3.0));
  }
}

// Tensors outlive their home stream: reads, writes, copies both ways, frees.
TEST(Stream, TensorsLiveOnAfterTheirStream) {
  for (Context c : contexts()) {
    for (Context other : contexts()) {
      Tensor x;
      {
        Stream s(c);
        const StreamScope on(s);
        x = full({1 << 12}, 2, c);
        x += 1;
      }
      EXPECT_THAT(values(x + 1), Each(4.0));
      x *= 2;
      const Tensor y = x.copyto(other);
      EXPECT_THAT(values(y), Each(6.0));
      (y + 1).copyto(x);
      EXPECT_THAT(values(x), Each(7.0)) << c << " and " << other;
      Stream next(c);
      const StreamScope on(next);
      x += 1;
      EXPECT_THAT(values(x), Each(8.0));
    }
  }
}

static_assert(!std::is_constructible_v<StreamScope, Stream>, "its stream would be gone at once");

TEST(Stream, ScopesMayEndInTheOrderTheyBegan) {
  LOCUS_NEEDS_ANY_GPUS(1);
  for (Context c : devices()) {
    const Stream a(c), b(c);
    std::optional<StreamScope> outer(a), inner(b);
    outer.reset();
    EXPECT_EQ(current_stream(c).id, b.view().id);
    inner.reset();
    EXPECT_EQ(current_stream(c).id, device(c).stream(Lane::compute).id);
  }
}

TEST(Stream, ClosingItIsAWaitOnTheLineThatOpenedIt) {
  LOCUS_NEEDS_ANY_GPUS(1);
  for (Context c : devices()) {
    const TransferLog log;
    const unsigned line = __LINE__ + 2;
    {
      const Stream s(c);
      for (int i = 0; i < 200; ++i) delay(s.view());
    }
    const std::vector<TransferEntry> entries = log.entries();
    ASSERT_EQ(entries.size(), 1u);
    EXPECT_EQ(entries[0].kind, TransferKind::stream);
    EXPECT_EQ(entries[0].caller.line, line);
    EXPECT_EQ(entries[0].from, c);
    EXPECT_GT(entries[0].seconds, 0.9 * 200 * std::chrono::duration<double>(kDelay).count());
  }
}

TEST(Stream, AClosedOrForeignStreamIsRefused) {
  LOCUS_NEEDS_ANY_GPUS(1);
  for (Context c : devices()) {
    Device& d = device(c);
    const Tensor x = ones({16}, c);
    const Tensor host = ones({16});
    const auto copy_on = [&](StreamView s) {
      d.copy(x.data_ptr(), c, host.data_ptr(), cpu(), 64, s);
    };
    const StreamView closed = d.open_stream();
    d.close_stream(closed);
    EXPECT_THAT(message_of<DeviceError>([&] { copy_on(closed); }), HasSubstr("closed stream"));
    for (Context other : devices()) {
      if (other == c) continue;
      Stream foreign(other);
      EXPECT_THAT(message_of<Error>([&] { copy_on(foreign.view()); }),
                  HasSubstr("stream of " + to_string(other)));
    }
    EXPECT_THAT(values(x), Each(1.0));
  }
}

}  // namespace
}  // namespace locus::test
