// Functions that cannot be traced run as they are, and describe() says why.
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <locus/core/compile.h>
#include <locus/core/error.h>
#include <locus/ops/copy.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/fuse.h>
#include <locus/ops/matmul.h>
#include <locus/ops/random.h>
#include <locus/ops/reduce.h>
#include <locus/ops/unary.h>
#include <locus/ops/view.h>

#include "tests/fuse/same.h"
#include "tests/support/contexts.h"

namespace locus {
namespace {

using test::expect_same;
using test::message_of;
using testing::HasSubstr;

// Calls of f give what plain gives, and f is not fused.
template <class F>
void expect_plain(const F& plain, const Tensor& x, const char* why) {
  const Fused f = fuse(plain);
  for (int i = 0; i < 2; ++i) expect_same(f(x), plain(x));
  EXPECT_EQ(f.stats().kernels, 0u);
  EXPECT_THAT(f.describe(), HasSubstr(why));
}

TEST(Unfused, ABranchOnAValueIsTakenAtEachCall) {
  for (const Context c : test::contexts()) {
    int runs = 0;
    const Fused f = fuse([&](const Tensor& x) {
      ++runs;
      return x.sum().item<float>() > 0 ? x * 2 : x * 3;
    });
    for (const float v : {1.f, -1.f, 2.f, -2.f})
      EXPECT_EQ(f(full({3}, v, c)).to_vector<float>()[0], v > 0 ? 2 * v : 3 * v);
    EXPECT_EQ(runs, 5);  // one trace
    EXPECT_THAT(f.describe(), HasSubstr("not fused: item at "));
  }
}

TEST(Unfused, AFunctionThatCatchesTheErrorIsNotFused) {
  const auto plain = [](const Tensor& x) {
    float first = 1;
    try {
      first = x.to_vector<float>()[0];
    } catch (const Error&) {
    }
    return x * first;
  };
  expect_plain(plain, arange(3) + 5, "to_vector");
}

TEST(Unfused, ValuesBehindAPointerAreNotRead) {
  const auto plain = [](const Tensor& x) { return x * *static_cast<const float*>(x.data_ptr()); };
  expect_plain(plain, arange(3) + 5, "data_ptr");
}

TEST(Unfused, OtherTensorsAreReadAnewAtEachCall) {
  Tensor w = arange(3) + 1;
  const auto plain = [&](const Tensor& x) { return exp(x) * w; };
  expect_plain(plain, arange(3), "reads a tensor that is not an argument");
  const Fused f = fuse(plain);
  f(arange(3));
  w = w * 2;
  expect_same(f(arange(3)), exp(arange(3)) * w);
  const auto made = [](const Tensor& x) { return x + array({1.f, 2.f, 3.f}); };
  expect_plain(made, arange(3), "not an argument");
}

TEST(Unfused, WritesHappenAtEachCall) {
  Tensor sum = zeros({3});
  const Fused count = fuse([&](const Tensor& x) {
    sum += x;
    return x * 2;
  });
  const Fused over = fuse([](Tensor x) { return x += 1; });
  const Tensor x = ones({3});
  for (int i = 1; i < 4; ++i) {
    count(x);
    EXPECT_EQ(sum.to_vector<float>()[0], static_cast<float>(i));
  }
  EXPECT_THAT(count.describe(),
              HasSubstr("add: the function is being traced, and writes a tensor"));
  over(x);
  EXPECT_EQ(x.to_vector<float>()[0], 2);
}

TEST(Unfused, RandomNumbersAreDrawnAsWithoutFuse) {
  const auto plain = [](const Tensor& x) { return x + random::uniform(0, 1, {3}); };
  const Fused f = fuse(plain);
  random::seed(7);
  const Tensor a = plain(ones({3})), b = plain(ones({3}));
  random::seed(7);
  expect_same(f(ones({3})), a);
  expect_same(f(ones({3})), b);
  EXPECT_THAT(f.describe(), HasSubstr("drawn anew"));
}

TEST(Unfused, ATensorThatIsKeptElsewhereHasValues) {
  Tensor kept;
  const Fused f = fuse([&](const Tensor& x) {
    kept = x * 2;
    return kept + 1;
  });
  f(arange(3));
  expect_same(kept, arange(3) * 2);
  EXPECT_THAT(f.describe(), HasSubstr("it keeps a tensor that it made"));
  std::vector<Tensor> all;
  const Fused list = fuse([&](const Tensor& x) {
    all.push_back(x * 2);
    return all.back() + 1;
  });
  list(arange(3));
  ASSERT_EQ(all.size(), 2u);  // of the trace, and of the call
  EXPECT_THROW(all[0] + 1, CaptureError);
  EXPECT_THROW(all[0].to_vector<float>(), CaptureError);
  expect_same(all[1], arange(3) * 2);
}

TEST(Unfused, ArgumentsThatAreResultsStayThemselves) {
  const Fused f = fuse([](const Tensor& x) { return Tensors{x, x + 1}; });
  const Tensor x = arange(3);
  EXPECT_TRUE(f(x)[0].is(x));
  EXPECT_THAT(f.describe(), HasSubstr("result 0 is an argument"));
}

TEST(Unfused, EmptyArgumentsOthersContextsAndPartsOfTensors) {
  expect_plain([](const Tensor& x) { return x + 1; }, zeros({0, 3}), "has no elements");
  expect_plain(
      [](const Tensor& x) {
        const Tensor y = x * 2;
        y(Slice(0, 1)) = x(Slice(1, 2));
        return y + 1;
      },
      arange(3), "writes a part of a tensor");
  expect_plain([](const Tensor& x) { return (x + 1).as_in_context(cpu(1)); }, arange(3), "cpu(1)");
  const Fused none = fuse([](float a) { return full({2}, a); });
  EXPECT_EQ(none(3).to_vector<float>()[1], 3);
  EXPECT_EQ(none.stats().traces, 0u);
}

TEST(Unfused, ErrorsAreThoseOfThePlainFunction) {
  const Fused f = fuse([](const Tensor& x, const Tensor& y) { return x + y; });
  const auto call = [&] { f(arange(3), arange(4)); };
  EXPECT_THAT(message_of<ShapeError>(call), HasSubstr("add"));
  EXPECT_THAT(message_of<ShapeError>(call), HasSubstr("add"));
  EXPECT_THROW(f(arange(3), Tensor()), EmptyTensor);
  EXPECT_THROW(f(arange(3), arange(3).as_in_context(cpu(1)) + 0), ContextMismatch);
  EXPECT_THROW(fuse([](const Tensor& x) { return x; }, "not a name"), ValueError);
  expect_same(f(arange(3), arange(3)), arange(3) * 2);
}

TEST(Unfused, TooManyTensorsAreNotFused) {
  const auto plain = [](const Tensors& all) {
    Tensor s = all[0];
    for (const Tensor& t : all) s = s + t;
    return s;
  };
  const Fused f = fuse(plain);
  Tensors all;
  for (int i = 0; i < 30; ++i) all.push_back(arange(4) + i);
  expect_same(f(all), plain(all));
  EXPECT_THAT(f.describe(), HasSubstr("reads and writes 31 tensors"));
}

}  // namespace
}  // namespace locus
