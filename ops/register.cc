// One line per family: the only shared file, untouched by a new op of an old family.
#include <locus/ops/register.h>

#include <locus/devices/cpu.h>
#include <locus/devices/emulated.h>
#ifdef LOCUS_WITH_CUDA
#include <locus/devices/cuda.h>
#endif

namespace locus {

#define FAMILIES(X)                                                                         \
  X(copy)                                                                                   \
  X(create) X(elementwise) X(unary) X(compare) X(reduce) X(view) X(join) X(index) X(random) \
      X(matmul) X(dense) X(softmax) X(optim)

#if __has_include("copy.cc")
void register_copy();
#else
static void register_copy() {}
#endif
#if __has_include("create.cc")
void register_create();
#else
static void register_create() {}
#endif
#if __has_include("elementwise.cc")
void register_elementwise();
#else
static void register_elementwise() {}
#endif
#if __has_include("unary.cc")
void register_unary();
#else
static void register_unary() {}
#endif
#if __has_include("compare.cc")
void register_compare();
#else
static void register_compare() {}
#endif
#if __has_include("reduce.cc")
void register_reduce();
#else
static void register_reduce() {}
#endif
#if __has_include("view.cc")
void register_view();
#else
static void register_view() {}
#endif
#if __has_include("join.cc")
void register_join();
#else
static void register_join() {}
#endif
#if __has_include("index.cc")
void register_index();
#else
static void register_index() {}
#endif
#if __has_include("random.cc")
void register_random();
#else
static void register_random() {}
#endif
#if __has_include("matmul.cc")
void register_matmul();
#else
static void register_matmul() {}
#endif
#if __has_include("dense.cc")
void register_dense();
#else
static void register_dense() {}
#endif
#if __has_include("softmax.cc")
void register_softmax();
#else
static void register_softmax() {}
#endif
#if __has_include("optim.cc")
void register_optim();
#else
static void register_optim() {}
#endif

bool register_builtins() {
  static const bool once = [] {
    register_cpu();
#ifdef LOCUS_WITH_CUDA
    if (!register_emulated()) register_cuda();
#else
    register_emulated();
#endif
#define X(family) register_##family();
    FAMILIES(X)
#undef X
    return true;
  }();
  return once;
}

}  // namespace locus
