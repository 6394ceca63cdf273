#include <locus/ops/register.h>

#include <cstdio>

#include <locus/core/base/environment.h>
#include <locus/core/call/register.h>
#include <locus/core/observe/register.h>
#include <locus/devices/cpu.h>
#include <locus/devices/emulated.h>
#include <locus/devices/ranks/mpi_ranks.h>
#ifdef LOCUS_WITH_CUDA
#include <locus/devices/cuda.h>
#endif

namespace locus {

// Written by the build: calls every register_<family>() of ops/*/*.cc, then set_kernels for every
// KernelList of *_cpu.cc and *.cu.
void register_families();

bool register_builtins() {
  static const bool once = [] {
    register_ledger();
    register_copyto();
    register_cpu();
    register_ranks();
    bool gpus = register_emulated();
#ifdef LOCUS_WITH_CUDA
    gpus = gpus || register_cuda();
#endif
    if (!gpus) register_no_gpus();
    register_families();
    std::fputs(misspelled_environment().c_str(), stderr);
    return true;
  }();
  return once;
}

}  // namespace locus
