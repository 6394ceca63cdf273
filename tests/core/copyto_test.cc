// copyto across contexts: all kinds of tensors, and the order with reads and writes.
#include <locus/core/tensor.h>

#include <memory>
#include <optional>

#include <locus/core/error.h>
#include <locus/core/memory/storage.h>
#include <locus/core/stream.h>
#include <locus/ops/copy.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/view.h>
#include "tests/support/contexts.h"
#include "tests/support/slow.h"

namespace locus::test {
namespace {

using testing::Each;

// contexts() and pinned memory.
std::vector<Context> places() {
  std::vector<Context> list = contexts();
  list.push_back(cpu_pinned());
  return list;
}

template <class F>
void for_all_pairs(F&& body) {
  for (Context a : places()) {
    for (Context b : places()) {
      SCOPED_TRACE(to_string(a) + " to " + to_string(b));
      body(a, b);
    }
  }
}

TEST(Copyto, EveryDTypeMakesTheRoundTrip) {
  for_all_pairs([](Context a, Context b) {
    for (DType d : {f32, f64, f16, bf16, i32, i64, u8, i8, bool_}) {
      SCOPED_TRACE(name(d));
      const Tensor x = array(std::vector<double>{0, 1, 1, 0, 1, 3, 7}, {cpu(), d}).copyto(a);
      const Tensor y = x.copyto(b);
      EXPECT_EQ(y.dtype(), d);
      EXPECT_EQ(y.context(), b);
      EXPECT_EQ(values(y), values(x));
      EXPECT_EQ(values(y.copyto(a)), values(x));
    }
  });
}

TEST(Copyto, StridedSourcesAndTargetsOfAnyDType) {
  for_all_pairs([](Context a, Context b) {
    const Tensor x = arange(12, a).reshape({3, 4});
    const Tensor odd = x(Slice({}, {}, -1), Slice(1, {}, 2));  // (3, 2), both axes strided
    const std::vector<double> wanted{9, 11, 5, 7, 1, 3};
    EXPECT_EQ(values(odd.copyto(b)), wanted);
    EXPECT_EQ(values(x.T().copyto(b)), values(x.T()));
    for (DType d : {f32, f64, f16, bf16, i32, i64, u8, i8}) {
      SCOPED_TRACE(name(d));
      const Tensor into = full({2, 6}, 50, {b, d});
      odd.copyto(into.T()(Slice(0, {}, 2), Slice()));
      EXPECT_EQ(values(into), (std::vector<double>{9, 50, 5, 50, 1, 50, 11, 50, 7, 50, 3, 50}));
    }
  });
}

TEST(Copyto, EmptyAndScalarTensors) {
  for_all_pairs([](Context a, Context b) {
    for (const Shape& shape : {Shape{0}, Shape{0, 3}, Shape{2, 0, 4}}) {
      const Tensor y = zeros(shape, a).copyto(b);
      EXPECT_EQ(y.shape(), shape);
      EXPECT_EQ(y.context(), b);
      zeros(shape, a).copyto(y);
      EXPECT_EQ(y.to_vector<float>().size(), 0u);
    }
    const Tensor s = full({}, 5, a).copyto(b);
    EXPECT_EQ(s.ndim(), 0);
    EXPECT_EQ(s.item<float>(), 5);
    full({}, 7, {a, i64}).copyto(s);
    EXPECT_EQ(s.item<float>(), 7);
  });
}

// Below, at and above the sizes at which the path through the host changes.
TEST(Copyto, EverySizeArrives) {
  for_all_pairs([](Context a, Context b) {
    for (const int64_t n : {1, 15, 16383, 16384, 16385, 65536, 65537, 524288, 1048583, 6000011}) {
      const Tensor x = arange(n, {cpu(), i32}).copyto(a);
      const std::vector<int32_t> y = x.copyto(b).to_vector<int32_t>();
      ASSERT_EQ(y.size(), static_cast<size_t>(n));
      int64_t wrong = 0;
      for (int64_t i = 0; i < n; ++i) wrong += y[static_cast<size_t>(i)] != i;
      EXPECT_EQ(wrong, 0) << n;
    }
  });
}

TEST(Copyto, RefusesWhatItCannotDoAndChangesNothing) {
  for_all_pairs([](Context a, Context b) {
    const Tensor x = ones({4}, a), y = full({5}, 2, b);
    EXPECT_THROW(x.copyto(y), ShapeError);
    if (is_host(a) == is_host(b)) return;
    if (a == cpu() || b == cpu()) {
      const Tensor into = full({4}, 2, b);
      EXPECT_THROW(x.copyto(into, {.blocking = false}), Error);
      EXPECT_THAT(message_of<Error>([&] { x.copyto(b, {.blocking = false}); }),
                  testing::HasSubstr("cpu_pinned()"));
      EXPECT_THAT(values(into), Each(2.0));
    }
    EXPECT_THAT(values(x), Each(1.0));
    EXPECT_THAT(values(y), Each(2.0));
  });
}

// A slow stream writes. copyto must deliver the written value, and a later write must wait until
// the copy has read.
void slow_writer(Context a, Context b, int rounds, bool into) {
  constexpr int kBatch = 10;
  Stream slow(a);
  const Tensor x = zeros({64}, a);
  Tensors got;
  for (int k = 0; k < kBatch; ++k) got.push_back(zeros({64}, b));
  for (int i = 0; i < rounds; i += kBatch) {
    for (int k = 0; k < kBatch; ++k) {
      {
        const StreamScope on(slow);
        delay(slow.view());
        x(Slice()) = i + k;
      }
      if (into) {
        x.copyto(got[static_cast<size_t>(k)]);
      } else {
        got[static_cast<size_t>(k)] = x.copyto(b);
      }
    }
    for (int k = 0; k < kBatch; ++k)
      ASSERT_EQ(values(got[static_cast<size_t>(k)]), std::vector<double>(64, i + k));
  }
}

TEST(Copyto, NeverDeliversStaleValues) {
  for (Context a : contexts())
    for (Context b : contexts())
      for (const bool into : {false, true}) {
        SCOPED_TRACE(to_string(a) + " to " + to_string(b));
        slow_writer(a, b, a == b ? 500 : 1000, into);
      }
}

TEST(Copyto, NeverDeliversStaleValuesBetweenDevicesTenThousandTimes) {
  LOCUS_NEEDS_ANY_GPUS(2);
  slow_writer(gpu(0), gpu(1), 10000, false);
}

TEST(Copyto, ALaterWriteWaitsForTheCopy) {
  for (Context a : contexts()) {
    for (Context b : contexts()) {
      SCOPED_TRACE(to_string(a) + " to " + to_string(b));
      Stream busy(b);
      for (int i = 0; i < 200; ++i) {
        Tensor x = full({256}, i, a);
        Tensor y;
        {
          const StreamScope on(busy);
          delay(busy.view());
          y = x.copyto(b);
        }
        x += 1000;  // on another stream than the copy's
        ASSERT_THAT(values(y), Each(double(i)));
        ASSERT_THAT(values(x), Each(1000.0 + i));
      }
    }
  }
}

// A write on a second stream, a write on the home stream, then a read on a third stream.
TEST(Copyto, WritesOnTwoStreamsAndAReadOnAThird) {
  for (Context c : contexts()) {
    Stream second(c), third(c);
    Tensor x = zeros({512}, c);
    double wanted = 0;
    for (int i = 0; i < 300; ++i) {
      {
        const StreamScope on(second);
        delay(second.view());
        x += 1;
      }
      delay(current_stream(c));
      x *= 2;
      wanted = float((wanted + 1) * 2);
      if (wanted > 1e6) {
        x(Slice()) = 0;
        wanted = 0;
      }
      Tensor y;
      {
        const StreamScope on(third);
        y = x + 0.0f;
      }
      if (i % 7 == 0) {
        ASSERT_THAT(values(y), Each(wanted)) << c << ", round " << i;
      }
    }
  }
}

// Neither the host nor the compute stream may wait for the next batch's upload.
TEST(Copyto, AnOpDoesNotWaitForALaterUpload) {
  LOCUS_NEEDS_EMULATED_GPUS();
  const Tensor small = full({1}, 1, {cpu_pinned(), f32});
  const Tensor large = full({kMegabyte}, 1, {cpu_pinned(), f32});
  const LinkModelScope slow(emulated::LinkModel{.h2d = 0.005});  // a megabyte takes 0.2 s
  const Tensor a = small.copyto(gpu(0), {.blocking = false});
  const Tensor b = large.copyto(gpu(0), {.blocking = false});
  Device& d = device(gpu(0));
  const EventView uploaded = d.record(d.stream(Lane::to_device));
  const Tensor sum = a + a;
  d.synchronize(d.stream(Lane::compute));
  EXPECT_FALSE(d.done(uploaded)) << "a + a waited for the upload of b";
  EXPECT_EQ(values(sum), std::vector<double>{2});
  EXPECT_EQ(values(b), std::vector<double>(kMegabyte, 1));
  d.release(uploaded);
}

// Drops the source, the target or both while the copy is queued, and allocates at once.
TEST(Copyto, HandlesMayBeDroppedWhileTheCopyIsUnderWay) {
  for_all_pairs([](Context a, Context b) {
    std::vector<Tensor> kept;
    const CopyOptions options{.blocking = a == cpu() || b == cpu()};
    Stream busy(is_host(a) ? b : a);
    for (int i = 0; i < 100; ++i) {
      const StreamScope on(busy);
      Tensor x = full({2048}, i, a);
      delay(busy.view());
      Tensor y = x.copyto(b, options);
      x = Tensor();
      const Tensor reused = full({2048}, -1, a);
      if (i % 2 == 0) kept.push_back(y);
      y = Tensor();
      const Tensor reused_too = full({2048}, -2, b);
    }
    for (size_t i = 0; i < kept.size(); ++i) ASSERT_THAT(values(kept[i]), Each(2.0 * double(i)));
  });
}

// Pageable memory may be reused when copyto returns; no event holds it.
TEST(Copyto, APageableSourceIsFreeAtOnce) {
  LOCUS_NEEDS_ANY_GPUS(1);
  for (Context c : gpus(num_gpus())) {
    Stream busy(c);
    for (const int64_t n : {100, 5000, 100000}) {
      Tensor h = full({n}, 1);
      const StreamScope on(busy);
      Tensor d;
      for (int i = 0; i < 5; ++i) delay(busy.view());
      d = h.copyto(c);
      h += 1;
      EXPECT_THAT(values(d), Each(1.0));
    }
  }
}

}  // namespace
}  // namespace locus::test
