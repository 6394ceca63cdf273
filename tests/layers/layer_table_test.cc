// The table of layers, which must have every layer of the headers.
#include "tests/layers/layer_table.h"

#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>

#include <locus/core/base/text.h>
#include <locus/nn/activation_layers.h>
#include <locus/nn/block.h>
#include <locus/nn/containers.h>
#include <locus/nn/conv_layers.h>
#include <locus/nn/init.h>
#include <locus/nn/layers.h>
#include <locus/nn/norm_layers.h>
#include <locus/nn/pipeline.h>
#include <locus/nn/plan.h>
#include <locus/nn/planned.h>
#include <locus/nn/pool_layers.h>
#include <locus/nn/sync_norm.h>
#include <locus/nn/tensor_parallel.h>
#include <locus/ops/activation.h>
#include <locus/ops/elementwise.h>
#include "tests/support/contexts.h"

namespace locus::test {
namespace {

using Pair = std::vector<Context>;

template <class Make>
LayerSample sample(const Shape& input, Make make, LayerSample s = {}) {
  using Layer = std::invoke_result_t<Make, const Pair&>;
  s.input = input;
  s.make = [make](const Pair& pair) { return std::make_shared<Layer>(make(pair)); };
  s.copy = [](const nn::Block& b) {
    return std::make_shared<Layer>(dynamic_cast<const Layer&>(b));
  };
  s.recomputed = [](const nn::Block& b) {
    return std::make_shared<nn::Recompute>(dynamic_cast<const Layer&>(b));
  };
  const init::Uniform values(.7);
  s.initialize = [values](nn::Block& b, const Pair& pair) {
    if constexpr (std::is_same_v<Layer, nn::Pipeline> || std::is_same_v<Layer, nn::Planned>)
      dynamic_cast<Layer&>(b).initialize(values);
    else
      b.initialize(values, pair[0]);
  };
  // Runs before main: makes no layer and uses no device.
  s.name = type_name(typeid(Layer));
  s.name.erase(0, s.name.rfind(':') + 1);
  s.pipelined = std::is_same_v<Layer, nn::Pipeline>;
  return s;
}

const LayerSample trains = {.training_differs = true};

nn::Sequential dense_pair() {
  nn::Sequential net;
  net.add(nn::Dense(4, nn::tanh), nn::Dense(3));
  return net;
}

std::vector<LayerSample> make_samples() {
  std::vector<LayerSample> all;
  const auto add = [&](const Shape& input, auto make, const LayerSample& flags = {}) {
    all.push_back(sample(
        input, [make](const Pair&) { return make(); }, flags));
  };
  const auto add_spanning = [&](const Shape& input, auto make, const LayerSample& flags = {}) {
    all.push_back(sample(input, make, flags));
  };
  add({3, 5}, [] { return nn::Activate(nn::tanh); });
  add({3, 5}, [] { return nn::LeakyReLU(.1); });
  add({3, 5}, [] { return nn::ELU(.7); });
  add({3, 5}, [] { return nn::SELU(); });
  add({3, 5}, [] { return nn::GELU(); });
  add({3, 5}, [] { return nn::Swish(2); });
  add({3, 5}, [] { return nn::SiLU(); });
  add({3, 5}, [] { return nn::Mish(); });
  add({3, 5}, [] { return nn::ReLU6(); });
  add({3, 5}, [] { return nn::Hardtanh(-.9, 1.1); });
  add({3, 5}, [] { return nn::Softmax(1); });
  add({3, 4}, [] { return nn::PReLU({.in_channels = 4}); });
  add(
      {4, 5},
      [] {
        nn::Sequential net;
        net.add(nn::Dense(4, nn::tanh), nn::BatchNorm(), nn::Dropout(.5), nn::Dense(3));
        return net;
      },
      trains);
  add({3, 5}, [] {
    nn::Concurrent net;
    net.add(nn::Dense(2), nn::Dense(3, nn::sigmoid), nn::Identity());
    return net;
  });
  add({3, 3}, [] { return nn::Residual(dense_pair(), nn::Dense(3), nn::tanh); });
  add(
      {4, 5},
      [] {
        nn::Sequential net;
        net.add(nn::Dense(4, nn::tanh), nn::BatchNorm(), nn::Dropout(.5));
        return nn::Recompute(net);
      },
      trains);
  add({3, 5}, [] { return nn::Identity(); });
  add({2, 2, 5}, [] { return nn::Conv1D(3, 2, {.padding = 1}); });
  add({2, 4, 5, 4}, [] { return nn::Conv2D(6, {3, 2}, {.strides = 2, .groups = 2}); });
  add({2, 3, 3, 3, 2},
      [] { return nn::Conv3D(2, 2, {.layout = "NDHWC", .activation = nn::tanh}); });
  add({2, 2, 4}, [] { return nn::Conv1DTranspose(3, 2); });
  add({2, 2, 3, 3}, [] {
    return nn::Conv2DTranspose(4, 3,
                               {.strides = 2, .padding = 1, .output_padding = 1, .groups = 2});
  });
  add({2, 2, 2, 3, 2}, [] { return nn::Conv3DTranspose(2, 2, {.use_bias = false}); });
  add({3, 2, 4}, [] { return nn::Dense(3, nn::relu); });
  add({3, 2, 4}, [] { return nn::Flatten(); });
  add(
      {4, 5}, [] { return nn::Dropout(.5); }, trains);
  add({3, 5}, [] { return nn::Lambda([](const Tensor& x) { return x * sigmoid(x); }); });
  add_spanning({3, 5}, [](const Pair& pair) { return nn::To(pair[1]); });
  add(
      {4, 3, 2}, [] { return nn::BatchNorm({.momentum = .7}); }, trains);
  add(
      {4, 3, 2}, [] { return nn::SyncBatchNorm(); }, trains);
  add({3, 2, 5}, [] { return nn::LayerNorm(); });
  add({2, 4, 3}, [] { return nn::GroupNorm({.num_groups = 2}); });
  add({2, 3, 4}, [] { return nn::InstanceNorm({.scale = true}); });
  add({3, 2, 5}, [] { return nn::RMSNorm(); });
  add({2, 2, 5}, [] { return nn::MaxPool1D(); });
  add({2, 2, 4, 5}, [] { return nn::MaxPool2D(2, {.strides = 1}); });
  add({2, 4, 4, 4, 2}, [] { return nn::MaxPool3D(2, {.layout = "NDHWC"}); });
  add({2, 2, 5}, [] { return nn::AvgPool1D(); });
  add({2, 2, 4, 5}, [] { return nn::AvgPool2D(3, {.strides = 2, .padding = 1}); });
  add({2, 2, 4, 4, 4}, [] { return nn::AvgPool3D(); });
  add({2, 2, 5}, [] { return nn::GlobalMaxPool1D(); });
  add({2, 2, 4, 3}, [] { return nn::GlobalMaxPool2D(); });
  add({2, 3, 2, 3, 2}, [] { return nn::GlobalMaxPool3D("NDHWC"); });
  add({2, 2, 5}, [] { return nn::GlobalAvgPool1D(); });
  add({2, 2, 4, 3}, [] { return nn::GlobalAvgPool2D(); });
  add({2, 2, 3, 3, 2}, [] { return nn::GlobalAvgPool3D(); });
  add({2, 2, 4, 5}, [] { return nn::AdaptiveAvgPool2D({2, 3}); });
  add_spanning({4, 5}, [](const Pair& pair) {
    return nn::Pipeline({nn::Dense(4, nn::tanh), nn::Dense(3)}, pair, {.microbatches = 2});
  });
  add_spanning({4, 5}, [](const Pair& pair) {
    const std::string text = text_of("plan-1\nlayers 0-1 cut over ", pair[0], ", ", pair[1], "\n");
    return nn::Planned(dense_pair(), nn::Plan::parse(text));
  });
  add_spanning({3, 5}, [](const Pair& pair) { return nn::ColumnParallelDense(3, pair, nn::tanh); },
               {.input_on_each = true});
  add_spanning({3, 4}, [](const Pair& pair) { return nn::RowParallelDense(3, pair); },
               {.input_on_each = true});
  return all;
}

// Each class of nn/*.h that has a base, and the base.
std::map<std::string, std::string> bases_in_headers() {
  const std::regex line("^(?:class|struct) (\\w+)(?: final)? : (?:public )?(\\w+)\\b[^;]*\\{.*");
  std::map<std::string, std::string> bases;
  for (const auto& entry : std::filesystem::directory_iterator(LOCUS_TEST_DATA "/../../nn")) {
    if (entry.path().extension() != ".h") continue;
    std::ifstream file(entry.path());
    std::smatch match;
    for (std::string text; std::getline(file, text);)
      if (std::regex_match(text, match, line)) bases[match[1]] = match[2];
  }
  return bases;
}

TEST(LayerTable, HasEveryLayerOfTheHeaders) {
  // Bases of several layers, never created directly.
  const std::set<std::string> shared = {"ActivationLayer", "Container",     "ConvLayer",
                                        "NormLayer",       "ParallelDense", "PoolLayer"};
  const std::map<std::string, std::string> bases = bases_in_headers();
  std::set<std::string> layers;
  for (const auto& [name, base] : bases)
    for (auto at = bases.find(name); at != bases.end(); at = bases.find(at->second))
      if (at->second == "Block" && !shared.contains(name)) layers.insert(name);
  std::set<std::string> sampled;
  for (const LayerSample& s : layer_samples())
    EXPECT_TRUE(sampled.insert(s.name).second) << s.name << " has two samples";
  EXPECT_EQ(sampled, layers)
      << "a layer of nn/*.h has no sample in tests/layers/layer_table_test.cc";
  EXPECT_GE(layers.size(), 50u) << "the headers were not understood";
}

}  // namespace

const std::vector<LayerSample>& layer_samples() {
  static const std::vector<LayerSample> all = make_samples();
  return all;
}

}  // namespace locus::test
