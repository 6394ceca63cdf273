#include <locus/ops/environment_names.h>

namespace locus {
namespace {

constexpr std::string_view kVariables[] = {"LOCUS_CHECK",
                                           "LOCUS_CLUSTER_TIMEOUT",
                                           "LOCUS_CXX",
                                           "LOCUS_EMULATED_GPUS",
                                           "LOCUS_EMULATED_LINK",
                                           "LOCUS_EMULATED_MEMORY",
                                           "LOCUS_ISA",
                                           "LOCUS_KERNEL_CACHE",
                                           "LOCUS_KERNEL_CACHE_SIZE",
                                           "LOCUS_MEMORY",
                                           "LOCUS_NUM_THREADS",
                                           "LOCUS_NVTX",
                                           "LOCUS_P2P",
                                           "LOCUS_PIN",
                                           "LOCUS_POOL",
                                           "LOCUS_SYNC",
                                           "LOCUS_TRANSFERS",
                                           "LOCUS_TUNE",
                                           "LOCUS_TUNE_FILE"};

}  // namespace

std::span<const std::string_view> environment_variables() { return kVariables; }

}  // namespace locus
