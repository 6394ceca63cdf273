// One pass through a layer of the table, and its results.
#pragma once

#include <locus/core/autograd.h>
#include <locus/core/generator.h>
#include <locus/ops/create.h>
#include <locus/ops/random.h>
#include "tests/layers/layer_table.h"
#include "tests/support/contexts.h"
#include "tests/tape/gradcheck.h"

namespace locus::test {

using ContextPair = std::vector<Context>;
using Numbers = std::vector<std::vector<double>>;
using LayerPointer = std::shared_ptr<nn::Block>;

// Pairs of contexts to walk a layer on.
inline std::vector<ContextPair> pairs_for(const LayerSample& s) {
  std::vector<ContextPair> all{{cpu(0), cpu(1)}};
  if (num_gpus() >= 2)
    all.push_back({gpu(0), gpu(1)});
  else if (num_gpus() == 1 && !s.spans())
    all.push_back({gpu(0), gpu(0)});
  return all;
}

inline Tensors layer_inputs(const LayerSample& s, const ContextPair& pair, DType d = f32,
                            int variant = 0) {
  Tensors in;
  for (size_t i = 0; i < (s.input_on_each ? 2u : 1u); ++i)
    in.push_back(sample_values(pair[i], d, s.input, -2, 2, variant + static_cast<int>(i)));
  return in;
}

inline Numbers numbers(const Tensors& all) {
  Numbers list;
  for (const Tensor& t : all) list.push_back(values(t));
  return list;
}

inline Numbers parameter_values(const nn::Block& layer) {
  Numbers all;
  for (const auto& [name, p] : layer.parameters())
    for (const Tensor& t : p.list_data()) all.push_back(values(t));
  return all;
}

// Initialized, with all shapes known.
inline LayerPointer ready(const LayerSample& s, const ContextPair& pair,
                          const std::function<void(nn::Block&)>& before = {}, DType d = f32) {
  const LayerPointer layer = s.make(pair);
  if (before) before(*layer);
  random::seed(3);
  s.initialize(*layer, pair);
  (*layer)(layer_inputs(s, pair, d));
  return layer;
}

inline Tensors predict(nn::Block& layer, const Tensors& in) { return layer(in); }

struct Pass {
  Numbers outputs = {}, input_gradients = {}, gradients = {};
  Numbers parameters = {};  // after it
  bool operator==(const Pass&) const = default;
};

inline Numbers gradients_of(const nn::Block& layer) {
  Numbers all;
  for (const auto& [name, p] : layer.parameters())
    if (p.grad_req() != GradReq::null)
      for (const Tensor& g : p.list_grad()) all.push_back(values(g));
  return all;
}

inline Pass run_pass(nn::Block& layer, const Tensors& in, bool training) {
  random::seed(11);
  autograd::HeadOptions heads;
  Tensors out;
  for (Tensor x : in) x.attach_grad();
  {
    const autograd::Record record(training);
    out = layer(in);
  }
  for (const Tensor& y : out)
    heads.head_gradients.push_back(
        from_values(weights(y.size(), static_cast<int>(heads.head_gradients.size())), y.shape(),
                    y.context(), y.dtype()));
  autograd::backward(out, heads);
  Pass pass{.outputs = numbers(out),
            .gradients = gradients_of(layer),
            .parameters = parameter_values(layer)};
  for (const Tensor& x : in) pass.input_gradients.push_back(values(x.grad()));
  return pass;
}

inline void expect_same(const Pass& got, const Pass& wanted) {
  EXPECT_EQ(got.outputs, wanted.outputs) << "outputs";
  EXPECT_EQ(got.input_gradients, wanted.input_gradients) << "gradients of inputs";
  EXPECT_EQ(got.gradients, wanted.gradients) << "gradients of parameters";
  EXPECT_EQ(got.parameters, wanted.parameters) << "parameters";
}

}  // namespace locus::test
