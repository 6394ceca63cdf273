// argmax and argmin.
#include <locus/ops/reduce/reduce_cuda.h>

namespace locus::cuda {
namespace {

template <class V>
struct Best {
  V value;
  int64_t index;
};

template <bool kMax>
struct Arg {
  template <class T>
  using Acc = Best<ComputeType<T>>;
  template <class T>
  using Out = int64_t;

  template <class A>
  LOCUS_HD static A identity() {  // loses against every element: its index is the highest
    using V = decltype(A::value);
    if constexpr (kMax)
      return {Max::identity<V>(), INT64_MAX};
    else
      return {Min::identity<V>(), INT64_MAX};
  }
  template <class A, class T>
  LOCUS_HD static A element(T v, int64_t k) {
    return {convert<decltype(A::value)>(v), k};
  }
  template <class A>
  LOCUS_HD static A combine(A a, A b) {
    const bool equal = a.value == b.value || (a.value != a.value && b.value != b.value);
    return (equal ? b.index < a.index : better<kMax>(b.value, a.value)) ? b : a;
  }
  template <class Out, class A>
  LOCUS_HD static Out result(A a, double) {
    return a.index;
  }
};

struct Backend {
  template <bool kMax, DType D>
  static void along_axes(const Call& call) {
    launch_reduce<Arg<kMax>, CppTypeOf<D>>(call, call.attributes<ReduceAttrs>().axes, true, false);
  }
};

}  // namespace

extern constinit const KernelList reduce_arg = reduce_arg_kernels<Backend>();

}  // namespace locus::cuda
