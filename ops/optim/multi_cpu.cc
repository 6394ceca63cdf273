#include <locus/core/scratch.h>
#include <locus/ops/optim/multi_kernel.h>
#include <locus/ops/optim/optim_cpu.h>

namespace locus::LOCUS_ISA_NAMESPACE {
namespace {

struct Backend {
  template <class T, class R>
  static void reduce(const Call& call) {
    const auto size = [&](int i) { return call.in[i].meta.size(); };
    int64_t chunks = 0;
    for (int i = 0; i < call.n_in; ++i) chunks += chunks_of(size(i));
    const Scratch scratch(call, static_cast<size_t>(chunks) * sizeof(double));
    double* const of_chunk = scratch.as<double>();
    each_chunk(call.n_in, size, [&](int i, int64_t begin, int64_t end, int64_t chunk) {
      const T* const x = call.in[i].as<T>();
      alignas(64) Compute<T> piece[kPiece];
      double v = R::kInit;
      for (int64_t at = begin; at < end; at += kPiece) {
        const int64_t count = end - at < kPiece ? end - at : kPiece;
        convert_run(x + at, piece, count);
        v = reduce_run<R>(v, piece, count);
      }
      of_chunk[chunk] = v;
    });
    double* const out = call.out[0].as<double>();
    int64_t at = 0;
    double v = R::kInit;
    for (int i = 0; i < call.n_in; ++i) {
      if (R::kEach) v = R::kInit;
      for (const int64_t end = at + chunks_of(size(i)); at < end; ++at)
        v = R::combine(v, of_chunk[at]);
      out[R::kEach ? i : 0] = v;
    }
  }

  template <class T>
  static void clip(const Call& call) {
    using A = Compute<T>;
    const auto& attrs = call.attributes<MultiClipAttrs>();
    const A factor =
        A(clip_factor(call.n_in > call.n_out ? call.in[call.n_out].as<double>() : nullptr, attrs));
    const auto size = [&](int i) { return call.out[i].meta.size(); };
    each_chunk(call.n_out, size, [&](int i, int64_t begin, int64_t end, int64_t) {
      T* const x = call.out[i].as<T>();
      for (int64_t k = begin; k < end; ++k)
        x[k] = convert<T>(limited(convert<A>(x[k]) * factor, attrs.limit));
    });
  }
};

}  // namespace

extern constinit const KernelList optim_multi = optim_multi_kernels<Backend>();

}  // namespace locus::LOCUS_ISA_NAMESPACE
