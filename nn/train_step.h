// TrainStep: a compiled step of training (core/compile.h). The first call with given input shapes
// runs and records forward, backward and update. Later calls replay them, with the same numbers.
// The step owns its recordings. The trainer, and what the function refers to, must outlive the step
// and must not move. Threads, errors and memory: as with Compiled.
//
//   nn::TrainStep step(net, loss, trainer);
//   for (const auto& [image, label] : loader) total += step(image, label).mean();
//
// A call computes the following, and returns the losses (batch,) in new memory:
//   { autograd::Record record;  l = loss(net(image), label); }
//   l.backward();  trainer.step(image.shape()[0]);  return l;
#pragma once

#include <concepts>
#include <functional>
#include <utility>

#include <locus/core/autograd.h>
#include <locus/core/cluster.h>
#include <locus/core/compile.h>
#include <locus/nn/block.h>
#include <locus/nn/loss_scaler.h>
#include <locus/nn/options.h>
#include <locus/nn/trainer.h>

namespace locus::nn {

class TrainStep {
 public:
  template <class Net, class Loss>
  requires std::invocable<Net&, const Tensor&> && std::invocable<Loss&, Tensor, const Tensor&>
  TrainStep(const Net& net, const Loss& loss, Trainer& trainer, const CompileOptions& o = {})
      : TrainStep(
            [net = Net(net), loss = Loss(loss), &trainer](const Tensor& x,
                                                          const Tensor& y) mutable {
              Tensor l;
              {
                const autograd::Record record;
                l = loss(net(x), y);
              }
              l.backward();
              if (cluster::size() == 1) trainer.step(x.shape()[0]);
              return l;
            },
            trainer, o) {
    update_ = [&trainer](const Tensors& in, Caller from) {  // ranks may have joined since
      if (cluster::size() > 1) trainer.step(in[0].shape()[0] * cluster::size(), false, from);
    };
  }
  template <class Net, class Loss>
  requires std::invocable<Net&, const Tensor&> && std::invocable<Loss&, Tensor, const Tensor&>
  TrainStep(const Net& net, const Loss& loss, Trainer& trainer, amp::LossScaler& scaler,
            const CompileOptions& o = {})
      : TrainStep(
            [net = Net(net), loss = Loss(loss), &scaler](const Tensor& x, const Tensor& y) mutable {
              Tensor l, scaled;
              {
                const autograd::Record record;
                l = loss(net(x), y);
                scaled = scaler.scale(l);
              }
              scaled.backward();
              return l;
            },
            trainer, o) {
    update_ = [&trainer, &scaler](const Tensors& in, Caller from) {
      scaler.step(trainer, in[0].shape()[0] * cluster::size(), false, from);
      scaler.update();
    };
  }
  // A step from a function f, which calls the trainer itself. f takes one to four tensors, or
  // Tensors, and returns a Tensor, the result of the step. With more than two tensors, call
  // step({x, y, z}).
  //   nn::TrainStep step([&](const Tensor& x, const Tensor& y) {
  //     Tensor l;
  //     { autograd::Record record;  l = (loss(net(x), y) + loss(net(flip(x, 3)), y)).mean(); }
  //     l.backward();
  //     trainer.step(1);
  //     return l;
  //   }, trainer);
  template <class F>
  requires(!std::derived_from<F, Block>)  // whose loss is missing
      TrainStep(F f, Trainer&, const CompileOptions& o = {})
      : compiled_(
            [f = checked(std::move(f))](const Tensors& in) mutable { return Tensors{call(f, in)}; },
            o) {}

  Tensor operator()(const Tensors& in, Caller = Caller::here());
  Tensor operator()(const Tensor& x, Caller from = Caller::here()) {
    return (*this)(Tensors{x}, from);
  }
  Tensor operator()(const Tensor& x, const Tensor& y, Caller from = Caller::here()) {
    return (*this)(Tensors{x, y}, from);
  }

  // The recorded calls, as in core/compile.h.
  std::vector<CompiledCall> calls() { return compiled_.calls(); }
  std::string describe() { return compiled_.describe(); }
  std::string dot() const { return compiled_.dot(); }
  Compiled& compiled() { return compiled_; }

 private:
  template <class F>
  static Tensor call(F& f, const Tensors& in) {
    if constexpr (std::invocable<F&, const Tensors&>) {
      return f(in);
    } else if constexpr (std::invocable<F&, const Tensor&>) {
      check(in, 1);
      return f(in[0]);
    } else if constexpr (std::invocable<F&, const Tensor&, const Tensor&>) {
      check(in, 2);
      return f(in[0], in[1]);
    } else if constexpr (std::invocable<F&, const Tensor&, const Tensor&, const Tensor&>) {
      check(in, 3);
      return f(in[0], in[1], in[2]);
    } else {
      check(in, 4);
      return f(in[0], in[1], in[2], in[3]);
    }
  }
  template <class F>
  static F checked(F f) {
    if constexpr (requires { !f; }) options::expect_function("TrainStep", "f", f);
    return f;
  }
  static void check(const Tensors& in, size_t expected);

  Compiled compiled_;
  std::function<void(const Tensors& in, Caller)> update_;  // after compiled_
};

// --- Details ---

// Changes between calls
//   - Later calls see load_parameters(), cast(), reset_ctx(), initialize(), set_learning_rate(),
//     set_schedule(), set_states(), the number of updates, multipliers and grad_req.
//   - All other numbers of the optimizer and of the function are frozen when recorded.
//   - Effects of the function other than ops, such as printing, happen only while recording.

// With a loss scaler (nn/loss_scaler.h): nn::TrainStep step(net, loss, trainer, scaler)
//   - Forward, backward and the scaling of the loss are compiled.
//   - scaler.step() and scaler.update() then run uncompiled, because the host decides on the
//     update. Each step waits once.

// With several ranks (core/cluster.h)
//   - Forward and backward are compiled. The trainer's step then runs uncompiled, with the batch
//     size of one rank times the number of ranks.
//   - If the step has a function f, the program calls the trainer after the step, not in f.

}  // namespace locus::nn
