// What all handles of a Parameter share, and who may look at it when. Internal to parameter*.cc.
#pragma once

#include <atomic>
#include <mutex>

#include <locus/nn/block/sharded_tensor.h>
#include <locus/nn/parameter.h>

namespace locus::nn {

// Held while values are created, which threads of a parallel() may come to at once, and while what
// that changes is looked at. An initializer may create others.
class Unready : NonCopyable {
 public:
  explicit Unready(const std::atomic<bool>& ready) {
    static std::recursive_mutex creating;
    if (!ready.load(std::memory_order_acquire)) lock_ = std::unique_lock(creating);
  }

 private:
  std::unique_lock<std::recursive_mutex> lock_;
};

struct Parameter::State {
  std::string name;
  Shape shape;
  ParameterOptions options;
  std::optional<init::Initializer> pending;  // until the shape is known
  Caller asked;                              // who initialized, for copies made only then
  std::vector<Context> contexts;
  Tensors replicas;                // one a context
  std::atomic<bool> ready{false};  // they are there; until then threads look while they are Unready
  uint64_t generation = 0, origin = 0;
  GradReq made_req = GradReq::write;
  std::shared_ptr<State> shared = {};         // the one that is used in place of this
  std::shared_ptr<ShardedTensor> whole = {};  // that it is a part of, shared by all of them
  size_t index = 0;                           // which one

  const Shape& full() const { return whole ? whole->shape() : shape; }
  std::string part_text() const { return whole ? whole->text(index) : "a whole one"; }
};

}  // namespace locus::nn
