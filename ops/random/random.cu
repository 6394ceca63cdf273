#include <curand_philox4x32_x.h>

#include <locus/ops/kernel/launch.h>
#include <locus/ops/random/random_kernel.h>

namespace locus::cuda {
namespace {

// cuRAND's generator: the words of philox() on the host.
__device__ PhiloxBlock words(const PhiloxKey& key, uint64_t block) {
  const uint64_t at = key.offset + block;
  const uint4 w = curand_Philox4x32_10(
      make_uint4(static_cast<unsigned>(at), static_cast<unsigned>(at >> 32), 0, 0),
      make_uint2(static_cast<unsigned>(key.seed), static_cast<unsigned>(key.seed >> 32)));
  return {{w.x, w.y, w.z, w.w}};
}

// A thread turns one block into kCount consecutive elements. Grid-stride: any n fits.
template <class T, template <class> class Distribution>
__global__ void __launch_bounds__(kBlock)
    draw_blocks(const __grid_constant__ RandomAttrs a, T* out, int64_t n) {
  using D = Distribution<T>;
  const PhiloxKey key = a.key.now();
  const int64_t blocks = (n + D::kCount - 1) / D::kCount;
  for (int64_t i = first_thread(); i < blocks; i += all_threads()) {
    Pack<T, D::kCount> pack;
    D::draw(a, words(key, static_cast<uint64_t>(i)), pack.v);
    const int64_t at = i * D::kCount;
    if (at + D::kCount <= n && aligned(out, sizeof pack)) {
      *reinterpret_cast<Pack<T, D::kCount>*>(out + at) = pack;
    } else {
      for (int k = 0; at + k < n; ++k) out[at + k] = pack.v[k];
    }
  }
}

struct Backend {
  template <class T, template <class> class Distribution>
  static void draw(const Call& call) {
    const int64_t n = call.out[0].meta.size(), count = Distribution<T>::kCount;
    launch(call.stream, (n + count - 1) / count, draw_blocks<T, Distribution>,
           call.attributes<RandomAttrs>(), call.out[0].as<T>(), n);
  }
};

}  // namespace

extern constinit const KernelList random = random_kernels<Backend>();

}  // namespace locus::cuda
