#include <locus/nn/train_step.h>

#include <locus/core/error.h>

namespace locus::nn {

void TrainStep::check(const Tensors& in, size_t expected) {
  if (in.size() != expected)
    throw Error("TrainStep: called with ", in.size(), " tensors; its function takes ", expected);
}

}  // namespace locus::nn
