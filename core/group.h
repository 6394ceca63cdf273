// Group: contexts that work together on one tensor each (ops/collective.h).
#pragma once

#include <concepts>
#include <string>
#include <vector>

#include <locus/core/context.h>

namespace locus {

// A value, cheap to copy; groups of the same contexts in the same order are equal. What devices
// keep for one, such as connections, is made at first use and stays until the process ends.
// Threads: any.
class Group {
 public:
  // Throws ValueError where a context is named twice, ContextMismatch unless all are of the host or
  // all of one kind of device, DeviceError for one that is not there.
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
  const std::vector<Context>* contexts_;  // one for all equal groups
};

std::string to_string(const Group& g);  // "[gpu(0), gpu(1)]"

// How the parts of a group are combined, element by element.
enum class ReduceOp : uint8_t { sum, mean, max, min, prod };

std::string to_string(ReduceOp op);  // "sum"; its number where it is none of these
// ValueError, that begins with `who` where it is told, unless it is one of these.
void check_reduce_op(ReduceOp op, std::string_view who = {});

}  // namespace locus
