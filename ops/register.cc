#include <locus/ops/register.h>

#include <cstdio>

#include <locus/core/base/environment.h>
#include <locus/core/call/register.h>
#include <locus/core/observe/register.h>
#include <locus/devices/cpu.h>
#include <locus/devices/emulated.h>
#include <locus/devices/ranks/mpi_ranks.h>
#include <locus/ops/environment_names.h>

namespace locus {

// Written by the build (LocusFamilies.cmake):
void register_families();  // every register_<family>() of ops/*/*.cc, then set_kernels for every
                           // KernelList of *_cpu.cc and *.cu
bool register_gpus();      // with CUDA: register_cuda(); else false

bool register_builtins() {
  static const bool once = [] {
    register_ledger();
    register_memory_tools();
    register_copyto();
    register_cpu();
    register_ranks();
    if (!register_emulated() && !register_gpus()) register_no_gpus();
    register_families();
    std::fputs(unread_environment(environment_variables()).c_str(), stderr);
    return true;
  }();
  return once;
}

}  // namespace locus
