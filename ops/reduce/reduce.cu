#include <locus/ops/reduce/reduce_cuda.h>

namespace locus::cuda {
namespace {

// A reduction as the kernel wants it.
template <class R>
struct Values : R {
  template <class A, class T>
  LOCUS_HD static A element(T v, int64_t) {
    return R::map(convert<A>(v));
  }
  template <class Out, class A>
  LOCUS_HD static Out result(A a, double divisor) {
    a = R::finish(a);
    if constexpr (std::is_floating_point_v<A>)
      if (divisor >= 0) a = a / static_cast<A>(divisor);
    return convert<Out>(a);
  }
};

struct Backend {
  template <class R, DType D>
  static void along_axes(const Call& call) {
    launch_reduce<Values<R>, CppTypeOf<D>>(call, call.attributes<ReduceAttrs>().axes, false, false);
  }

  template <DType D>
  static void mean(const Call& call) {
    launch_reduce<Values<Sum>, CppTypeOf<D>>(call, call.attributes<ReduceAttrs>().axes, false,
                                             true);
  }

  template <DType D>
  static void sum_to(const Call& call) {
    const uint32_t axes = broadcast_axes(call.in[0].meta, call.out[0].meta);
    launch_reduce<Values<Sum>, CppTypeOf<D>>(call, axes, false, false);
  }
};

}  // namespace

extern constinit const KernelList reduce = reduce_kernels<Backend>();

}  // namespace locus::cuda
