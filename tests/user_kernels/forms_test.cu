#include "tests/user_kernels/forms_ops.h"

#include <locus/ops/forms_cuda.h>

void locus::test::add_own_cuda_kernels() { add_cuda_kernels(OwnOps()); }
