// Errors that a device finds after the call returned have the same text as the host's.
#include <cmath>
#include <cstdlib>
#include <iostream>

#include <locus/core/base/at_line.h>
#include <locus/core/call/named_calls.h>
#include <locus/core/compile.h>
#include <locus/nn/loss.h>
#include <locus/ops/create.h>
#include <locus/ops/index.h>
#include <locus/ops/random.h>
#include <locus/ops/softmax.h>
#include "tests/support/contexts.h"

namespace locus::test {
namespace {

// The error of f(context), at the latest when c is waited for.
template <class E = IndexError>
std::string error_on(Context c, const auto& f) {
  return message_of<E>([&] {
    f(c);
    device(c).synchronize({});
  });
}

// Such an error knows no line of the user's.
template <class E = IndexError>
void expect_same_text(const auto& f) {
  const std::string at_once = without_line(error_on<E>(cpu(0), f));
  for (const Context c : gpus(num_gpus())) EXPECT_EQ(error_on<E>(c, f), at_once + found_later(c));
}

class FoundLater : public testing::Test {
 protected:
  void SetUp() override { LOCUS_NEEDS_ANY_GPUS(1); }
  static Tensor numbers(const std::vector<double>& v, Context c, DType d) {
    return array(v, {c, d});
  }
};

TEST_F(FoundLater, SaysSo) {
  EXPECT_EQ(found_later(gpu(0)),
            " (found asynchronously on gpu(0); LOCUS_SYNC=1 finds it at its call)");
}

// A process of its own, because LOCUS_SYNC is read once.
TEST_F(FoundLater, IsFoundAtItsCallWithTheVariable) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  const auto say = [] {
    setenv("LOCUS_SYNC", "1", 1);
    try {
      take(ones({3}, gpu(0)), array({7}, gpu(0)));
      std::cerr << "nothing";
    } catch (const IndexError& e) {
      std::cerr << e.what();
    }
    std::exit(0);
  };
  EXPECT_EXIT(say(), testing::ExitedWithCode(0),
              "^take: index 7 .* expected -3 to 2 .at .*found_later_test.cc:[0-9]+.$");
}

TEST_F(FoundLater, AnIndexOutOfRangeNamesItsOpItsAxisAndItsValue) {
  for (const DType d : {i32, i64, f32}) {
    expect_same_text([&](Context c) { take(ones({3}, c), numbers({1, 7}, c, d)); });
    expect_same_text([&](Context c) {
      take(ones({3, 4, 5}, c), numbers({-5, 2}, c, d), {.axis = 1});
    });
    expect_same_text([&](Context c) { pick(ones({2, 3}, c), numbers({0, 3}, c, d)); });
    expect_same_text([&](Context c) {
      Tensor x = ones({3, 4}, c);
      x(numbers({4}, c, d)) = 9;
    });
  }
}

TEST_F(FoundLater, AnErrorNamesWhoCalledTheOp) {
  for (const Context c : gpus(num_gpus())) {
    const auto wrong = [](Context place) { take(ones({3}, place), array({7}, place)); };
    const std::string plain = error_on(c, wrong);
    const std::string named = error_on(c, [&](Context place) {
      const NamedCalls outer("L1Loss", "pred"), inner("CTCLoss", "label");
      wrong(place);
    });
    EXPECT_EQ(named, "CTCLoss: label: " + plain);
    EXPECT_EQ(error_on(c, wrong), plain);
  }
}

TEST_F(FoundLater, ALossNamesItselfAndItsLabelAlsoWhenItIsReplayed) {
  const nn::SoftmaxCrossEntropyLoss loss;
  Compiled compiled([&](const Tensors& in) { return Tensors{loss(in[0], in[1])}; });
  for (const Context c : gpus(num_gpus())) {
    const Tensor scores = ones({2, 5}, c);
    const std::string text =
        "SoftmaxCrossEntropyLoss: label: softmax_cross_entropy: label 7 of row 1";
    EXPECT_THAT(error_on(c,
                         [&](Context) {
                           loss(scores, array({0, 7}, c));
                         }),
                testing::StartsWith(text));
    compiled({scores, array({0, 4}, c)});
    EXPECT_THAT(error_on(c,
                         [&](Context) {
                           compiled({scores, array({0, 7}, c)});
                         }),
                testing::StartsWith(text));
    EXPECT_THAT(error_on(c,
                         [&](Context) {
                           nn::CTCLoss()(ones({1, 4, 3}, c), array({{0., 9.}}, c));
                         }),
                testing::StartsWith("CTCLoss: "));
  }
}

TEST_F(FoundLater, ALabelOutOfRangeNamesItsRow) {
  for (const double label : {5., -1., 1.5}) {
    expect_same_text([&](Context c) {
      softmax_cross_entropy(ones({3, 5}, c), numbers({0, 1, label}, c, f32));
    });
  }
}

TEST_F(FoundLater, AParameterOutOfRangeNamesTheFunctionAndTheRange) {
  for (const double bad : {-3., 1e301, std::nan("")}) {
    const auto numbers_of = [bad](Context c) { return numbers({1, bad}, c, f64); };
    expect_same_text<ValueError>([&](Context c) { random::exponential(numbers_of(c)); });
    expect_same_text<ValueError>([&](Context c) { random::gamma(numbers_of(c), 1); });
    expect_same_text<ValueError>([&](Context c) { random::gamma(1, numbers_of(c)); });
    expect_same_text<ValueError>([&](Context c) { random::beta(1, numbers_of(c)); });
    expect_same_text<ValueError>([&](Context c) { random::poisson(numbers_of(c)); });
  }
  for (const Context c : gpus(num_gpus()))
    EXPECT_EQ(error_on<ValueError>(c,
                                   [&](Context) {
                                     const NamedCalls named("noise", "scale");
                                     random::gamma(1, numbers({1, -2}, c, f64));
                                   }),
              "noise: scale: gamma: scale -2 at element 1; expected numbers from 0 to 1e300" +
                  found_later(c));
}

TEST_F(FoundLater, WaitAllNamesTheErrorsOfAllDevices) {
  LOCUS_NEEDS_ANY_GPUS(2);
  for (const int i : {0, 1}) take(ones({3}, gpu(i)), numbers({70. + i}, gpu(i), i64));
  EXPECT_THAT(
      message_of<IndexError>([] { wait_all(); }),
      testing::AllOf(testing::HasSubstr("index 70 "), testing::HasSubstr("; and take: index 71 "),
                     testing::HasSubstr("found_later_test.cc:")));
  wait_all();
}

}  // namespace
}  // namespace locus::test
