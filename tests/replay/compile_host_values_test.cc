// Values that the host makes inside a compiled function.
#include <locus/core/capture.h>
#include <locus/core/compile.h>

#include <locus/core/error.h>
#include <locus/devices/cpu.h>
#include <locus/nn/transforms.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/reduce.h>
#include "tests/support/contexts.h"

namespace locus::test {
namespace {

using Values = std::vector<double>;

// Reuses freed memory of the recording.
Tensor reuse(const Tensor& x) { return ((x * 3 + 1) * x - 2).sum(); }

TEST(CompiledHostValues, AnArrayHasItsNumbersInEachReplay) {
  for (const DType d : {f32, f64, f16}) {
    Compiled f([d](const Tensors& in) {
      const Tensor y = in[0] * array({1, 10, 100}, d);
      const Tensor other = reuse(in[0]);
      return Tensors{y, other, array({4, 5, 6}, d)};
    });
    for (int i = 1; i < 5; ++i) {
      const Tensors y = f({full({3}, i, d)});
      EXPECT_EQ(values(y[0]), Values({1. * i, 10. * i, 100. * i}));
      EXPECT_EQ(values(y[2]), Values({4, 5, 6}));
    }
  }
}

TEST(CompiledHostValues, AnArrayThatIsWrittenStartsAnewInEachReplay) {
  Compiled f([](const Tensors& in) {
    Tensor sum = array({1, 2, 3}, f64);
    sum += in[0];
    return Tensors{sum};
  });
  for (int i = 0; i < 4; ++i)
    EXPECT_EQ(values(f({full({3}, 10, f64)})[0]), Values({11, 12, 13})) << i;
}

TEST(CompiledHostValues, PinnedNumbersAreSentInEachReplay) {
  for (Context c : contexts()) {
    if (c.type == DeviceType::cpu) continue;
    SCOPED_TRACE(to_string(c));
    Compiled f([c](const Tensors& in) {
      const Tensor first = array({1, 2, 3}, {cpu_pinned(), f32}).copyto(c, {.blocking = false});
      const Tensor second = array({7, 8, 9}, {cpu_pinned(), f32}).copyto(c, {.blocking = false});
      return Tensors{in[0] * first, in[0] * second};
    });
    for (int i = 1; i < 5; ++i) {
      const Tensors y = f({full({3}, i, c)});
      EXPECT_EQ(values(y[0]), Values({1. * i, 2. * i, 3. * i}));
      EXPECT_EQ(values(y[1]), Values({7. * i, 8. * i, 9. * i}));
    }
  }
}

TEST(CompiledHostValues, ATransformGivesWhatItGivesEagerly) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const data::transforms::RandomCrop crop({3, 3}, {.pad = 1});
    const std::vector<int32_t> samples{4, 9};
    const data::Draw draw{7, 2, samples, Caller::here()};
    Compiled f([&](const Tensors& in) { return Tensors{crop(in[0], draw), reuse(in[0])}; });
    for (int i = 1; i < 5; ++i) {
      const Tensor x = arange(2 * 25, {c, f32}).reshape({2, 1, 5, 5}) * i;
      EXPECT_EQ(values(f({x})[0]), values(crop(x, draw)));
    }
  }
}

TEST(CompiledHostValues, AnEmptyIntermediateMayBeRead) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    Compiled f([](const Tensors& in) { return Tensors{(in[0] * 2).sum() + 1}; });
    for (int i = 0; i < 3; ++i) EXPECT_EQ(values(f({zeros({0}, c)})[0]), Values({1}));
  }
}

TEST(CompiledHostValues, MemoryThatTheHostFilledIsRefused) {
  Compiled f([](const Tensors& in) {
    const Tensor made = empty({3}, f64);
    static_cast<double*>(made.data_ptr())[0] = 5;
    return Tensors{in[0] + made};
  });
  const std::string text = message_of<CaptureError>([&] { f({ones({3}, f64)}); });
  for (const char* part : {"is being recorded", "add reads 24 bytes on cpu(0)",
                           "no recorded call has written", "array()"})
    EXPECT_NE(text.find(part), std::string::npos) << text;
}

TEST(CompiledHostValues, ANumberAndABranchAreThoseOfTheFirstCall) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    double factor = 2;
    bool doubled = true;
    Compiled f([&](const Tensors& in) {
      const Tensor y = in[0] * factor;
      return Tensors{doubled ? y * 2 : y};
    });
    const Tensor x = ones({3}, c);
    EXPECT_EQ(values(f({x})[0]), Values(3, 4));
    factor = 10;
    doubled = false;
    EXPECT_EQ(values(f({x})[0]), Values(3, 4));
  }
}

TEST(CompiledHostValues, StateIsCarriedByWritesInPlaceAlone) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    Tensor written = zeros({3}, c), replaced = zeros({3}, c);
    Compiled f([&](const Tensors& in) {
      written += in[0];
      replaced = replaced + in[0];
      return Tensors{written, replaced};
    });
    const Tensor x = ones({3}, c);
    for (int i = 1; i < 4; ++i) {
      const Tensors y = f({x});
      EXPECT_EQ(values(y[0]), Values(3, i));
      EXPECT_EQ(values(y[1]), Values(3, 1));
    }
  }
}

// An op that is refused is no part of the graph.
TEST(CaptureHostValues, WhatReadsUnwrittenMemoryIsNotReplayed) {
  LOCUS_NEEDS_ANY_GPUS(1);
  Tensor w = ones({3}, gpu(0)), y = zeros({3}, gpu(0));
  Capture capture(gpu(0));
  EXPECT_THROW(w += empty({3}, gpu(0)), CaptureError);
  y += w;
  Graph graph = capture.end();
  graph.replay();
  EXPECT_EQ(values(w), Values(3, 1));
  EXPECT_EQ(values(y), Values(3, 1));
}

}  // namespace
}  // namespace locus::test
