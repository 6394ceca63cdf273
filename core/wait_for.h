// Order that a program asks for before an op would: a public call beside streams (stream.h).
#pragma once

#include <locus/core/tensor.h>

namespace locus {

// What is enqueued on the current stream of c from now on runs once x has its values. An op waits
// for its inputs by itself, but as late as it can: then also for what came after them where they
// were made. Nothing to do where c is the host, nor while a compiled function is recorded. Any
// thread.
void wait_for(const Tensor& x, Context c);

}  // namespace locus
