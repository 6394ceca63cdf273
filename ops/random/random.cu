#include <locus/devices/cuda.h>
#include <locus/ops/random/random_kernel.h>

namespace locus::cuda {
namespace {

constexpr int kThreads = 256;

// A thread turns one block into kCount consecutive elements. Grid-stride: any n fits.
template <class T, template <class> class Distribution>
__global__ void __launch_bounds__(kThreads) draw_blocks(RandomAttrs a, T* out, int64_t n) {
  using D = Distribution<T>;
  const int64_t blocks = (n + D::kCount - 1) / D::kCount;
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = blockIdx.x * static_cast<int64_t>(kThreads) + threadIdx.x; i < blocks;
       i += step) {
    struct alignas(sizeof(T) * D::kCount) Pack {
      T value[D::kCount];
    } pack;
    D::draw(a, philox(a.key, static_cast<uint64_t>(i)), pack.value);
    const int64_t at = i * D::kCount;
    if (at + D::kCount <= n) {
      *reinterpret_cast<Pack*>(out + at) = pack;
    } else {
      for (int k = 0; at + k < n; ++k) out[at + k] = pack.value[k];
    }
  }
}

struct Backend {
  template <class T, template <class> class Distribution>
  static void draw(const Call& call) {
    const int64_t n = call.out[0].meta.size();
    const int64_t blocks = (n + Distribution<T>::kCount - 1) / Distribution<T>::kCount;
    const int64_t most = 16LL * multiprocessors(call.stream);
    const int64_t grid = (blocks + kThreads - 1) / kThreads;
    draw_blocks<T, Distribution>
        <<<static_cast<unsigned>(grid < most ? grid : most), kThreads, 0, stream(call)>>>(
            call.attributes<RandomAttrs>(), call.out[0].as<T>(), n);
  }
};

}  // namespace

extern constinit const KernelList random = random_kernels<Backend>();

}  // namespace locus::cuda
