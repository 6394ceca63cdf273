// The state that all handles of a Parameter share. Internal to parameter*.cc.
#pragma once

#include <atomic>
#include <mutex>

#include <locus/nn/block/sharded_tensor.h>
#include <locus/nn/parameter.h>

namespace locus::nn {

// Until `ready`, held to create values and to read state that creation changes. Recursive, because
// an initializer may create other parameters.
class CreationLock : NonCopyable {
 public:
  explicit CreationLock(const std::atomic<bool>& ready) {
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
  Caller caller;                             // caller of initialize(), for later copies
  std::vector<Context> contexts;
  Tensors replicas;                // one per context
  std::atomic<bool> ready{false};  // replicas exist; until then, read under CreationLock
  uint64_t generation = 0, origin = 0;
  GradReq made_req = GradReq::write;
  std::shared_ptr<State> shared = {};         // used in place of this state
  std::shared_ptr<ShardedTensor> whole = {};  // the whole of this part, shared by all parts
  size_t index = 0;                           // index of the part

  const Shape& full() const { return whole ? whole->shape() : shape; }
  std::string part_text() const { return whole ? whole->text(index) : "a whole one"; }
};

}  // namespace locus::nn
