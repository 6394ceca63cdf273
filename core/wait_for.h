// wait_for() lets a stream wait for a tensor earlier than ops would.
#pragma once

#include <locus/core/tensor.h>

namespace locus {

// Later work on the current stream of c runs after x has its values. Ops wait for their inputs
// automatically, but as late as possible. By then, the wait also covers later work on the stream
// that made x. Does nothing if c is a host context or during recording. Any thread may call it.
void wait_for(const Tensor& x, Context c);

}  // namespace locus
