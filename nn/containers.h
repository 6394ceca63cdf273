// Blocks made of blocks: one after the other, side by side, and around a shortcut.
#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <utility>

#include <locus/nn/activation_layers.h>
#include <locus/nn/block.h>

namespace locus::nn {

// A block whose children are added in order, named "0", "1", ...
class Container : public Block {
 public:
  template <std::derived_from<Block>... B>
  void add(B... b) {
    (push(std::make_shared<B>(std::move(b))), ...);
  }
  Block& operator[](int i) const;  // negative counts from the end; IndexError when out of range
  int size() const { return static_cast<int>(children().size()); }

 protected:
  void push(std::shared_ptr<Block> block);
};

// Layers one after the other. Several inputs go to the first, and several results on to the next.
//   nn::Sequential net{nn::Dense(256, nn::relu), nn::Dense(10)};
class Sequential : public Container {
 public:
  Sequential() = default;
  // add(b...). A Sequential alone is copied, as by every copy constructor: add() makes it a layer.
  template <std::derived_from<Block>... B>
  requires(sizeof...(B) > 1 ||
           !(std::derived_from<B, Sequential> && ...)) explicit Sequential(B... b) {
    add(std::move(b)...);
  }
  Tensor forward(const Tensor& x) override;
  Tensors forward(const Tensors& in) override;
  Tensors forward_replicas(const Tensors& xs) override;
  // The layers from `begin` up to `end`, shared with this; negative counts from the end. Throws
  // IndexError when it has them not.
  Sequential slice(int begin, int end) const;
};

// Branches over one input, their results joined along an axis (Gluon's contrib.nn.Concurrent).
class Concurrent : public Container {
 public:
  explicit Concurrent(int axis = -1) : axis_(axis) {}
  Tensor forward(const Tensor& x) override;
  Tensors forward_replicas(const Tensors& xs) override;

 private:
  int axis_;
};

// activation(body(x) + shortcut(x)), with children named "body" and, if there is one, "shortcut":
// the block of residual networks (He et al., 2015). Without a shortcut x itself is added, whose
// shape must be the result's.
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

// A block of which training keeps the inputs alone: backward() runs it again (core/recompute.h).
// The same numbers for less memory and about a third more time. backward() throws Error if a
// parameter of the body, frozen ones included, was written since. A first pass, which tells shapes,
// is kept as a whole. on_replicas() of a body with a layer such as SyncBatchNorm recomputes all
// replicas together.
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

// Its input.
class Identity : public Block {
 public:
  Tensor forward(const Tensor& x) override { return x; }
  std::string repr() const override { return "Identity()"; }
};

}  // namespace locus::nn
