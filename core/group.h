// Group: contexts of a collective operation, one tensor each (ops/collective.h).
#pragma once

#include <concepts>
#include <string>
#include <vector>

#include <locus/core/context.h>

namespace locus {

// A value type, cheap to copy. Groups of the same contexts in the same order are equal. Devices
// create resources for a group, such as connections, at first use and keep them until the process
// ends. Any thread may use a Group.
class Group {
 public:
  // Throws ValueError if a context is named twice, ContextMismatch unless all are host contexts or
  // all have one device type, DeviceError for a device that does not exist.
  Group(const Contexts& contexts);
  template <std::same_as<std::vector<Context>> List>  // gpus(2)
  Group(const List& contexts) : Group(Contexts(contexts)) {}

  const std::vector<Context>& contexts() const { return *contexts_; }
  int size() const { return static_cast<int>(contexts_->size()); }
  Context operator[](int i) const { return (*contexts_)[static_cast<size_t>(i)]; }
  auto begin() const { return contexts_->begin(); }
  auto end() const { return contexts_->end(); }
  friend bool operator==(const Group&, const Group&) = default;

 private:
  const std::vector<Context>* contexts_;  // shared by equal groups
};

std::string to_string(const Group& g);  // "[gpu(0), gpu(1)]"

// The operation that combines the tensors of a group, element by element.
enum class ReduceOp : uint8_t { sum, mean, max, min, prod };

std::string to_string(ReduceOp op);  // "sum"; the number of an invalid op
// Throws ValueError if op is invalid. The text begins with `who`, if given.
void check_reduce_op(ReduceOp op, std::string_view who = {});

}  // namespace locus
