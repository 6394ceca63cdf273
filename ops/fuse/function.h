// A fused function: its signatures, and the plan of each. Internal to ops/fuse.
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <locus/core/base/mutex.h>
#include <locus/ops/fuse.h>
#include <locus/ops/fuse/plan.h>

namespace locus::fusion {

// One signature. Set while `mutex` is held, and constant when `made` is set.
struct Signature {
  const uint64_t id = next_id();
  Mutex mutex;
  std::atomic<bool> made = false;
  std::unique_ptr<const Plan> plan;  // null: not fused
  std::string why;                   // it is not
  std::string text;                  // "f32(2,3), f32(3,) on cpu(0)"
  // For the gradient:
  std::shared_ptr<const Body> body;
  Context current;
  bool training = false;
  std::vector<size_t> heads;      // results that need a gradient
  std::vector<uint32_t> reached;  // by argument: bits of the heads that depend on it

 private:
  static uint64_t next_id();
};

// Traces functions of tensors, and keeps their plans.
class Traces {
 public:
  // `gradients`: the functions may return arguments.
  Traces(std::string name, bool gradients) : name_(std::move(name)), gradients_(gradients) {}

  // The signature of this call. `record`: the results will be in a graph.
  std::shared_ptr<const Signature> find(const Body& body, const Tensors& in,
                                        const std::vector<uint64_t>& key, bool record);
  std::string describe(const std::string& what) const;  // a line for each signature
  FuseStats stats() const;

 private:
  void make(Signature& s, const Body& body, const Tensors& in, bool record) const;
  void trace(Signature& s, const Body& body, const Tensors& in, bool record) const;

  const std::string name_;
  const bool gradients_;
  mutable Mutex mutex_;
  std::map<std::string, std::shared_ptr<Signature>> by_key_ LOCUS_GUARDED_BY(mutex_);
  std::deque<std::string> keys_ LOCUS_GUARDED_BY(mutex_);  // the newest last
  size_t traces_ LOCUS_GUARDED_BY(mutex_) = 0, kernels_ LOCUS_GUARDED_BY(mutex_) = 0;
};

class Function : public std::enable_shared_from_this<Function> {
 public:
  explicit Function(std::string name);

  Tensors call(const Body& body, const Tensors& in, const std::vector<uint64_t>& key);

  const std::string name;
  Traces forward, backward;
  const Op& op;  // of the tape's nodes
};

}  // namespace locus::fusion
