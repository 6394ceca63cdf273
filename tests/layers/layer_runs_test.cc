// Every layer gives the numbers of the plain run, however it is run.
#include <locus/core/error.h>
#include <locus/core/parallel.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/join.h>
#include <locus/ops/view.h>
#include "tests/layers/layer_walk.h"
#include "tests/support/folder.h"

namespace locus::test {
namespace {

class LayerRuns : public testing::TestWithParam<LayerSample> {
 protected:
  const LayerSample& layer() const { return GetParam(); }
  template <class F>
  void on_each_pair(const F& f) const {
    for (const ContextPair& pair : pairs_for(layer())) {
      SCOPED_TRACE(to_string(pair[0]));
      f(pair);
      if (HasFailure()) return;
    }
  }
};

TEST_P(LayerRuns, GivesTheSameBitsHybridized) {
  on_each_pair([&](const ContextPair& pair) {
    const LayerPointer plain = ready(layer(), pair), hybrid = ready(layer(), pair);
    hybrid->hybridize();
    for (const bool training : {true, false, true})
      for (int variant = 0; variant < 3; ++variant)
        expect_same(run_pass(*hybrid, layer_inputs(layer(), pair, f32, variant), training),
                    run_pass(*plain, layer_inputs(layer(), pair, f32, variant), training));
  });
}

TEST_P(LayerRuns, GivesTheSameBitsRecomputed) {
  on_each_pair([&](const ContextPair& pair) {
    const LayerPointer plain = ready(layer(), pair),
                       again = layer().recomputed(*ready(layer(), pair));
    for (const bool training : {true, false})
      for (int variant = 0; variant < 2; ++variant)
        expect_same(run_pass(*again, layer_inputs(layer(), pair, f32, variant), training),
                    run_pass(*plain, layer_inputs(layer(), pair, f32, variant), training));
  });
}

// Shapes become known in the recorded or recomputed call.
TEST_P(LayerRuns, GivesTheSameBitsInItsFirstCall) {
  on_each_pair([&](const ContextPair& pair) {
    for (const bool training : {true, false}) {
      const auto first = [&](bool hybrid, bool recomputed) {
        LayerPointer net = layer().make(pair);
        random::seed(3);
        layer().initialize(*net, pair);
        if (recomputed) net = layer().recomputed(*net);
        net->hybridize(hybrid);
        Pass pass = run_pass(*net, layer_inputs(layer(), pair), training);
        const Pass second = run_pass(*net, layer_inputs(layer(), pair, f32, 1), training);
        pass.outputs.insert(pass.outputs.end(), second.outputs.begin(), second.outputs.end());
        pass.parameters = second.parameters;
        return pass;
      };
      const Pass plain = first(false, false);
      expect_same(first(true, false), plain);
      expect_same(first(false, true), plain);
      expect_same(first(true, true), plain);
    }
  });
}

TEST_P(LayerRuns, HybridizedFollowsWhatChangesItsParameters) {
  const Folder folder;
  on_each_pair([&](const ContextPair& pair) {
    const LayerPointer plain = ready(layer(), pair), hybrid = ready(layer(), pair),
                       others = ready(layer(), pair);
    hybrid->hybridize();
    for (const auto& [name, p] : others->parameters()) p.set_data(p.mean_on_cpu() * .5 + .1);
    others->save_parameters(folder / "others.params");
    const std::vector<std::pair<const char*, std::function<void(nn::Block&)>>> changes = {
        {"nothing", [](nn::Block&) {}},
        {"freeze", [](nn::Block& b) { b.freeze(".*bias|.*beta"); }},
        {"set_data",
         [](nn::Block& b) {
           for (const auto& [name, p] : b.parameters()) p.set_data(p.mean_on_cpu() * .7);
         }},
        {"unfreeze", [](nn::Block& b) { b.unfreeze(); }},
        {"load", [&](nn::Block& b) { b.load_parameters(folder / "others.params"); }},
        {"there and back",
         [](nn::Block& b) {
           b.cast(f64);
           b.cast(f32);
         }},
    };
    for (const auto& [what, change] : changes) {
      SCOPED_TRACE(what);
      change(*plain);
      change(*hybrid);
      for (const bool training : {true, false})
        for (int variant = 0; variant < 2; ++variant)
          expect_same(run_pass(*hybrid, layer_inputs(layer(), pair, f32, variant), training),
                      run_pass(*plain, layer_inputs(layer(), pair, f32, variant), training));
    }
  });
}

TEST_P(LayerRuns, AddsGradientsUpWhereAsked) {
  on_each_pair([&](const ContextPair& pair) {
    const LayerPointer once = ready(layer(), pair), twice = ready(layer(), pair);
    for (const auto& [name, p] : twice->parameters())
      if (p.grad_req() != GradReq::null) p.set_grad_req(GradReq::add);
    const Tensors in = layer_inputs(layer(), pair);
    const Numbers one = run_pass(*once, in, false).gradients;
    run_pass(*twice, in, false);
    const Numbers both = run_pass(*twice, in, false).gradients;
    ASSERT_EQ(both.size(), one.size());
    for (size_t i = 0; i < one.size(); ++i)
      for (size_t k = 0; k < one[i].size(); ++k) EXPECT_EQ(both[i][k], 2 * one[i][k]);
    twice->zero_grad();
    for (const auto& g : gradients_of(*twice)) EXPECT_EQ(g, std::vector<double>(g.size(), 0));
  });
}

// Any replica's thread may infer the shapes first.
TEST_P(LayerRuns, GivesTheSameBitsInThreadsOfReplicas) {
  if (layer().spans()) GTEST_SKIP() << layer().name << " spans two contexts";
  on_each_pair([&](const ContextPair& pair) {
    if (pair[0] == pair[1]) return;
    const LayerPointer one = ready(layer(), pair), both = layer().make(pair);
    random::seed(3);
    both->initialize(init::Uniform(.7), Contexts(pair));
    std::vector<Pass> passes(2);
    parallel(Contexts(pair), [&](int i) {
      const auto at = static_cast<size_t>(i);
      const Tensors in = layer_inputs(layer(), {pair[at], pair[at]});
      passes[at].outputs = numbers(predict(*both, in));
    });
    const Numbers wanted = numbers(predict(*one, layer_inputs(layer(), pair)));
    for (const Pass& pass : passes) EXPECT_EQ(pass.outputs, wanted);
  });
}

TEST_P(LayerRuns, GivesTheSameBitsOnEmulatedGpus) {
  if (!emulated_gpus() || num_gpus() < 2) GTEST_SKIP() << "needs two emulated GPUs";
  const ContextPair host{cpu(0), cpu(1)}, gpu_pair{gpu(0), gpu(1)};
  const LayerPointer there = ready(layer(), gpu_pair), here = ready(layer(), host);
  for (const bool training : {true, false})
    expect_same(run_pass(*there, layer_inputs(layer(), gpu_pair), training),
                run_pass(*here, layer_inputs(layer(), host), training));
}

TEST_P(LayerRuns, TakesStridedInputs) {
  on_each_pair([&](const ContextPair& pair) {
    const LayerPointer net = ready(layer(), pair);
    const Tensors in = layer_inputs(layer(), pair);
    Tensors wide;
    for (const Tensor& x : in) {
      const Tensor twice = stack({x, x}, {.axis = x.ndim()});
      wide.push_back(squeeze(slice_axis(twice, x.ndim(), Slice(0, 1)), x.ndim()));
      EXPECT_FALSE(wide.back().contiguous());
    }
    EXPECT_EQ(numbers(predict(*net, wide)), numbers(predict(*net, in)));
  });
}

TEST_P(LayerRuns, DiffersInTrainingOnlyIfItSaysSo) {
  on_each_pair([&](const ContextPair& pair) {
    const LayerPointer net = ready(layer(), pair);
    const Tensors in = layer_inputs(layer(), pair);
    const Numbers before = parameter_values(*net), predicted = numbers(predict(*net, in));
    EXPECT_EQ(numbers(predict(*net, in)), predicted);
    EXPECT_EQ(run_pass(*net, in, false).outputs, predicted);
    EXPECT_EQ(parameter_values(*net), before) << "predicting changed a parameter";
    const Numbers trained = run_pass(*net, in, true).outputs;
    EXPECT_EQ(trained != predicted, layer().training_differs);
  });
}

TEST_P(LayerRuns, ReplicasGiveTheSameBits) {
  if (layer().spans()) GTEST_SKIP() << layer().name << " spans two contexts";
  on_each_pair([&](const ContextPair& pair) {
    if (pair[0] == pair[1]) return;
    const LayerPointer one = ready(layer(), pair), both = layer().make(pair);
    random::seed(3);
    both->initialize(init::Uniform(.7), Contexts(pair));
    const Tensors a = layer_inputs(layer(), pair), b = layer_inputs(layer(), {pair[1], pair[1]});
    const Numbers wanted = numbers(predict(*one, a));
    EXPECT_EQ(numbers(predict(*both, a)), wanted);
    const Tensors there = predict(*both, b);
    EXPECT_EQ(there[0].context(), pair[1]);
    EXPECT_EQ(numbers(there), wanted);
    for (const auto& [name, p] : both->parameters())
      EXPECT_EQ(values(p.data(pair[0])), values(p.data(pair[1]))) << name;
    EXPECT_EQ(numbers(both->on_replicas({a[0], b[0]})), (Numbers{wanted[0], wanted[0]}));
    if (both->spans_replicas()) return;  // each needs the other in training
    const Pass here = run_pass(*one, a, true);
    run_pass(*both, a, true);
    const Pass second = run_pass(*both, b, true);
    EXPECT_EQ(second.outputs, here.outputs);
    EXPECT_EQ(second.input_gradients, here.input_gradients);
    const Numbers all = gradients_of(*both);
    ASSERT_EQ(all.size(), 2 * here.gradients.size());
    for (size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i], here.gradients[i / 2]);
  });
}

// The batch may be the first one. The result is empty, gradients of parameters are 0, and running
// statistics stay.
TEST_P(LayerRuns, TakesAnEmptyBatch) {
  on_each_pair([&](const ContextPair& pair) {
    LayerSample empty = layer();
    std::vector<int64_t> lengths(empty.input.begin(), empty.input.end());
    lengths[0] = 0;
    empty.input = Shape(lengths);
    const LayerPointer net = ready(empty, pair), full = ready(layer(), pair);
    EXPECT_EQ(parameter_values(*net), parameter_values(*full));
    const Tensors nothing = layer_inputs(empty, pair);
    for (const bool training : {false, true}) {
      const Numbers before = parameter_values(*net);
      const Pass pass = run_pass(*net, nothing, training);
      EXPECT_EQ(pass.parameters, before);
      for (const auto& g : pass.gradients) EXPECT_EQ(g, std::vector<double>(g.size(), 0));
    }
    const Tensors out = predict(*net, nothing), one = predict(*full, layer_inputs(layer(), pair));
    for (size_t i = 0; i < out.size(); ++i) {
      EXPECT_EQ(out[i].shape()[0], 0);
      EXPECT_EQ(out[i].ndim(), one[i].ndim());
      for (int axis = 1; axis < out[i].ndim(); ++axis)
        EXPECT_EQ(out[i].shape()[axis], one[i].shape()[axis]);
    }
    EXPECT_EQ(numbers(predict(*net, layer_inputs(layer(), pair))), numbers(one));
  });
}

TEST_P(LayerRuns, GradientsAgreeWithFiniteDifferences) {
  const ContextPair pair{cpu(0), cpu(1)};
  const LayerPointer net = ready(
      layer(), pair, [](nn::Block& b) { b.cast(f64); }, f64);
  const Tensors in = layer_inputs(layer(), pair, f64);
  for (const bool training : {true, false}) {
    SCOPED_TRACE(training ? "training" : "predicting");
    const Pass pass = run_pass(*net, in, training);
    const auto at = [&](const Tensors& x) {
      random::seed(11);
      const std::unique_ptr<autograd::TrainMode> mode(training ? new autograd::TrainMode : nullptr);
      return weighted_sum((*net)(x));
    };
    for (size_t i = 0; i < in.size(); ++i)
      expect_near(pass.input_gradients[i], differences(at, in, i), 1e-6, "gradient of input");
    size_t k = 0;
    for (const auto& [name, p] : net->parameters()) {
      if (p.grad_req() == GradReq::null) continue;
      const Tensor data = p.data(p.list_ctx()[0]), kept = data.copyto(data.context());
      const auto moved = [&](const Tensors& x) {
        x[0].copyto(data);
        return at(in);
      };
      expect_near(pass.gradients[k++], differences(moved, {kept}, 0), 1e-6, name);
      kept.copyto(data);
    }
  }
}

TEST_P(LayerRuns, SecondGradientsAgreeWithFiniteDifferences) {
  const ContextPair pair{cpu(0), cpu(1)};
  const LayerPointer net = ready(
      layer(), pair, [](nn::Block& b) { b.cast(f64); }, f64);
  const Tensors in = layer_inputs(layer(), pair, f64);
  const auto f = [&](const Tensors& x) {
    random::seed(11);
    const autograd::TrainMode mode;
    return (*net)(x);
  };
  if (layer().name == "Recompute") {
    const std::string text = message_of<Error>([&] { gradients(f, in, true); });
    EXPECT_NE(text.find("without recompute()"), std::string::npos) << text;
    return;
  }
  check_gradients(f, in);
}

INSTANTIATE_TEST_SUITE_P(Layers, LayerRuns, testing::ValuesIn(layer_samples()),
                         [](const auto& p) { return p.param.name; });

}  // namespace
}  // namespace locus::test
