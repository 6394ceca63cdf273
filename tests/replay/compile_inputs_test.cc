// Inputs of compiled functions: copied in at every call, copied back if written, refused if a copy
// would be wrong.
#include <locus/core/autograd.h>
#include <locus/core/compile.h>
#include <locus/core/stream.h>
#include <locus/ops/random.h>

#include <locus/core/generator.h>
#include "tests/replay/compiles.h"

namespace locus::test {
namespace {

using testing::HasSubstr;

// Adds 1 to its first input x; returns 2 x and x.
Tensors count(const Tensors& in) {
  Tensor x = in[0];
  x += 1;
  return {x * 2, x};
}

TEST(CompiledInputs, WrittenOnesAreCopiedBack) {
  for (const Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    Compiled f(count);
    Tensors all;
    for (int i = 0; i < 6; ++i) all.push_back(full({3}, i, c));
    for (int round = 1; round < 4; ++round)
      for (int i = 0; i < 6; ++i) {
        const Tensor x = all[static_cast<size_t>(i)];
        const Tensors y = f({x});
        EXPECT_EQ(values(x), Values(3, i + round));
        EXPECT_EQ(values(y[0]), Values(3, 2 * (i + round)));
        EXPECT_FALSE(y[1].shares_memory_with(x));
      }
    EXPECT_EQ(f.recorded(), 1u);
  }
}

TEST(CompiledInputs, WrittenOnesOfSeveralContextsAndLayoutsAreCopiedBack) {
  const std::vector<Context> all = distinct_contexts();
  Compiled f([](const Tensors& in) {
    for (Tensor x : in) x *= 2;
    return Tensors{};
  });
  for (int i = 1; i < 4; ++i) {
    Tensors in;
    for (const Context c : all) {
      const Tensor x = arange(6, {c, f32}).reshape({2, 3});
      in.push_back(x(1) + 0);
      in.push_back((x + 0).T());
      in.push_back((x + 0)(1));  // a part of a tensor
    }
    f(in);
    for (size_t k = 0; k < in.size(); k += 3) {
      EXPECT_EQ(values(in[k]), (Values{6, 8, 10}));
      EXPECT_EQ(values(in[k + 1]), (Values{0, 6, 2, 8, 4, 10}));
      EXPECT_EQ(values(in[k + 2]), (Values{6, 8, 10}));
    }
  }
  EXPECT_EQ(f.recorded(), 1u);
}

// The text of the ValueError, at a first call and at a later one.
std::vector<std::string> refused(const Function& body, const Tensors& fine, const Tensors& in) {
  Compiled first(body), later(body);
  std::vector<std::string> texts{message_of<ValueError>([&] { first(in); })};
  EXPECT_EQ(first.recorded(), 0u);
  later(fine);
  texts.push_back(message_of<ValueError>([&] { later(in); }));
  later(fine);
  EXPECT_LE(later.recorded(), 1u);
  return texts;
}

TEST(CompiledInputs, AWrittenOneWithGapsOrANegativeStrideIsRefused) {
  for (const Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor big = arange(12, {c, f32}).reshape({3, 4});
    const Values before = values(big);
    for (const Tensor& x :
         {big(Slice(), Slice(0, 2)), big(Slice({}, {}, -1)), big[0](Slice({}, {}, 2))})
      for (const std::string& text : refused(count, {ones({2}, c)}, {x})) {
        EXPECT_THAT(text, HasSubstr("input 0, " + describe(x)));
        EXPECT_THAT(text, HasSubstr("gaps or a negative stride; pass a dense copy"));
        EXPECT_EQ(values(big), before);
      }
  }
}

TEST(CompiledInputs, AWrittenOneInMemoryOfAnotherIsRefused) {
  for (const Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Function body = [](const Tensors& in) {
      Tensor x = in[1];
      x += in[0];
      return Tensors{};
    };
    const Tensor big = zeros({8}, c);
    const Tensors fine{ones({4}, c), zeros({4}, c)};
    for (const Tensors& in :
         {Tensors{big(Slice(0, 4)), big(Slice(0, 4))}, Tensors{big(Slice(2, 6)), big(Slice(0, 4))}})
      for (const std::string& text : refused(body, fine, in)) {
        EXPECT_THAT(text, HasSubstr("writes input 1, " + describe(in[1])));
        EXPECT_THAT(text, HasSubstr("also that of input 0, " + describe(in[0])));
        EXPECT_THAT(text, HasSubstr("pass a copy"));
        EXPECT_EQ(values(big), Values(8, 0));
      }
    Compiled f(body);
    for (int i = 1; i < 3; ++i) {
      f({big(Slice(0, 4)), big(Slice(4, 8))});  // they do not overlap
      EXPECT_EQ(values(big), Values(8, 0));
    }
    Compiled g([](const Tensors& in) { return Tensors{in[0] + in[1]}; });
    for (int i = 0; i < 3; ++i)  // nothing is written
      EXPECT_EQ(values(g({big, big})[0]), Values(8, 0));
  }
}

TEST(CompiledInputs, AWrittenOneThatIsCapturedIsRefused) {
  for (const Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor w = zeros({3}, c);
    const Function writes_input = [&](const Tensors& in) {
      Tensor x = in[0];
      x += 1;
      return Tensors{w * 10};
    };
    const Function writes_captured = [&](const Tensors& in) {
      Tensor x = w;
      x += 1;
      return Tensors{in[0] * 10};
    };
    for (const Function& body : {writes_input, writes_captured})
      for (const std::string& text : refused(body, {ones({3}, c)}, {w})) {
        EXPECT_THAT(text, HasSubstr("writes input 0, " + describe(w)));
        EXPECT_THAT(text, HasSubstr("captured its memory as well; pass the tensor or capture it"));
      }
    const Function returns_captured = [&](const Tensors& in) {
      Tensor x = in[0];
      x += 1;
      return Tensors{w};
    };
    for (const std::string& text : refused(returns_captured, {ones({3}, c)}, {w}))
      EXPECT_THAT(text, HasSubstr("captured its memory as well; pass the tensor or capture it"));
    Compiled reads([&](const Tensors& in) { return Tensors{in[0] + w}; });
    const Values expected = values(w + w);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(values(reads({w})[0]), expected);
  }
}

TEST(CompiledInputs, AGradientThatTheFunctionWritesIsNoInput) {
  for (const Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor w = leaf(full({3}, 2, c));
    Compiled f([&](const Tensors& in) {
      Tensor y;
      {
        const autograd::Record record;
        y = w * w;
      }
      y.backward();
      return Tensors{in[0] * 1};
    });
    f({ones({3}, c)});
    EXPECT_THAT(message_of<ValueError>([&] { f({w.grad()}); }), HasSubstr("writes input 0"));
    EXPECT_EQ(values(f({w.grad().copyto(c)})[0]), Values(3, 4));
  }
}

TEST(CompiledInputs, ATensorThatTheFunctionKeptMayBeAnInput) {
  for (const Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    Tensor kept, buffer;
    Compiled f([&](const Tensors& in) {
      kept = in[0] * 2;
      buffer = in[0];
      return Tensors{kept + 1};
    });
    f({ones({3}, c)});
    EXPECT_EQ(values(f({kept})[0]), Values(3, 5));
    EXPECT_EQ(values(f({kept})[0]), Values(3, 9));
    EXPECT_EQ(values(f({buffer})[0]), Values(3, 9));
    EXPECT_EQ(f.recorded(), 1u);
  }
}

TEST(CompiledInputs, ViewsWithGapsAreReadLikeAllOthers) {
  for (const Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Function body = [](const Tensors& in) {
      return Tensors{in[0] * 2, in[0].sum({.axis = 0}), in[0].sum({.axis = 1}), in[0].sum()};
    };
    Compiled f(body);
    for (int i = 0; i < 3; ++i) {
      const Tensor big = random::normal(0, 1, {70, 90}, c);
      for (const Tensor& x : {big(Slice(), Slice(3, 80)), big(Slice(), Slice(3, 80)).T(),
                              big(Slice({}, {}, -1), Slice({}, {}, 2)),
                              broadcast_to(big(Slice(), Slice(5, 6)), {70, 40})}) {
        const Tensors eager = body({x}), y = f({x});
        for (size_t k = 0; k < y.size(); ++k) EXPECT_EQ(values(y[k]), values(eager[k])) << k;
      }
    }
    EXPECT_EQ(f.recorded(), 4u);
  }
}

TEST(CompiledInputs, TheGradientOfOneIsWrittenByTheFunctionItself) {
  for (const Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    Compiled f([](const Tensors& in) {
      Tensor y;
      {
        const autograd::Record record;
        y = in[0] * in[0];
      }
      y.backward();
      return Tensors{in[0].grad()};
    });
    const Tensor a = leaf(ones({3}, c)), b = leaf(ones({3}, c));
    for (int i = 1; i < 4; ++i)
      for (const Tensor& x : {a, b}) {
        full({3}, i, c).copyto(x);
        EXPECT_EQ(values(f({x})[0]), Values(3, 2 * i));
        EXPECT_EQ(values(x.grad()), Values(3, 2 * i));
      }
    EXPECT_EQ(f.recorded(), 2u) << "once for each gradient";
  }
}

TEST(CompiledInputs, AGradientThatIsAttachedInsideIsNotTheCallers) {
  for (const Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    Compiled f([](const Tensors& in) {
      in[0].attach_grad();
      Tensor y;
      {
        const autograd::Record record;
        y = in[0] * in[0];
      }
      y.backward();
      return Tensors{in[0].grad()};
    });
    const Tensor x = full({3}, 2, c);
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(values(f({x})[0]), Values(3, 4));
      EXPECT_THROW(x.grad(), Error);
    }
    EXPECT_EQ(f.recorded(), 1u);
  }
}

TEST(CompiledInputs, OneInAGraphIsUsedOutsideOfItWithoutIt) {
  for (const Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor w = leaf(ones({3}, c));
    Compiled reads([](const Tensors& in) { return Tensors{in[0] + 1}; });
    Compiled differentiates([](const Tensors& in) {
      Tensor y;
      {
        const autograd::Record record;
        y = in[0] * in[0];
      }
      y.backward();
      return Tensors{y};
    });
    for (int i = 0; i < 3; ++i) {
      Tensor x;
      {
        const autograd::Record record;
        x = w * i;
      }
      EXPECT_EQ(values(reads({x})[0]), Values(3, i + 1));
      EXPECT_THROW(differentiates({x}), CaptureError);
    }
    EXPECT_EQ(reads.recorded(), 1u);
  }
}

TEST(CompiledInputs, APinnedOneMayChangeBehindTheCall) {
  LOCUS_NEEDS_ANY_GPUS(1);
  constexpr int64_t kLarge = 300000;
  Compiled f(
      [](const Tensors& in) { return Tensors{in[0].copyto(gpu(0), {.blocking = false}) + 1}; });
  const Tensor x = zeros({kLarge}, cpu_pinned());
  Tensors held;
  for (int i = 0; i < 10; ++i) {
    full({kLarge}, i).copyto(x);
    held.push_back(f({x})[0]);
  }
  for (int i = 0; i < 10; ++i) EXPECT_EQ(held[static_cast<size_t>(i)][-1].item<double>(), i + 1);
  EXPECT_EQ(f.recorded(), 1u);
}

TEST(CompiledInputs, AreOrderedWithOtherStreams) {
  constexpr int64_t kLarge = 300000;
  for (const Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Stream other(c);
    Compiled f(count);
    const Tensor x = zeros({kLarge}, c);
    for (int i = 0; i < 10; ++i) {
      std::optional<StreamScope> scope;
      if (i % 2 == 1) scope.emplace(other);
      const Tensors y = f({x});
      scope.reset();
      EXPECT_EQ(y[0][-1].item<double>(), 2 * (i + 1));
    }
    EXPECT_EQ(values(x), Values(kLarge, 10));
  }
}

}  // namespace
}  // namespace locus::test
