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

// Those of a block and its copies. A function may register and detach others; a call runs those
// that were there when it began.
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

// What takes one out again. Dropping the handle does not; the block may go before it.
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
