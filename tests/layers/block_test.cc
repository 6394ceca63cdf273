#include "tests/support/contexts.h"

#include <sstream>

#include <locus/core/autograd.h>
#include <locus/core/generator.h>
#include <locus/core/io.h>
#include <locus/core/kernel.h>
#include <locus/nn/activation_layers.h>
#include <locus/nn/block.h>
#include <locus/nn/containers.h>
#include <locus/nn/init.h>
#include <locus/nn/layers.h>
#include <locus/nn/parameter.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/random.h>
#include "tests/support/folder.h"

namespace locus {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

nn::Sequential mlp() {
  nn::Sequential net;
  net.add(nn::Dense(4, nn::relu), nn::Dense(2));
  return net;
}

std::vector<std::string> names(const nn::Block& block) {
  std::vector<std::string> list;
  for (const auto& [name, p] : block.parameters()) list.push_back(name);
  return list;
}

struct Mine : nn::Block {
  nn::Dense hidden{3, nn::relu}, output{2};
  nn::Parameter scale;
  Mine() {
    scale = add_parameter("scale", {1}, {.init = init::One()});
    add_child("hidden", hidden);
    add_child("output", output);
  }
  Tensor forward(const Tensor& x) override { return output(hidden(x)) * scale.data(x.context()); }
};

class BlockFile : public testing::Test {
 protected:
  const test::Folder folder_;
  const std::string path_ = folder_ / "block.params";
};

TEST(Block, ParametersHaveStructuralNamesInOrder) {
  EXPECT_THAT(names(mlp()), ElementsAre("0.weight", "0.bias", "1.weight", "1.bias"));
  EXPECT_THAT(names(Mine()),
              ElementsAre("scale", "hidden.weight", "hidden.bias", "output.weight", "output.bias"));
  nn::Sequential outer;
  outer.add(mlp(), nn::Dense(1, {}, {.use_bias = false}));
  EXPECT_THAT(names(outer),
              ElementsAre("0.0.weight", "0.0.bias", "0.1.weight", "0.1.bias", "1.weight"));
  EXPECT_EQ(outer.parameter("0.1.bias").name(), "0.1.bias");
  EXPECT_THAT(test::message_of<Error>([&] { outer.parameter("weight"); }),
              HasSubstr("no parameter 'weight'; there are: 0.0.weight, 0.0.bias"));
}

TEST(Block, AddingAChildNamesItsParameters) {
  nn::Dense layer(1);
  const nn::Parameter weight = layer.parameter("weight");
  nn::Sequential net, outer;
  net.add(layer);
  EXPECT_EQ(weight.name(), "0.weight");
  outer.add(net);
  EXPECT_EQ(weight.name(), "0.0.weight");
  (void)net.parameters();
  (void)layer.parameters();
  EXPECT_EQ(weight.name(), "0.0.weight");
}

TEST(Block, LayersTravelByValueAndShareTheirParameters) {
  nn::Dense layer(2);
  nn::Sequential net;
  net.add(layer);
  net.initialize(init::One(), cpu());
  layer(ones({1, 3}));
  EXPECT_TRUE(net[0].parameter("weight").is(layer.parameter("weight")));
  EXPECT_EQ(test::values(net(ones({1, 3}))), (std::vector<double>{3, 3}));
  Mine mine;
  mine.initialize(init::One(), cpu());
  EXPECT_EQ(test::values(mine(ones({1, 3}))), (std::vector<double>{9, 9}));
}

TEST(Block, PrintsAsInGluon) {
  nn::Sequential net;
  net.add(nn::Dense(256, nn::relu), nn::Dense(10));
  std::ostringstream text;
  text << net;
  EXPECT_EQ(text.str(),
            "Sequential(\n  (0): Dense(None -> 256, relu)\n  (1): Dense(None -> 10, linear)\n)");
  net.initialize();
  net(zeros({2, 784}));
  EXPECT_EQ(net[0].repr(), "Dense(784 -> 256, relu)");
  nn::Sequential outer;
  outer.add(net, nn::Dropout(0.25), nn::Flatten(), nn::To(gpu(1)), nn::Activate(nn::tanh));
  EXPECT_THAT(outer.repr(), HasSubstr("  (0): Sequential(\n    (0): Dense(784 -> 256, relu)\n"));
  EXPECT_THAT(outer.repr(), HasSubstr("  (1): Dropout(p = 0.25, axes=())\n  (2): Flatten\n"
                                      "  (3): To(gpu(1))\n  (4): Activation(tanh)\n)"));
  EXPECT_THAT(Mine().repr(), HasSubstr("Mine(\n  (hidden): Dense"));
}

TEST(Block, ForwardRunsWhereTheInputLives) {
  for (Context c : test::distinct_contexts()) {
    SCOPED_TRACE(to_string(c));
    nn::Sequential net = mlp();
    net.initialize(Contexts(test::distinct_contexts()));
    EXPECT_EQ(net(ones({2, 3}, c)).context(), c);
  }
}

TEST(Block, AWrongContextIsRefusedByName) {
  nn::Sequential net = mlp();
  net.initialize(cpu(1));
  EXPECT_THAT(test::message_of<ContextMismatch>([&] {
                net(ones({2, 3}));
              }),
              HasSubstr("Parameter '0.weight' was not initialized on context cpu(0). It was only "
                        "initialized on [cpu(1)]."));
}

TEST(Block, NotInitializedIsRefusedByName) {
  nn::Sequential net = mlp();
  EXPECT_THAT(test::message_of<Error>([&] {
                net(ones({2, 3}));
              }),
              HasSubstr("weight' has not been initialized."));
}

TEST(Block, InitializeTakesOneContextOrSeveral) {
  nn::Sequential net = mlp();
  net.initialize();
  EXPECT_THAT(net.parameter("0.bias").list_ctx(), ElementsAre(cpu()));
  {
    const ContextScope scope(cpu(3));
    net.initialize(init::Xavier(), current_context(), {.force_reinit = true});
  }
  EXPECT_THAT(net.parameter("0.bias").list_ctx(), ElementsAre(cpu(3)));
  net.initialize(init::Xavier(), {cpu(1), cpu(2)}, {.force_reinit = true});
  EXPECT_THAT(net.parameter("0.bias").list_ctx(), ElementsAre(cpu(1), cpu(2)));
}

TEST(Block, SummaryCountsLayersParametersAndMemory) {
  for (Context c : test::contexts()) {
    SCOPED_TRACE(to_string(c));
    nn::Sequential net;
    net.add(nn::Dense(256, nn::relu), nn::Dense(128, nn::relu), nn::Dense(10));
    EXPECT_THROW(net.summary({64, 784}), Error);
    net.initialize(c);
    const std::string text = net.summary({64, 784});
    EXPECT_THAT(text, HasSubstr("0 Dense  (64,256)     200,960  " + to_string(c)));
    EXPECT_THAT(text, HasSubstr("2 Dense  (64,10) "));
    EXPECT_THAT(text, HasSubstr("235,146"));    // 784*256+256 + 256*128+128 + 128*10+10
    EXPECT_THAT(text, HasSubstr("1.794 MiB"));  // values and gradients
    EXPECT_EQ(net.parameter("0.weight").shape(), (Shape{256, 784}));
  }
}

TEST_F(BlockFile, SaveAndLoadOnAnyContext) {
  nn::Sequential net = mlp();
  net.initialize({cpu(0), cpu(1)});
  const Tensor x = sample_values(cpu(), f32, {5, 3});
  const std::vector<double> y = test::values(net(x));
  net.save_parameters(path_);
  EXPECT_EQ(load(path_)[0].first, "0.weight");
  for (Context c : test::distinct_contexts()) {
    SCOPED_TRACE(to_string(c));
    nn::Sequential other = mlp();
    other.load_parameters(path_, c);
    const std::vector<double> z = test::values(other(x.as_in_context(c)));
    for (size_t i = 0; i < y.size(); ++i) EXPECT_NEAR(z[i], y[i], 1e-6);
    EXPECT_TRUE(other.parameter("0.weight").data().has_grad());
  }
  const Tensor replica = net.parameter("0.weight").data(cpu(1));
  net.parameter("0.weight").set_data(zeros({4, 3}));
  net.load_parameters(path_);  // into the existing replicas
  EXPECT_TRUE(net.parameter("0.weight").data(cpu(1)).is(replica));
  EXPECT_EQ(test::values(net(x)), y);
  net.load_parameters(path_, cpu(2));  // to another context: moves
  EXPECT_THAT(net.parameter("1.bias").list_ctx(), ElementsAre(cpu(2)));
  nn::Sequential deferred = mlp();
  deferred.initialize(cpu(3));
  deferred.load_parameters(path_);
  EXPECT_THAT(deferred.parameter("0.weight").list_ctx(), ElementsAre(cpu(3)));
}

TEST_F(BlockFile, LoadChecksEverythingBeforeItChangesAnything) {
  const auto write = [&](const Shape& weight, DType dtype, bool extra, bool bias) {
    NamedTensors tensors{{"weight", full(weight, 7, dtype)}};
    if (bias) tensors.emplace_back("bias", full({2}, 7));
    if (extra) tensors.emplace_back("gamma", ones({1}));
    save(path_, tensors);
  };
  nn::Dense layer(2, {}, {.in_units = 3});
  layer.initialize(init::One(), cpu());
  const auto load_here = [&] { layer.load_parameters(path_); };

  write({2, 3}, f32, false, false);
  EXPECT_THAT(test::message_of<FormatError>(load_here),
              HasSubstr("Parameter 'bias' is missing in file '" + path_ +
                        "', which contains parameters: weight."));
  write({2, 3}, f32, true, true);
  EXPECT_THAT(test::message_of<FormatError>(load_here),
              HasSubstr("Parameter 'gamma' loaded from file '" + path_ + "' is not present"));
  write({2, 4}, f32, false, true);
  EXPECT_THAT(test::message_of<ShapeError>(load_here),
              HasSubstr("shape incompatible expected (2,3) vs saved (2,4)"));
  write({2, 3}, f64, false, true);
  EXPECT_THAT(test::message_of<DTypeError>(load_here),
              HasSubstr("dtype incompatible expected f32 vs saved f64"));
  save(path_, {{"weight", full({2, 3}, 7)}, {"arg:weight", full({2, 3}, 7)}});
  EXPECT_THAT(test::message_of<FormatError>(load_here), HasSubstr("'weight' twice"));
  save(path_, {{"", full({2, 3}, 7)}});
  EXPECT_THAT(test::message_of<FormatError>(load_here), HasSubstr("without names"));
  EXPECT_EQ(test::values(layer.parameter("weight").data()), std::vector<double>(6, 1));

  write({2, 3}, f64, true, false);
  layer.load_parameters(path_, cpu(),
                        {.allow_missing = true, .ignore_extra = true, .cast_dtype = true});
  EXPECT_EQ(test::values(layer.parameter("weight").data()), std::vector<double>(6, 7));
  EXPECT_EQ(test::values(layer.parameter("bias").data()), std::vector<double>(2, 0));
}

TEST(Block, SummaryKnowsTheMembersThatForwardCalls) {
  Mine net;
  net.initialize(init::Xavier());
  const std::string text = net.summary({4, 5});
  EXPECT_EQ(text.find("not called"), std::string::npos) << text;
  EXPECT_NE(text.find("(4,3)"), std::string::npos) << text;
}

TEST(Block, HybridizedPredictionsAreReplayedAndEqual) {
  for (const Context c : test::contexts()) {
    SCOPED_TRACE(to_string(c));
    random::seed(3);
    int calls = 0;
    struct Counted : nn::Block {
      explicit Counted(int& n) : count(n) { add_child("dense", dense); }
      Tensor forward(const Tensor& x) override {
        ++count;
        return dense(x) * 2;
      }
      int& count;
      nn::Dense dense{4, nn::relu};
    };
    Counted net(calls);
    net.initialize(init::Xavier(), c);
    const Tensor x = random::uniform(-1, 1, {5, 3}, c);
    net.hybridize();
    const std::vector<double> first = test::values(net(x));  // infers its input width
    const int recorded = calls;
    for (int i = 0; i < 3; ++i) EXPECT_EQ(test::values(net(x)), first);
    EXPECT_EQ(calls, recorded);
    Counted copy = net;
    EXPECT_EQ(test::values(copy(x)), first);
    net.parameter("dense.weight").data() *= 2.;
    const std::vector<double> twice = test::values(net(x));
    net.hybridize(false);
    EXPECT_EQ(test::values(net(x)), twice);
    net.hybridize();
    net.parameter("dense.weight").data().attach_grad();
    const autograd::Record record;
    EXPECT_NO_THROW(net(x).sum().backward());
  }
}

TEST(Block, RefusesPatternsThatTheCompilerOfThemMightNotSurvive) {
  EXPECT_THROW(nn::Dense(2).parameters(std::string(100000, '(')), ValueError);
}

}  // namespace
}  // namespace locus
