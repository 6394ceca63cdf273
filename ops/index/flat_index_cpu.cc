#include <locus/devices/cpu.h>
#include <locus/ops/index/flat_index_kernel.h>

namespace locus::LOCUS_ISA_NAMESPACE {
namespace {

constexpr int64_t kGrain = 16384;

struct Backend {
  // Positions mostly ascend: while they stay in one run of the last axis, nothing is divided.
  static void unravel_index(const Call& call) {
    const UnravelAttrs& a = call.attributes<UnravelAttrs>();
    const int64_t n = call.in[0].meta.size();
    if (n == 0) return;
    const int last = a.shape.rank - 1;
    const int64_t length = a.shape.shape[last];
    const int64_t axis_step = a.axes_last ? 1 : n, step = a.axes_last ? last + 1 : 1;
    const int64_t* flat = call.in[0].as<int64_t>();
    int64_t* out = call.out[0].as<int64_t>();
    parallel_ranges(n, kGrain, [&](int64_t begin, int64_t end) {
      int64_t run = 0, run_end = 0, at[kMaxRank] = {};
      for (int64_t i = begin; i < end; ++i) {
        if (flat[i] < run || flat[i] >= run_end) {
          if (!unravel_one(a.shape, flat[i], at))
            detail::throw_outside("unravel_index", flat[i], 0, a.shape.size());
          run = flat[i] - at[last];
          run_end = run + length;
        }
        int64_t* const to = out + i * step;
        for (int axis = 0; axis < last; ++axis) to[axis * axis_step] = at[axis];
        to[last * axis_step] = flat[i] - run;
      }
    });
  }

  static void ravel_multi_index(const Call& call) {
    const RavelAttrs& a = call.attributes<RavelAttrs>();
    RavelInputs in;
    for (int k = 0; k < call.n_in; ++k) in.ids[k] = call.in[k].as<int64_t>();
    int64_t* out = call.out[0].as<int64_t>();
    parallel_ranges(call.out[0].meta.size(), kGrain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const Raveled r = ravel_one(a, in, i);
        if (r.bad_axis >= 0)
          detail::throw_outside("ravel_multi_index", r.bad, r.bad_axis, a.shape.shape[r.bad_axis]);
        out[i] = r.flat;
      }
    });
  }
};

}  // namespace

extern constinit const KernelList flat_index = flat_index_kernels<Backend>();

}  // namespace locus::LOCUS_ISA_NAMESPACE
