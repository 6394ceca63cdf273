#include <locus/ops/reduce_cuda.h>

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

template <class R, DType D>
void reduce_axes(const Call& call) {
  launch_reduce<Values<R>, CppTypeOf<D>>(call, call.attributes<ReduceAttrs>().axes, false, false);
}
template <DType D>
void reduce_mean(const Call& call) {
  launch_reduce<Values<Sum>, CppTypeOf<D>>(call, call.attributes<ReduceAttrs>().axes, false, true);
}
template <DType D>
void reduce_sum_to(const Call& call) {
  const uint32_t axes = broadcast_axes(call.in[0].meta, call.out[0].meta);
  launch_reduce<Values<Sum>, CppTypeOf<D>>(call, axes, false, false);
}

struct Table {
  KernelEntry entries[64] = {};
  int size = 0;

  template <class R, DType... D>
  constexpr void add(const char* op) {
    ((entries[size++] = {op, D, &reduce_axes<R, D>}), ...);
  }
  template <class R>
  constexpr void add_floats(const char* op) {
    add<R, f32, f64, f16, bf16>(op);
  }
  template <class R>
  constexpr void add_numbers(const char* op) {
    add_floats<R>(op);
    add<R, i32, i64, u8, i8>(op);
  }
  template <DType... D>
  constexpr void add_mean() {
    ((entries[size++] = {"mean", D, &reduce_mean<D>}), ...);
  }
  template <DType... D>
  constexpr void add_sum_to() {
    ((entries[size++] = {"sum_to", D, &reduce_sum_to<D>}), ...);
  }
};
constexpr Table kTable = [] {
  Table t;
  t.add_numbers<Sum>("sum");
  t.add<Sum, bool_>("sum");
  t.add_numbers<Prod>("prod");
  t.add<Prod, bool_>("prod");
  t.add_numbers<Max>("max");
  t.add<Any, bool_>("max");
  t.add_numbers<Min>("min");
  t.add<All, bool_>("min");
  t.add<Any, bool_>("any");
  t.add<All, bool_>("all");
  t.add_floats<Norm>("norm");
  t.add_mean<f32, f64, f16, bf16>();
  t.add_sum_to<f32, f64, f16, bf16, i64>();
  return t;
}();

}  // namespace

extern const KernelTable reduce;
const KernelTable reduce{kTable.entries, kTable.size};

}  // namespace locus::cuda
