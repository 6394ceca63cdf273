#include <locus/nn/train_step.h>

#include <locus/core/base/at_line.h>
#include <locus/core/error.h>
#include <locus/core/observe/memory_events.h>

namespace locus::nn {

Tensor TrainStep::operator()(const Tensors& in, Caller from) try {
  const UserLine user_line(from);
  Tensor l = compiled_(in, from)[0];
  if (update_) update_(in, from);
  return l;
} catch (const Error&) {
  rethrow_at(from);
}

void TrainStep::check(const Tensors& in, size_t expected) {
  if (in.size() != expected)
    throw Error("TrainStep: called with ", in.size(), " tensors; its function takes ", expected);
}

}  // namespace locus::nn
