#include <cuda_runtime.h>

#include <locus/ops/copy/copy_gpu.h>
#include <locus/ops/create/create_kernel.h>

namespace locus::cuda {
namespace {

// 16 bytes a thread, then the bytes that are left, which repeat the same pattern.
__global__ void __launch_bounds__(kBlock) fill_flat(Word16* out, Word16 pattern, int64_t bytes) {
  const int64_t packs = bytes / 16, first = first_thread(), step = all_threads();
  for (int64_t i = first; i < packs; i += step) out[i] = pattern;
  const int64_t at = packs * 16 + first;
  if (at < bytes)
    reinterpret_cast<uint8_t*>(out)[at] =
        static_cast<uint8_t>(pattern.a >> (8 * static_cast<int>(at % 8)));
}

template <class T, class I>
__global__ void __launch_bounds__(kBlock) fill_strided(Walk w, T* out, T value) {
  for (int64_t i = first_thread(); i < w.size; i += all_threads()) {
    int64_t unused = 0, at = 0;
    offsets<I>(w, i, unused, at);
    out[at] = value;
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
  static void fill(const Call& call) {
    const Scalar& s = call.attributes<FillAttrs>().value;
    uint64_t bits = 0;
    dispatch(call.out[0].meta.dtype, [&](auto type) {
      using T = typename decltype(type)::type;
      const T v = element<T>(s.kind(), s.integer(), s.floating());
      __builtin_memcpy(&bits, &v, sizeof v);
    });
    fill_view(call.out[0], bits, call.stream);
  }

  template <class T>
  static void arange(const Call& call) {
    const int64_t n = call.out[0].meta.size();
    arange_flat<<<blocks_for(call.stream, n), kBlock, 0, stream(call)>>>(
        call.attributes<ArangeAttrs>(), call.out[0].as<T>(), n);
  }
};

}  // namespace

void fill_view(const View& out, uint64_t bits, StreamView s) {
  const Walk w = walk_of(out, out);
  if (w.size == 0) return;
  const int bytes = size_of(out.meta.dtype);
  if (w.contiguous() && aligned16(out.data)) {
    uint64_t pattern = bits;
    for (int filled = bytes; filled < 8; filled *= 2) pattern |= pattern << (8 * filled);
    const int64_t total = w.size * bytes;
    fill_flat<<<blocks_for(s, total / 16 + 16), kBlock, 0, native(s)>>>(
        static_cast<Word16*>(out.data), Word16{pattern, pattern}, total);
    return;
  }
  const auto run = [&](auto value) {
    using T = decltype(value);
    const unsigned blocks = blocks_for(s, w.size);
    if (narrow(w.size))
      fill_strided<T, uint32_t>
          <<<blocks, kBlock, 0, native(s)>>>(w, static_cast<T*>(out.data), value);
    else
      fill_strided<T, uint64_t>
          <<<blocks, kBlock, 0, native(s)>>>(w, static_cast<T*>(out.data), value);
  };
  switch (bytes) {
    case 1:
      return run(static_cast<uint8_t>(bits));
    case 2:
      return run(static_cast<uint16_t>(bits));
    case 4:
      return run(static_cast<uint32_t>(bits));
    default:
      return run(bits);
  }
}

void zero_view(const View& out, StreamView s) { fill_view(out, 0, s); }

extern constinit const KernelList create = create_kernels<Backend>();

}  // namespace locus::cuda
