#include "axpby.h"

#include <locus/ops/forms_cuda.h>

void add_custom_cuda_kernels() { locus::add_cuda_kernels(CustomOps()); }
