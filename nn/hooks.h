// Functions that run around a block's forward().
#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include <locus/core/tensor.h>

namespace locus::nn {

class Block;
using ForwardPreHook = std::function<void(Block&, const Tensors& in)>;
using ForwardHook = std::function<void(Block&, const Tensors& in, const Tensors& out)>;

// The hooks of a block and its copies. A hook may register and detach hooks. A call runs the hooks
// that exist when it begins.
struct Hooks {
  template <class F>
  using List = std::vector<std::pair<int, F>>;

  List<ForwardPreHook> before;
  List<ForwardHook> after;
  int registered = 0;

  bool any() const { return !before.empty() || !after.empty(); }
  void detach(int number) {
    std::erase_if(before, [&](const auto& h) { return h.first == number; });
    std::erase_if(after, [&](const auto& h) { return h.first == number; });
  }
};

// detach() removes the hook; destroying the handle does not. The block may be destroyed first.
class HookHandle {
 public:
  HookHandle() = default;
  HookHandle(std::weak_ptr<Hooks> hooks, int number) : hooks_(std::move(hooks)), number_(number) {}
  void detach() {
    if (const auto hooks = hooks_.lock()) hooks->detach(number_);
  }

 private:
  std::weak_ptr<Hooks> hooks_;
  int number_ = 0;
};

}  // namespace locus::nn
