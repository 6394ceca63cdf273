#include <cuda_runtime.h>

#include <locus/devices/cuda/signals.h>
#include <locus/ops/index/flat_index_kernel.h>
#include <locus/ops/kernel/launch.h>

namespace locus::cuda {
namespace {

__global__ void __launch_bounds__(kBlock)
    unravel_places(Meta m, const int64_t* flat, int64_t* out, int64_t n, int64_t step,
                   int64_t axis_step, Fault* fault) {
  for (int64_t i = first_thread(); i < n; i += all_threads()) {
    int64_t at[kMaxRank];
    if (!unravel_one(m, flat[i], at)) report(fault, {FaultKind::position, flat[i], m.size()});
    for (int axis = 0; axis < m.rank; ++axis) out[i * step + axis * axis_step] = at[axis];
  }
}

__global__ void __launch_bounds__(kBlock)
    ravel_places(RavelAttrs a, RavelInputs in, int64_t* out, int64_t n, Fault* fault) {
  for (int64_t i = first_thread(); i < n; i += all_threads()) {
    const Raveled r = ravel_one(a, in, i);
    if (r.bad_axis >= 0)
      report(fault, {FaultKind::position, r.bad, a.shape.shape[r.bad_axis], r.bad_axis});
    out[i] = r.flat;
  }
}

struct Backend {
  static void unravel_index(const Call& call) {
    const int64_t n = call.in[0].meta.size();
    const UnravelAttrs& a = call.attributes<UnravelAttrs>();
    launch(call.stream, n, unravel_places, a.shape, call.in[0].as<int64_t>(),
           call.out[0].as<int64_t>(), n, a.axes_last ? int64_t{a.shape.rank} : 1,
           a.axes_last ? int64_t{1} : n, fault(call));
  }

  static void ravel_multi_index(const Call& call) {
    const int64_t n = call.out[0].meta.size();
    RavelInputs in{};
    for (int k = 0; k < call.n_in; ++k) in.ids[k] = call.in[k].as<int64_t>();
    launch(call.stream, n, ravel_places, call.attributes<RavelAttrs>(), in,
           call.out[0].as<int64_t>(), n, fault(call));
  }
};

}  // namespace

extern constinit const KernelList flat_index = flat_index_kernels<Backend>();

}  // namespace locus::cuda
