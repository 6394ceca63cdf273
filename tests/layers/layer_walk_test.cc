// The parameters of every layer.
#include "tests/layers/layer_walk.h"
#include <locus/core/error.h>
#include <locus/ops/elementwise.h>
#include "tests/support/folder.h"

namespace locus::test {
namespace {

class LayerWalk : public testing::TestWithParam<LayerSample> {
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
  bool is_norm(const nn::Block& b) const { return b.type_name().ends_with("Norm"); }
};

TEST_P(LayerWalk, SavesAndLoadsTheSameBits) {
  const Folder folder;
  const std::string path = folder / "layer.params";
  on_each_pair([&](const ContextPair& pair) {
    const LayerPointer saved = ready(layer(), pair);
    const Tensors in = layer_inputs(layer(), pair);
    run_pass(*saved, layer_inputs(layer(), pair, f32, 1), true);  // running statistics move
    saved->save_parameters(path);
    const LayerPointer fresh = layer().make(pair), used = ready(layer(), pair);
    {
      const ContextScope scope(pair[0]);
      fresh->load_parameters(path);
    }
    used->load_parameters(path);
    for (const LayerPointer& loaded : {fresh, used}) {
      EXPECT_EQ(parameter_values(*loaded), parameter_values(*saved));
      EXPECT_EQ(numbers(predict(*loaded, in)), numbers(predict(*saved, in)));
      expect_same(run_pass(*loaded, in, true), run_pass(*saved, in, true));
      saved->load_parameters(path);
    }
  });
}

TEST_P(LayerWalk, CastsToEveryFloatingDTypeAndBack) {
  on_each_pair([&](const ContextPair& pair) {
    const LayerPointer f32_layer = ready(layer(), pair);
    const Numbers wanted = numbers(predict(*f32_layer, layer_inputs(layer(), pair)));
    for (const DType d : {f16, bf16, f64}) {
      SCOPED_TRACE(name(d));
      const LayerPointer late = ready(layer(), pair),
                         early = ready(
                             layer(), pair, [d](nn::Block&b) { b.cast(d); }, d);
      late->cast(d);
      for (const auto& [name, p] : early->parameters())  // numbers are drawn in the dtype
        p.set_data(f32_layer->parameter(name).data());
      std::function<void(nn::Block&)> check = [&](nn::Block& b) {
        if (!b.children().empty()) return;
        for (const auto& [name, p] : b.parameters())
          EXPECT_EQ(p.dtype(), is_norm(b) && d != f64 ? f32 : d) << name;
      };
      for (const LayerPointer& net : {late, early}) {
        net->apply(check);
        const Tensors in = layer_inputs(layer(), pair, d), out = predict(*net, in);
        for (size_t i = 0; i < out.size(); ++i) {
          EXPECT_EQ(out[i].dtype(), d);
          expect_near(values(out[i]), wanted[i], d == f64 ? 1e-5 : d == f16 ? 2e-2 : .15, "result");
        }
        const Pass pass = run_pass(*net, in, true);
        for (const auto& g : pass.gradients)
          for (const double v : g) EXPECT_TRUE(std::isfinite(v));
        for (const auto& [name, p] : net->parameters()) {
          if (p.grad_req() == GradReq::null) continue;
          for (const Tensor& g : p.list_grad()) EXPECT_EQ(g.dtype(), p.dtype()) << name;
        }
      }
      const LayerPointer back = ready(layer(), pair);
      back->cast(d);
      back->cast(f32);
      const Numbers again = numbers(predict(*back, layer_inputs(layer(), pair)));
      for (size_t i = 0; i < again.size(); ++i)
        expect_near(again[i], wanted[i], d == f64 ? 0 : d == f16 ? 2e-2 : .15, "result of f32");
    }
  });
}

TEST_P(LayerWalk, FreezesAllButTheWayThrough) {
  on_each_pair([&](const ContextPair& pair) {
    const LayerPointer frozen = ready(layer(), pair), plain = ready(layer(), pair);
    const Tensors in = layer_inputs(layer(), pair);
    frozen->freeze();
    const Pass pass = run_pass(*frozen, in, true), trained = run_pass(*plain, in, true);
    EXPECT_TRUE(pass.gradients.empty());
    EXPECT_EQ(pass.outputs, trained.outputs);
    EXPECT_EQ(pass.input_gradients, trained.input_gradients);
    EXPECT_EQ(pass.parameters, trained.parameters) << "running statistics go on";
    for (const auto& [name, p] : frozen->parameters()) {
      EXPECT_EQ(p.grad_req(), GradReq::null) << name;
      EXPECT_THROW(p.list_grad(), Error) << name;
    }
    frozen->unfreeze();
    for (const auto& [name, p] : frozen->parameters())
      EXPECT_EQ(p.grad_req(), p.made_grad_req()) << name;
    expect_same(run_pass(*frozen, in, true), run_pass(*plain, in, true));
  });
}

TEST_P(LayerWalk, CopiesShareParameters) {
  on_each_pair([&](const ContextPair& pair) {
    const LayerPointer net = ready(layer(), pair), copy = layer().copy(*net);
    const nn::Parameters own = net->parameters(), shared = copy->parameters();
    ASSERT_EQ(own.size(), shared.size());
    for (size_t i = 0; i < own.size(); ++i) {
      EXPECT_EQ(own[i].first, shared[i].first);
      EXPECT_TRUE(own[i].second.is(shared[i].second)) << own[i].first;
      for (Tensor t : own[i].second.list_data()) t *= .5;
    }
    const Tensors in = layer_inputs(layer(), pair);
    EXPECT_EQ(numbers(predict(*copy, in)), numbers(predict(*net, in)));

    const LayerPointer other = layer().make(pair);
    if (own.empty()) {
      EXPECT_THROW(other->share_parameters(*net), Error);
      return;
    }
    other->share_parameters(*net);
    EXPECT_EQ(numbers(predict(*other, in)), numbers(predict(*net, in)));
    expect_same(run_pass(*other, in, false), run_pass(*net, in, false));
  });
}

TEST_P(LayerWalk, SummaryChangesNothing) {
  on_each_pair([&](const ContextPair& pair) {
    const LayerPointer net = ready(layer(), pair);
    const Tensors in = layer_inputs(layer(), pair);
    run_pass(*net, in, true);
    const Numbers before = parameter_values(*net), gradients = gradients_of(*net);
    const std::string text = net->summary(in);
    EXPECT_NE(text.find("Total"), std::string::npos) << text;
    EXPECT_NE(text.find(to_string(in[0].shape())), std::string::npos) << text;
    EXPECT_EQ(text.find("not called"), std::string::npos) << text;
    EXPECT_EQ(parameter_values(*net), before);
    EXPECT_EQ(gradients_of(*net), gradients);
    EXPECT_FALSE(net->repr().empty());
    EXPECT_EQ(net->summary(in), text);
  });
}

TEST_P(LayerWalk, MovesToOtherContexts) {
  if (layer().spans()) GTEST_SKIP() << layer().name << " spans two contexts";
  on_each_pair([&](const ContextPair& pair) {
    const LayerPointer net = ready(layer(), pair);
    const Numbers wanted = numbers(predict(*net, layer_inputs(layer(), pair)));
    net->reset_ctx(pair[1]);
    const Tensors there = predict(*net, layer_inputs(layer(), {pair[1], pair[1]}));
    EXPECT_EQ(there[0].context(), pair[1]);
    EXPECT_EQ(numbers(there), wanted);
  });
}

// An input fits, or an Error names the layer.
TEST_P(LayerWalk, NamesItselfWhenItRefusesAnInput) {
  on_each_pair([&](const ContextPair& pair) {
    const auto refused = [&](nn::Block& net, const Tensors& in, bool must) {
      try {
        run_pass(net, in, false);
        EXPECT_FALSE(must) << "an input that does not fit was taken";
      } catch (const Error& e) {
        const std::string text = e.what();
        bool named = false;
        net.apply([&](nn::Block& b) {
          named = named || text.find(b.type_name()) != std::string::npos ||
                  text.find(b.repr()) != std::string::npos;
        });
        EXPECT_TRUE(named) << text;
      }
    };
    for (const Shape& shape : {Shape{}, Shape{7}, Shape{0}, Shape{2, 0}, Shape{1, 1, 1, 1, 1, 1}}) {
      SCOPED_TRACE(to_string(shape));
      LayerSample other = layer();
      other.input = shape;
      const LayerPointer known = ready(layer(), pair), deferred = layer().make(pair);
      layer().initialize(*deferred, pair);
      refused(*known, layer_inputs(other, pair), false);
      refused(*deferred, layer_inputs(other, pair), false);
      // Refused inputs changed nothing.
      EXPECT_EQ(parameter_values(*known), parameter_values(*ready(layer(), pair)));
    }
    const LayerPointer net = ready(layer(), pair);
    const bool has_parameters = !net->parameters().empty();
    refused(*net, {}, true);
    refused(*net, Tensors(3, layer_inputs(layer(), pair)[0]), true);
    refused(*net, layer_inputs(layer(), pair, f64), has_parameters && layer().name != "PReLU");
    if (layer().spans() || pair[0] == pair[1]) return;
    refused(*net, layer_inputs(layer(), {pair[1], pair[1]}), has_parameters);
  });
}

INSTANTIATE_TEST_SUITE_P(Layers, LayerWalk, testing::ValuesIn(layer_samples()),
                         [](const auto& p) { return p.param.name; });

}  // namespace
}  // namespace locus::test
