// Errors name the user's line if the function gets it.
#include <locus/core/base/at_line.h>

#include <functional>

#include <locus/core/base/text.h>
#include <locus/core/compile.h>
#include <locus/core/group.h>
#include <locus/core/io.h>
#include <locus/core/kernel.h>
#include <locus/nn/block.h>
#include <locus/nn/containers.h>
#include <locus/nn/data.h>
#include <locus/nn/layers.h>
#include <locus/nn/metric.h>
#include <locus/nn/parameter.h>
#include <locus/ops/collective.h>
#include <locus/ops/create.h>
#include <locus/ops/matmul.h>
#include <locus/ops/operand.h>
#include "tests/support/contexts.h"

namespace locus::test {
namespace {

using testing::EndsWith;
using testing::HasSubstr;

// The exception of f names the line that f stores.
template <class E>
void expect_line(const std::function<void(unsigned& line)>& f) {
  unsigned line = 0;
  const std::string text = message_of<E>([&] { f(line); });
  EXPECT_THAT(text, EndsWith(text_of("at_line_test.cc:", line, ")")));
}

TEST(AtLine, TheInnermostLineIsNamedOnce) {
  EXPECT_EQ(with_line("x: no", Caller::here("a.cc", 3)), "x: no (at a.cc:3)");
  EXPECT_EQ(with_line("x: no (at a.cc:3)", Caller::here("b.cc", 7)), "x: no (at a.cc:3)");
  EXPECT_EQ(with_line("x: no (at a.cc:3)", {}), "x: no (at a.cc:3)");
  EXPECT_EQ(with_line("x (at a.cc:3) no", Caller::here("b.cc", 7)), "x (at a.cc:3) no (at b.cc:7)");
}

TEST(AtLine, MayHaveParenthesesInItsPath) {
  const std::string text = with_line("x: no", Caller::here("/app (copy)/a.cc", 3));
  EXPECT_EQ(text, "x: no (at /app (copy)/a.cc:3)");
  EXPECT_EQ(with_line(text, Caller::here("b.cc", 7)), text);
  EXPECT_EQ(without_line(text), "x: no");
}

// Parentheses without a line.
TEST(AtLine, IsAFileAndANumber) {
  for (const std::string text : {"x (at noon)", "x (at a.cc:)", "x (at a.cc:3b)", "x: y (3)"}) {
    EXPECT_EQ(without_line(text), text);
    EXPECT_EQ(with_line(text, Caller::here("b.cc", 7)), text + " (at b.cc:7)");
  }
}

TEST(AtLine, IsThatOfCopiesAndReads) {
  for (Context c : contexts()) {
    const Tensor x = ones({2}, c), other = ones({3}, c);
    expect_line<ShapeError>([&](unsigned& line) {
      line = __LINE__ + 1;
      x.item<float>();
    });
    expect_line<ShapeError>([&](unsigned& line) {
      line = __LINE__ + 1;
      x.copyto(other);
    });
    expect_line<ShapeError>([&](unsigned& line) {
      line = __LINE__ + 1;
      x(Slice()) = other;
    });
    expect_line<Error>([&](unsigned& line) {
      line = __LINE__ + 1;
      all_reduce(Group(std::vector<Context>{c}), {x, x});
    });
    expect_line<EmptyTensor>([&](unsigned& line) {
      line = __LINE__ + 1;
      Tensor().copyto(c);
    });
  }
}

TEST(AtLine, IsThatOfTheCallOfANetwork) {
  nn::Sequential net;
  net.add(nn::Dense(3), nn::Dense(1, {}, {.in_units = 2}));
  net.initialize();
  const Tensor x = ones({1, 4});
  expect_line<ShapeError>([&](unsigned& line) {
    line = __LINE__ + 1;
    net(x);
  });
  EXPECT_THAT(message_of<ShapeError>([&] { net(x); }), HasSubstr("(in layer '1' Dense(2 -> 1"));
}

struct Net : nn::Block {
  explicit Net(unsigned& l) : line(l) {}
  unsigned& line;
  Tensor forward(const Tensor& x) override {
    line = __LINE__ + 1;
    return x.reshape({7, 9});
  }
};

TEST(AtLine, IsThatInAForwardOfTheUsers) {
  for (const bool hybridized : {false, true})
    expect_line<ShapeError>([&](unsigned& line) {
      Net net(line);
      if (hybridized) net.hybridize();
      net(ones({2}));
    });
}

TEST(AtLine, IsThatInAFunctionOfTheUsers) {
  const Tensor x = ones({2, 3});
  expect_line<ShapeError>([&](unsigned& line) {
    Compiled squared([&](const Tensors& in) {
      line = __LINE__ + 1;
      return Tensors{dot(in[0], in[0])};
    });
    squared({x});
  });
  expect_line<ShapeError>([&](unsigned& line) {
    const data::Transform bad([&](const Tensor& a, const data::Draw&) {
      line = __LINE__ + 1;
      return dot(a, a);
    });
    data::DataLoader loader({x, ones({2})}, {.batch_size = 2, .transform = bad});
    *loader.begin();
  });
}

// A function object that a std::function calls does so from a line of the standard library.
TEST(AtLine, IsNotOneOfAHeader) {
  EXPECT_EQ(with_line("x: no", Caller::here("/usr/include/c++/12/bits/invoke.h", 61)), "x: no");
  EXPECT_EQ(with_line("x: no", Caller::here("/home/me/include/locus/nn/train_step.h", 39)),
            "x: no");
  EXPECT_EQ(with_line("x: no", Caller::here("/home/me/locus/main.cc", 39)),
            "x: no (at /home/me/locus/main.cc:39)");
}

TEST(AtLine, IsThatOfTheCallWithMixedInputs) {
  nn::Concurrent net;
  expect_line<ContextMismatch>([&](unsigned& line) {
    line = __LINE__ + 1;
    net({ones({2}, cpu(0)), ones({2}, cpu(1))});
  });
}

TEST(AtLine, IsThatOfSelections) {
  const Tensor x = ones({2, 3}), ids = array({0, 1}), wide = ones({7});
  expect_line<IndexError>([&](unsigned& line) {
    line = __LINE__ + 1;
    const Tensor y = x[array({5})];
  });
  expect_line<ShapeError>([&](unsigned& line) {
    line = __LINE__ + 1;
    x[ids] = wide;
  });
  expect_line<ShapeError>([&](unsigned& line) {
    line = __LINE__ + 1;
    x[ids] += wide;
  });
}

TEST(AtLine, IsThatOfParametersAndFiles) {
  nn::Dense layer(3, {}, {.in_units = 2});
  layer.initialize();
  const nn::Parameter weight = layer.parameter("weight");
  const Tensor other = ones({5});
  expect_line<ShapeError>([&](unsigned& line) {
    line = __LINE__ + 1;
    weight.set_data(other);
  });
  expect_line<Error>([&](unsigned& line) {
    line = __LINE__ + 1;
    layer.load_parameters("/nowhere/at_all.params");
  });
  expect_line<Error>([&](unsigned& line) {
    line = __LINE__ + 1;
    load("/nowhere/at_all.params");
  });
}

TEST(AtLine, LeavesTypesOfTheProgramAlone) {
  struct Own : Error {
    using Error::Error;
  };
  nn::Lambda layer([](const Tensor&) -> Tensor { throw Own("mine"); });
  EXPECT_THROW(layer(ones({1})), Own);
}

TEST(AtLine, IsThatOfCallsWithEmptyTensors) {
  const Tensor x = ones({2});
  expect_line<EmptyTensor>([&](unsigned& line) {
    line = __LINE__ + 1;
    Tensor().as_in_context(cpu());
  });
  expect_line<EmptyTensor>([&](unsigned& line) {
    line = __LINE__ + 1;
    const Tensor y = x[Tensor()];
  });
  expect_line<EmptyTensor>([&](unsigned& line) {
    line = __LINE__ + 1;
    const Tensor y = x.reshape({1, 2})(0, Tensor());
  });
}

TEST(AtLine, IsThatOfCollectivesOfManyTensors) {
  const Group g(Contexts{cpu(0), cpu(1)});
  const std::vector<Tensors> wrong{{ones({2}), ones({2})}};
  const std::vector<int> root{0};
  const std::vector<std::pair<std::string, std::function<void(unsigned&)>>> calls{
      {"all_reduce_many",
       [&](unsigned& line) {
         line = __LINE__ + 1;
         all_reduce_many(g, wrong);
       }},
      {"reduce_many",
       [&](unsigned& line) {
         line = __LINE__ + 1;
         reduce_many(g, wrong, root);
       }},
      {"broadcast_many", [&](unsigned& line) {
         line = __LINE__ + 1;
         broadcast_many(g, wrong, root);
       }}};
  for (const auto& [name, call] : calls) {
    unsigned line = 0;
    const std::string text = message_of<ContextMismatch>([&] { call(line); });
    EXPECT_THAT(text, testing::StartsWith(name + ": "));
    EXPECT_THAT(text, EndsWith(text_of("at_line_test.cc:", line, ")")));
  }
}

TEST(AtLine, IsNamedOnceByAMetric) {
  unsigned line = 0;
  metric::CustomMetric failing([&](const Tensor&, const Tensor& preds) {
    line = __LINE__ + 1;
    return dot(preds, preds);
  });
  const std::string text = message_of<ShapeError>([&] { failing.update(ones({2}), ones({2, 3})); });
  EXPECT_THAT(text,
              EndsWith(text_of(" (in metric custom) (at tests/core/at_line_test.cc:", line, ")")));
}

}  // namespace
}  // namespace locus::test
