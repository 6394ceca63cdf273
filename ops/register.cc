// One line a family: the only shared file, untouched by a new op of an old family.
#include <locus/ops/register.h>

#include <locus/devices/cpu.h>
#include <locus/devices/emulated.h>
#ifdef LOCUS_WITH_CUDA
#include <locus/devices/cuda.h>
#endif

namespace locus {

void register_copy();
void register_create();
void register_elementwise();
void register_unary();
void register_compare();
void register_reduce();
void register_view();
void register_join();
void register_index();
void register_random();
void register_matmul();
void register_dense();
void register_softmax();
void register_optim();

bool register_builtins() {
  static const bool once = [] {
    register_cpu();
#ifdef LOCUS_WITH_CUDA
    if (!register_emulated()) register_cuda();
#else
    register_emulated();
#endif
    register_copy();
    register_create();
    register_elementwise();
    register_unary();
    register_compare();
    register_reduce();
    register_view();
    register_join();
    register_index();
    register_random();
    register_matmul();
    register_dense();
    register_softmax();
    register_optim();
    return true;
  }();
  return once;
}

}  // namespace locus
