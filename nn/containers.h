// Blocks made of blocks: in sequence, in parallel branches, and around a shortcut.
#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <utility>

#include <locus/nn/activation_layers.h>
#include <locus/nn/block.h>

namespace locus::nn {

// A block whose children are added in order and named "0", "1", ...
class Container : public Block {
 public:
  template <std::derived_from<Block>... B>
  void add(B... b) {
    static_assert(!(std::same_as<B, Block> || ...), "a Block& would lose what its class overrides");
    (push(std::make_shared<B>(std::move(b))), ...);
  }
  Block& operator[](int i) const;  // negative counts from the end; IndexError if out of range
  int size() const { return static_cast<int>(children().size()); }

 protected:
  void push(std::shared_ptr<Block> block);
};

// Runs layers in order. The first layer may take several inputs; all results go to the next layer.
//   nn::Sequential net{nn::Dense(256, nn::relu), nn::Dense(10)};
class Sequential : public Container {
 public:
  Sequential() = default;
  // Calls add(b...). A single Sequential is copied instead; use add() to make it a layer.
  template <std::derived_from<Block>... B>
  requires(sizeof...(B) > 1 ||
           !(std::derived_from<B, Sequential> && ...)) explicit Sequential(B... b) {
    add(std::move(b)...);
  }
  // A compile error: a copy would lose what B overrides.
  template <std::derived_from<Sequential> B>
  requires(!std::same_as<B, Sequential>) Sequential(const B&) {
    static_assert(!sizeof(B), "a single block that is a Sequential itself: call add(block)");
  }
  Tensor forward(const Tensor& x) override;
  Tensors forward(const Tensors& in) override;
  Tensors forward_replicas(const Tensors& xs) override;
  // The layers from `begin` up to `end`, shared with this Sequential. Negative numbers count from
  // the end. IndexError if out of range.
  Sequential slice(int begin, int end) const;
};

// Runs branches on one input and joins their results along an axis (Gluon's contrib.nn.Concurrent).
class Concurrent : public Container {
 public:
  explicit Concurrent(int axis = -1) : axis_(axis) {}
  Tensor forward(const Tensor& x) override;
  Tensors forward_replicas(const Tensors& xs) override;

 private:
  int axis_;
};

// activation(body(x) + shortcut(x)), the block of residual networks (He et al., 2015). Children are
// named "body" and "shortcut". Without a shortcut, x is added. ShapeError if the shapes differ.
class Residual : public Block {
 public:
  template <std::derived_from<Block> B>
  explicit Residual(const B& body, const Activation& activation = {}) : activation_(activation) {
    add_child("body", body);
  }
  template <std::derived_from<Block> B, std::derived_from<Block> S>
  Residual(const B& body, const S& shortcut, const Activation& activation = {})
      : Residual(body, activation) {
    add_child("shortcut", shortcut);
  }
  Tensor forward(const Tensor& x) override;
  Tensors forward_replicas(const Tensors& xs) override;

 private:
  Tensor joined(const Tensor& y, const Tensor& around) const;

  Activation activation_;
};

// Saves memory: training keeps only the body's inputs, and backward() runs the body again
// (core/recompute.h). Results are the same; time grows by about a third. backward() throws Error if
// a parameter of the body, even a frozen one, was written since. A first pass that infers shapes is
// kept whole. If the body spans replicas (SyncBatchNorm), on_replicas() recomputes all replicas
// together.
class Recompute : public Block {
 public:
  template <std::derived_from<Block> B>
  explicit Recompute(const B& body) {
    add_child("body", body);
  }
  Tensors forward(const Tensors& in) override;
  Tensors forward_replicas(const Tensors& xs) override;

 private:
  Tensors once_more(const std::function<Tensors(const Tensors&)>& body, const Tensors& in) const;
};

// Returns its input.
class Identity : public Block {
 public:
  Tensor forward(const Tensor& x) override { return x; }
  std::string repr() const override { return "Identity()"; }
};

}  // namespace locus::nn
