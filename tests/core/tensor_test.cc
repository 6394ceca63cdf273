#include <locus/core/tensor.h>

#include <sstream>

#include <locus/core/memory/storage.h>
#include <locus/core/stream.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/index.h>
#include <locus/ops/view.h>
#include "tests/support/contexts.h"

namespace locus::test {
namespace {

std::string printed(const Tensor& x) {
  std::ostringstream os;
  os << x;
  return os.str();
}

TEST(Tensor, PrintsItsShapeInDecimal) {
  std::ostringstream os;
  os << std::hex << ones({1, 16});
  EXPECT_THAT(os.str(), testing::HasSubstr("<Tensor 1x16 @cpu(0)>"));
}

TEST(Tensor, AnEmptyHandleSaysSo) {
  const Tensor none;
  EXPECT_FALSE(none.defined());
  EXPECT_THROW(none.shape(), Error);
  EXPECT_THROW(none + ones({2}), Error);
}

TEST(Tensor, PrintsItsShapeAndPlace) {
  for (Context c : contexts()) {
    const std::string place = " @" + to_string(c) + ">";
    EXPECT_EQ(printed(array({1.f, 2.f, 3.f}, c)), "[1. 2. 3.]\n<Tensor 3" + place);
    EXPECT_EQ(printed(ones({2, 3}, c).T()), "[[1. 1.]\n [1. 1.]\n [1. 1.]]\n<Tensor 3x2" + place);
    EXPECT_EQ(printed(ones({}, c)), "1.0\n<Tensor" + place);
    EXPECT_EQ(printed(zeros({0, 2}, c)), "[]\n<Tensor 0x2" + place);
  }
}

TEST(Tensor, PrintsADTypeOtherThanF32) {
  for (Context c : contexts()) {
    const std::string place = " @" + to_string(c) + ">";
    EXPECT_EQ(printed(ones({1, 2}, {c, f64})), "[[1. 1.]]\n<Tensor 1x2 f64" + place);
    EXPECT_EQ(printed(array({1, 2}, c)), "[1 2]\n<Tensor 2 i64" + place);
    EXPECT_EQ(printed(ones({}, {c, bool_})), "True\n<Tensor bool" + place);
  }
}

TEST(Tensor, CopytoIsAlwaysNewMemory) {
  for (Context a : distinct_contexts()) {
    for (Context b : distinct_contexts()) {
      const Tensor x = arange(6, a).reshape({2, 3});
      const Tensor y = x.copyto(b);
      EXPECT_EQ(y.context(), b);
      EXPECT_EQ(x.context(), a);
      EXPECT_FALSE(y.shares_memory_with(x));
      EXPECT_EQ(y.to_vector<float>(), x.to_vector<float>());
      EXPECT_EQ(x.as_in_context(b).is(x), a == b);
    }
  }
}

TEST(Tensor, CopytoCastsBetweenDifferentStrides) {
  for (Context a : distinct_contexts()) {
    for (Context b : distinct_contexts()) {
      const Tensor x = arange(6, a).reshape({2, 3}).T();
      const std::vector<double> wanted{0, 3, 1, 4, 2, 5};
      EXPECT_EQ(values(x.copyto(b)), wanted) << a << " to " << b;
      for (DType d : {f32, f64, f16, i32, i64}) {
        const Tensor into = zeros({3, 2}, {b, d});
        x.copyto(into);
        EXPECT_EQ(values(into), wanted) << a << " to " << b << " " << d;
        const Tensor wide = zeros({3, 4}, {b, d});
        x.copyto(wide(Slice(), Slice(0, 4, 2)));
        EXPECT_EQ(values(wide), (std::vector<double>{0, 0, 3, 0, 1, 0, 4, 0, 2, 0, 5, 0}));
      }
    }
  }
}

TEST(Tensor, CopytoTakesEmptyAndScalarTensors) {
  for (Context a : distinct_contexts()) {
    for (Context b : distinct_contexts()) {
      EXPECT_EQ(zeros({0, 3}, a).copyto(b).shape(), (Shape{0, 3}));
      EXPECT_EQ(full({}, 5, a).copyto(b).item<float>(), 5.f);
    }
  }
}

TEST(Tensor, CopytoRefusesUnlikeShapes) {
  const std::string text = message_of<ShapeError>([] {
    ones({2, 3}).copyto(zeros({3, 2}, cpu(1)));
  });
  EXPECT_NE(text.find("(2,3)"), std::string::npos) << text;
  EXPECT_NE(text.find("(3,2)"), std::string::npos) << text;
}

TEST(Tensor, ANonBlockingCopyNeedsPinnedMemory) {
  for (Context c : contexts()) {
    if (c.type == DeviceType::cpu) continue;
    EXPECT_THROW(ones({4}).copyto(c, {.blocking = false}), Error);
    EXPECT_THROW(ones({4}, c).copyto(cpu(), {.blocking = false}), Error);
    const Tensor pinned = full({4}, 3, cpu_pinned());
    const Tensor there = pinned.copyto(c, {.blocking = false});
    const Tensor back = zeros({4}, cpu_pinned());
    (there * 2).copyto(back, {.blocking = false});
    EXPECT_EQ(back.to_vector<float>(), std::vector<float>(4, 6.f));
  }
}

TEST(Tensor, HostContextsMixWithPinned) {
  const Tensor p = ones({2}, cpu_pinned()), h = ones({2}, cpu(1));
  EXPECT_EQ((p + h).context(), cpu(1));
  EXPECT_EQ((p + p).context(), cpu(0));
  Tensor q = p.copyto(cpu_pinned());
  q += h;
  EXPECT_EQ(q.context(), cpu_pinned());
  for (Context c : contexts())
    if (c.type != DeviceType::cpu) {
      EXPECT_THROW(p + ones({2}, c), ContextMismatch);
    }
}

TEST(Tensor, AssigningToATemporaryWritesThrough) {
  for (Context c : contexts()) {
    Tensor a = zeros({2, 3}, c);
    a(0, Slice()) = 7;
    a(1) = array({1.f, 2.f, 3.f}, c);
    a(Slice(), 0) = a(Slice(), 2);
    EXPECT_EQ(a.to_vector<float>(), (std::vector<float>{7, 7, 7, 3, 2, 3}));
    a(Slice(), Slice(0, 2)) = array({9.f, 8.f}, c);  // broadcast
    EXPECT_EQ(a.to_vector<float>(), (std::vector<float>{9, 8, 7, 9, 8, 3}));
    EXPECT_THROW(a(0) = ones({2}, c), ShapeError);
    const Tensor elsewhere = ones({3}, c == cpu(1) ? cpu(0) : cpu(1));
    EXPECT_THROW(a(0) = elsewhere, ContextMismatch);
  }
}

TEST(Tensor, OverlappingViewsOfOneStorageAreCopiedFirst) {
  for (Context c : contexts()) {
    Tensor a = arange(6, c);
    a(Slice(1, {})) = a(Slice(0, 5));
    EXPECT_EQ(a.to_vector<float>(), (std::vector<float>{0, 0, 1, 2, 3, 4}));
    a(Slice(1, {})) += a(Slice(0, 5));
    EXPECT_EQ(a.to_vector<float>(), (std::vector<float>{0, 0, 1, 3, 5, 7}));
  }
}

TEST(Tensor, ItemNeedsOneElement) {
  EXPECT_THROW(ones({2}).item<float>(), ShapeError);
  EXPECT_EQ(ones({1, 1}).item<int64_t>(), 1);
}

TEST(Tensor, StreamsOfOneContextAreOrderedByTheTensors) {
  for (Context c : contexts()) {
    Tensor x = zeros({1 << 16}, c);
    Stream side(c);
    for (int i = 0; i < 50; ++i) {
      x += 1;
      const StreamScope on(side);
      x *= 2;
    }
    double wanted = 0;
    for (int i = 0; i < 50; ++i) wanted = float((wanted + 1) * 2);
    EXPECT_EQ(x[0].item<double>(), wanted) << c;
    EXPECT_EQ(x[-1].item<double>(), wanted) << c;
  }
}

TEST(Tensor, MayBeDroppedWhileACopyIsUnderWay) {
  for (Context a : contexts()) {
    for (Context b : contexts()) {
      std::vector<Tensor> kept;
      for (int i = 0; i < 40; ++i) {
        Tensor x = full({1 << 14}, i, a);
        kept.push_back((x + 1).copyto(b));
      }
      for (int i = 0; i < 40; ++i) EXPECT_EQ(kept[size_t(i)][77].item<float>(), float(i + 1));
    }
  }
}

TEST(Tensor, OutOfMemoryLeavesTheProgramGoing) {
  for (Context c : contexts()) {
    const Tensor before = ones({1000}, c);
    const std::string text = message_of<OutOfMemory>([&] { zeros({int64_t{1} << 50}, c); });
    EXPECT_NE(text.find(to_string(c)), std::string::npos) << text;
    EXPECT_EQ((before + 1)[5].item<float>(), 2.f);
  }
}

}  // namespace
}  // namespace locus::test
