#include <cuda_runtime.h>

#include <locus/ops/create/create_kernel.h>
#include <locus/ops/kernel/launch.h>

namespace locus::cuda {
namespace {

// 16 bytes per thread, then the remaining bytes, with the same pattern.
__global__ void __launch_bounds__(kBlock) fill_flat(Word16* out, Word16 pattern, int64_t bytes) {
  const int64_t packs = bytes / 16, first = first_thread(), step = all_threads();
  for (int64_t i = first; i < packs; i += step) out[i] = pattern;
  const int64_t at = packs * 16 + first;
  if (at < bytes)
    reinterpret_cast<uint8_t*>(out)[at] =
        static_cast<uint8_t>(pattern.a >> (8 * static_cast<int>(at % 8)));
}

template <class T, class I>
__global__ void __launch_bounds__(kBlock) fill_strided(Walk<1> w, T* out, T value) {
  for (int64_t i = first_thread(); i < w.size; i += all_threads()) {
    int64_t at[1] = {};
    offsets<I>(w, i, at);
    out[at[0]] = value;
  }
}

template <class T>
__global__ void __launch_bounds__(kBlock) arange_flat(ArangeAttrs a, T* out, int64_t n) {
  for (int64_t i = first_thread(); i < n; i += all_threads()) {
    const double v = __dadd_rn(a.start, __dmul_rn(static_cast<double>(i), a.step));
    out[i] = convert<T>(a.has_last && i == n - 1 ? a.last : v);
  }
}

struct Backend {
  template <class T>
  static void arange(const Call& call) {
    const int64_t n = call.out[0].meta.size();
    launch(call.stream, n, arange_flat<T>, call.attributes<ArangeAttrs>(), call.out[0].as<T>(), n);
  }
};

}  // namespace

void Views::fill(const View& out, uint64_t bits, StreamView s) {
  const Walk<1> w = walk_of<1>({&out});
  if (w.size == 0) return;
  const int bytes = size_of(out.meta.dtype);
  if (w.contiguous() && aligned(out.data, 16)) {
    uint64_t pattern = bits;
    for (int filled = bytes; filled < 8; filled *= 2) pattern |= pattern << (8 * filled);
    const int64_t total = w.size * bytes;
    return launch(s, total / 16 + 16, fill_flat, out.as<Word16>(), Word16{pattern, pattern}, total);
  }
  by_size(bytes, [&](auto word) {
    using T = decltype(word);
    const auto kernel = narrow(w.size) ? fill_strided<T, uint32_t> : fill_strided<T, uint64_t>;
    launch(s, w.size, kernel, w, out.as<T>(), static_cast<T>(bits));
  });
}

extern constinit const KernelList create = create_kernels<Backend, Views>();

}  // namespace locus::cuda
