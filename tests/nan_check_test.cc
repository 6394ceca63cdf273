// LOCUS_CHECK=nan, in a process of its own.
#include <locus/core/nan_check.h>

#include <cmath>
#include <cstdlib>
#include <iostream>

#include <locus/locus.h>
#include "tests/contexts.h"

namespace locus {
namespace {

// What went wrong, on stderr: the process is another one.
void say(const auto& f) {
  setenv("LOCUS_CHECK", "nan", 1);
  try {
    f();
    std::cerr << "nothing";
  } catch (const Error& e) {
    std::cerr << e.what();
  }
  std::exit(0);
}

class NanCheckDeathTest : public testing::Test {
 protected:
  void SetUp() override { testing::FLAGS_gtest_death_test_style = "threadsafe"; }
};

TEST_F(NanCheckDeathTest, NamesTheOpThatMadeItAndWhere) {
  EXPECT_EXIT(say([] {
                const Tensor x = array({{1.f, 4.f}, {-1.f, 9.f}});
                sqrt(x) + 1;
              }),
              testing::ExitedWithCode(0),
              "sqrt: 1 of 4 elements of the result .* are NaN, the first at .1,0.; no operand has");
}

TEST_F(NanCheckDeathTest, SaysWhichOperandHadItBefore) {
  EXPECT_EXIT(say([] {
                const Tensor x = array({1.f, NAN});
                ones({2}) + x;
              }),
              testing::ExitedWithCode(0), "add: 1 of 2 .*; rhs had some already");
}

TEST_F(NanCheckDeathTest, NamesTheLayerAlsoOfWhatIsCompiled) {
  EXPECT_EXIT(say([] {
                nn::Sequential net;
                net.add(nn::Dense(2),
                        nn::Lambda([](const Tensor& x) { return log(x - 1e6); }, "log"));
                net.initialize();
                net.hybridize();
                net(ones({1, 3}));
              }),
              testing::ExitedWithCode(0), "log: .* are NaN.*in Lambda.log.");
}

TEST_F(NanCheckDeathTest, LeavesSoundProgramsAlone) {
  EXPECT_EXIT(say([] {
                nn::Sequential net;
                net.add(nn::Dense(2, nn::relu));
                net.initialize();
                Tensor y;
                {
                  const autograd::Record record;
                  y = net(ones({1, 3}));
                }
                y.backward();
              }),
              testing::ExitedWithCode(0), "^nothing");
}

}  // namespace
}  // namespace locus
