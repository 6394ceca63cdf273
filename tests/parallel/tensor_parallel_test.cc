// Dense layers cut over contexts, against whole layers.
#include <locus/core/autograd.h>
#include <locus/nn/checkpoint.h>
#include <locus/nn/tensor_parallel.h>
#include <locus/ops/collective.h>
#include <locus/ops/random.h>

#include <locus/core/generator.h>
#include <locus/core/io.h>
#include <locus/core/transfer_log.h>
#include <locus/nn/containers.h>
#include <locus/nn/layers.h>
#include <locus/nn/train_step.h>
#include <locus/ops/dense.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/join.h>
#include "tests/ranks/groups.h"
#include "tests/support/folder.h"
#include "tests/train/training.h"

namespace locus::test {
namespace {

using nn::ColumnParallelDense, nn::RowParallelDense;
using testing::ElementsAre;
using testing::HasSubstr;
using Values = std::vector<double>;

Tensor concat_on_cpu(const Tensors& parts, int axis) {
  Tensors here;
  for (const Tensor& t : parts) here.push_back(t.copyto(cpu()));
  return concat(here, {.axis = axis});
}

// The whole values of a parameter, joined from its parts.
Values whole(const nn::Block& net, const std::string& name, int axis) {
  Tensors parts;
  for (const auto& [key, p] : net.parameters())
    if (key == name || key.starts_with(name + ".")) parts.push_back(p.data());
  return values(concat_on_cpu(parts, axis));
}

const std::vector<std::pair<std::string, int>> kNames{
    {"0.weight", 0}, {"0.bias", 0}, {"1.weight", 1}, {"1.bias", 0}, {"2.weight", 0}, {"2.bias", 0}};

// 100 steps of a network of 13, 10 and 4 units, on contexts or, without contexts, of Denses.
Outcome train(DType d, const std::vector<Context>& where, bool compiled = false,
              bool hybrid = false) {
  random::seed(3);
  const Context first = where.empty() ? cpu() : where[0];
  nn::Sequential net;
  if (where.empty())
    net.add(nn::Dense(13, nn::relu, {.dtype = d}), nn::Dense(10, nn::tanh, {.dtype = d}),
            nn::Dense(4, {}, {.dtype = d}));
  else
    net.add(ColumnParallelDense(13, where, nn::relu, {.dtype = d}),
            RowParallelDense(10, where, nn::tanh, {.dtype = d}),
            ColumnParallelDense(4, where, {}, {.gather_output = true, .dtype = d}));
  net.initialize(init::Xavier(), first);
  net.hybridize(hybrid);
  const auto spread = [&](const Tensor& x) {
    return where.empty() ? Tensors{x} : broadcast(Group(where), x);
  };
  nn::Trainer trainer(net.parameters(), optim::SGD({.learning_rate = .1, .momentum = .9}));
  const nn::SoftmaxCrossEntropyLoss loss;
  const auto body = [&](const Tensor& x, const Tensor& y) {
    Tensor l;
    {
      const autograd::Record record;
      l = loss(net(spread(x))[0], y);
    }
    l.backward();
    trainer.step(x.shape()[0]);
    return l;
  };
  nn::TrainStep step(body, trainer);
  const Tensor x = random::uniform(-1, 1, {16, 6}, {first, d}),
               y = random::randint(0, 4, {16}, {first, i32});
  Outcome o;
  for (int i = 0; i < 100; ++i) o.losses.push_back(values(compiled ? step(x, y) : body(x, y)));
  for (const auto& [name, axis] : kNames) o.parameters.push_back(whole(net, name, axis));
  return o;
}

TEST(TensorParallel, TrainsAsDenseDoes) {
  for (const DType d : {f32, f64}) {
    const Outcome dense = train(d, {});
    EXPECT_LT(dense.losses[99][0], .5 * dense.losses[0][0]) << "nothing was trained";
    for (const Group& g : groups()) {
      if (g.size() > 4) continue;
      SCOPED_TRACE(text_of(name(d), " ", to_string(g)));
      expect_close(train(d, g.contexts()).parameters, dense.parameters, d == f32 ? 1e-4 : 1e-12);
    }
  }
}

TEST(TensorParallel, IsEqualFromRunToRunAndCompiled) {
  for (const Group& g : groups()) {
    if (g.size() > 4) continue;
    SCOPED_TRACE(to_string(g));
    const Outcome a = train(f32, g.contexts());
    EXPECT_EQ(a, train(f32, g.contexts()));
    EXPECT_EQ(a, train(f32, g.contexts(), true));
    EXPECT_EQ(a, train(f32, g.contexts(), false, true));
  }
}

// For any number of contexts: parts of the values that a Dense draws from the same seed.
TEST(TensorParallel, StartsWithTheValuesOfADense) {
  for (const Group& g : groups())
    for (const int64_t in_units : {0, 6}) {
      random::seed(4);
      nn::Dense a(7, {}, {.in_units = in_units}), b(5, {}, {.in_units = in_units});
      a.initialize(init::Xavier());
      b.initialize(init::Xavier());
      const Tensor x = sample_values(cpu(), f32, {3, 6});
      const Values ya = values(a(x)), yb = values(b(x));
      random::seed(4);
      ColumnParallelDense column(7, g.contexts(), {}, {.in_units = in_units});
      RowParallelDense row(5, g.contexts(), {}, {.input_is_parallel = false, .in_units = in_units});
      column.initialize(init::Xavier());
      row.initialize(init::Xavier());
      const Tensors xs = broadcast(g, x.copyto(g[0]));
      const Tensors columns = column(xs), rows = row(xs);
      EXPECT_EQ(whole(column, "weight", 0), values(a.parameter("weight").data()));
      EXPECT_EQ(whole(row, "weight", 1), values(b.parameter("weight").data()));
      const Values y = values(concat_on_cpu(columns, 1));
      for (size_t k = 0; k < y.size(); ++k) EXPECT_NEAR(y[k], ya[k], 1e-5);
      for (const Tensor& result : rows)
        for (size_t k = 0; k < yb.size(); ++k) EXPECT_NEAR(values(result)[k], yb[k], 1e-5);
    }
}

// Values drawn for parts that got other values are not given to a later initialization.
TEST(TensorParallel, EachPartHasTheValuesOfItsOwnInitializer) {
  const Folder folder;
  const std::string file = folder / "drawn.params";
  const auto zero_in_front = [] {
    ColumnParallelDense up(2, hosts(2), {}, {.use_bias = false, .in_units = 1});
    up.parameter("weight.0").initialize(init::Zero());
    return up;
  };
  ColumnParallelDense up = zero_in_front(), loaded = zero_in_front();
  up.initialize(init::One());  // except parts with values
  EXPECT_EQ(whole(up, "weight", 0), (Values{0, 1}));
  up.save_parameters(file);
  loaded.load_parameters(file);
  loaded.parameter("weight.1").initialize(init::Constant(2), cpu(1), {.force_reinit = true});
  EXPECT_EQ(whole(loaded, "weight", 0), (Values{0, 2}));
}

// In any order, with known or unknown shapes.
TEST(TensorParallel, PartsOfOtherInitializersAreDrawnSeparately) {
  for (const int64_t in_units : {1, 0})
    for (const bool backwards : {false, true}) {
      ColumnParallelDense up(3, hosts(3), {}, {.use_bias = false, .in_units = in_units});
      const auto make = [&](int part) {
        up.parameter(text_of("weight.", part)).initialize(init::Constant(part == 1 ? 5 : 4));
      };
      for (const int part : {0, 1, 2}) make(backwards ? 2 - part : part);
      up(broadcast(Group(hosts(3)), ones({1, 1})));
      EXPECT_EQ(whole(up, "weight", 0), (Values{4, 5, 4}));
    }
}

TEST(TensorParallel, EqualInitializersDrawOnceWhoeverAsksFirst) {
  random::seed(4);
  nn::Dense dense(4, {}, {.use_bias = false, .in_units = 3});
  dense.initialize(init::Xavier());
  random::seed(4);
  ColumnParallelDense up(4, hosts(2), {}, {.use_bias = false, .in_units = 3});
  for (const char* part : {"weight.1", "weight.0"}) up.parameter(part).initialize(init::Xavier());
  EXPECT_EQ(whole(up, "weight", 0), values(dense.parameter("weight").data()));
}

TEST(TensorParallel, ABatchMayBeEmpty) {
  ColumnParallelDense up(4, hosts(2), nn::relu);
  RowParallelDense down(3, hosts(2));
  up.initialize();
  down.initialize();
  const Tensors y = down(up(broadcast(Group(hosts(2)), zeros({0, 5}))));
  EXPECT_EQ(y[1].shape(), (Shape{0, 3}));
  EXPECT_EQ(up.parameter("weight.0").full_shape(), (Shape{4, 5}));
}

TEST(TensorParallel, EachPartIsAParameterOfItsContext) {
  const auto where = hosts(3);
  nn::Sequential net;
  net.add(ColumnParallelDense(7, where, {}, {.in_units = 4}),
          RowParallelDense(2, where, {}, {.in_units = 7}));
  net.initialize(init::Xavier(), cpu(5));
  std::vector<std::string> names;
  for (const auto& [name, p] : net.parameters()) names.push_back(name);
  EXPECT_THAT(names, ElementsAre("0.weight.0", "0.weight.1", "0.weight.2", "0.bias.0", "0.bias.1",
                                 "0.bias.2", "1.weight.0", "1.weight.1", "1.weight.2", "1.bias"));
  const nn::Parameter w = net.parameter("0.weight.1"), r = net.parameter("1.weight.0");
  EXPECT_EQ(w.list_ctx(), (std::vector{cpu(1)}));
  EXPECT_EQ(w.shape(), (Shape{2, 4}));
  EXPECT_EQ(w.full_shape(), (Shape{7, 4}));
  EXPECT_EQ(r.shape(), (Shape{2, 3}));
  EXPECT_EQ(net.parameter("1.bias").list_ctx(), (std::vector{cpu(0)}));
  EXPECT_EQ(net[1].repr(), "RowParallelDense(7 -> 2, linear, [cpu(0), cpu(1), cpu(2)])");
}

TEST(TensorParallel, FilesHoldTheWholeUnderTheNamesOfADense) {
  const Folder folder;
  const std::string file = folder / "whole.params";
  nn::Sequential dense;
  dense.add(nn::Dense(7), nn::Dense(5));
  dense.initialize(init::Xavier());
  const Tensor x = sample_values(cpu(), f32, {3, 6});
  const Values expected = values(dense(x));
  dense.save_parameters(file);
  for (const Group& g : groups())
    for (const bool initialized : {false, true}) {
      SCOPED_TRACE(to_string(g));
      nn::Sequential net;
      net.add(ColumnParallelDense(7, g.contexts()), RowParallelDense(5, g.contexts()));
      if (initialized) net.initialize(init::Zero());
      net.load_parameters(file);
      const Tensors y = net(broadcast(g, x.copyto(g[0])));
      for (const Tensor& result : y)
        for (size_t k = 0; k < expected.size(); ++k)
          EXPECT_NEAR(values(result)[k], expected[k], 1e-5);
      const std::string again = file + "_again";
      net.save_parameters(again);
      const NamedTensors a = load(file), b = load(again);
      ASSERT_EQ(a.size(), b.size());
      for (size_t i = 0; i < a.size(); ++i) {
        EXPECT_EQ(a[i].first, b[i].first);
        EXPECT_EQ(values(a[i].second), values(b[i].second));
      }
    }
  nn::Sequential other;
  other.add(ColumnParallelDense(7, hosts(2), {}, {.in_units = 5}), RowParallelDense(5, hosts(2)));
  EXPECT_THAT(message_of<ShapeError>([&] { other.load_parameters(file); }),
              HasSubstr("expected (7,5) vs saved (7,6)"));
  EXPECT_FALSE(other.parameter("1.weight.0").initialized());
}

// The gradient of a broadcast input is whole.
TEST(TensorParallel, GradientsOfTheInputAreThoseOfDense) {
  for (const Group& g : groups()) {
    SCOPED_TRACE(to_string(g));
    const auto gradient = [&](bool cut) {
      random::seed(6);
      nn::Dense a(6, nn::relu, {.in_units = 8}), b(8, {}, {.in_units = 6});
      ColumnParallelDense up(6, g.contexts(), nn::relu, {.gather_output = true, .in_units = 8});
      RowParallelDense down(8, g.contexts(), {}, {.input_is_parallel = false, .in_units = 6});
      const Tensor x = sample_values(cpu(), f64, {3, 8}).copyto(g[0]);
      for (nn::Block* block : std::vector<nn::Block*>{&a, &b, &up, &down}) block->cast(f64);
      if (cut) {
        up.initialize(init::Xavier());
        down.initialize(init::Xavier());
      } else {
        a.initialize(init::Xavier(), g[0]);
        b.initialize(init::Xavier(), g[0]);
      }
      x.attach_grad();
      Tensor l;
      {
        const autograd::Record record;
        if (!cut) {
          l = pow(x + b(a(x)), 2).sum();  // around a shortcut
        } else {
          const Tensors xs = broadcast(g, x), ys = down(up(xs));
          l = pow(xs[0] + ys[0], 2).sum();
        }
      }
      l.backward();
      return values(x.grad());
    };
    const Values one = gradient(false), cut = gradient(true);
    for (size_t k = 0; k < one.size(); ++k) EXPECT_NEAR(one[k], cut[k], 1e-12);
  }
}

TEST(TensorParallel, MovesByCollectivesAlone) {
  const auto where = num_gpus() >= 2 ? gpus(2) : hosts(2);
  nn::Sequential net;
  net.add(ColumnParallelDense(8, where, nn::relu, {.in_units = 4}),
          RowParallelDense(6, where, {}, {.in_units = 8}));
  net.initialize(init::Xavier());
  const Tensors xs = broadcast(Group(where), ones({5, 4}, where[0]));
  TransferLog log;
  Tensors ys;
  {
    const autograd::Record record;
    ys = net(xs);
  }
  uint64_t bytes = 0;
  for (const TransferEntry& e : log.entries()) bytes += e.bytes;
  EXPECT_EQ(bytes, 2u * 5 * 6 * sizeof(float));  // a sum over two: up and down, or each reads one
}

// A stopped run continues with the same bits on as many contexts.
TEST(TensorParallel, CheckpointsHoldIt) {
  const Folder own;
  const std::string folder = own.path;
  const auto go = [&](int steps, int stop, bool resumes) {
    random::seed(8);
    nn::Sequential net;
    net.add(ColumnParallelDense(6, hosts(3), nn::relu, {.in_units = 4}),
            RowParallelDense(4, hosts(3), {}, {.in_units = 6}));
    net.initialize(init::Xavier());
    nn::Trainer trainer(net.parameters(), optim::Adam({.learning_rate = .01}));
    if (resumes) checkpoint::load(folder, {net, trainer});
    const Tensor x = sample_values(cpu(), f32, {5, 4});
    while (trainer.num_update() < steps) {
      Tensor l;
      {
        const autograd::Record record;
        l = pow(net(broadcast(Group(hosts(3)), x))[0], 2);
      }
      l.backward();
      trainer.step(5);
      if (trainer.num_update() == stop) checkpoint::save(folder, {net, trainer});
    }
    return whole(net, "0.weight", 0);
  };
  const Values through = go(6, 3, false);
  EXPECT_EQ(go(6, -1, true), through);
}

TEST(TensorParallel, NormsCountEveryPart) {
  const auto norm = [](bool cut) {
    nn::Sequential net;
    if (cut)
      net.add(ColumnParallelDense(5, hosts(2), {}, {.in_units = 3}));
    else
      net.add(nn::Dense(5, {}, {.in_units = 3}));
    net.initialize(init::One());
    nn::Trainer trainer(net.parameters(), optim::SGD());
    const Tensor x = ones({2, 3});
    Tensor l;
    {
      const autograd::Record record;
      Tensors y = net(cut ? broadcast(Group(hosts(2)), x) : Tensors{x});
      l = y[0].sum();
      if (cut) l = l + y[1].sum().as_in_context(cpu(0));
    }
    l.backward();
    return trainer.clip_global_norm(1, 2).item<double>();
  };
  EXPECT_NEAR(norm(true), norm(false), 1e-12);
}

TEST(TensorParallel, BadCallsAreNamed) {
  const auto two = hosts(2);
  EXPECT_THAT(message_of<ShapeError>([&] { ColumnParallelDense(1, two); }),
              HasSubstr("units 1, in_units 0 over [cpu(0), cpu(1)]; expected units >= 2"));
  EXPECT_THROW(RowParallelDense(4, two, {}, {.in_units = 1}), ShapeError);
  EXPECT_THROW(ColumnParallelDense(4, {cpu(0), cpu(0)}), ValueError);
  ColumnParallelDense up(4, two, {}, {.in_units = 3});
  RowParallelDense down(2, two, {}, {.in_units = 5});
  const Tensor x = ones({2, 3}), y = ones({2, 3}, cpu(1));
  EXPECT_THAT(message_of<Error>([&] { up({x, y}); }), HasSubstr("has not been initialized"));
  up.initialize(init::Xavier());
  down.initialize(init::Xavier());
  EXPECT_THAT(message_of<Error>([&] { up({x}); }), HasSubstr("1 inputs for [cpu(0), cpu(1)]"));
  EXPECT_THAT(message_of<ContextMismatch>([&] {
                up({x, x});
              }),
              HasSubstr("input 1 is cpu(0) (2,3) f32; expected it on cpu(1)"));
  EXPECT_THROW(up({x, ones({3, 3}, cpu(1))}), ShapeError);
  EXPECT_THROW(up({x, ones({2, 3}, {cpu(1), f64})}), DTypeError);
  EXPECT_THAT(message_of<ShapeError>([&] { down({x, y}); }), HasSubstr("6 features"));
  EXPECT_THAT(message_of<ShapeError>([&] {
                down({ones({2, 2}), ones({2, 3}, cpu(1))});
              }),
              HasSubstr("input 0 is cpu(0) (2,2) f32; expected 3 of 5 features"));
  EXPECT_THAT(message_of<Error>([&] { up.reset_ctx(cpu(0)); }),
              HasSubstr("'weight.1', part 1 of 2 along axis 0, on cpu(1), cannot be put on"));
  nn::Dense dense(2, {}, {.in_units = 3});
  EXPECT_THROW(up.parameter("weight.0").share(dense.parameter("weight")), Error);
  EXPECT_THROW(up.parameter("weight.0").place(x, cpu(0)), Error);
  const nn::Parameter part = up.parameter("weight.1");
  EXPECT_THROW(part.place(part.data(), part.list_ctx()), Error);  // on its own context, too
}

TEST(TensorParallel, ANewSeedDrawsAnewForAllParts) {
  random::seed(4);
  nn::Dense dense(4, {}, {.use_bias = false, .in_units = 3});
  dense.initialize(init::Xavier());
  for (const int asked : {0, 1})
    for (const uint64_t before : {9, 4}) {
      random::seed(before);
      ColumnParallelDense up(4, hosts(2), {}, {.use_bias = false, .in_units = 3});
      up.parameter(text_of("weight.", asked)).initialize(init::Xavier());
      random::seed(4);
      up.initialize(init::Xavier(), cpu(), {.force_reinit = true});
      EXPECT_EQ(whole(up, "weight", 0), values(dense.parameter("weight").data()));
    }
}

}  // namespace
}  // namespace locus::test
