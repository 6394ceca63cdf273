#include <bit>

#include <locus/devices/cuda/signals.h>
#include <locus/ops/kernel/launch.h>
#include <locus/ops/random/random_kernel.h>

namespace locus::cuda {
namespace {

// A thread turns one block into kCount consecutive elements. Grid-stride: any n fits. I: uint32_t
// below 2^31 blocks.
template <class I, class T, template <class> class Distribution>
__global__ void __launch_bounds__(kBlock)
    draw_blocks(const __grid_constant__ RandomAttrs a, T* out, int64_t n) {
  using D = Distribution<T>;
  const PhiloxKey key = a.key.now();
  const D distribution(a);
  const bool whole = aligned(out, sizeof(Pack<T, D::kCount>));
  const I full = whole ? static_cast<I>(n / D::kCount) : 0;
  const I blocks = static_cast<I>((n + D::kCount - 1) / D::kCount);
  for (I i = static_cast<I>(first_thread()); i < blocks; i += static_cast<I>(all_threads())) {
    Pack<T, D::kCount> pack;
    distribution.draw(philox(key, i), pack.v);
    if (i < full) {
      reinterpret_cast<Pack<T, D::kCount>*>(out)[i] = pack;
    } else {
      const int64_t at = static_cast<int64_t>(i) * D::kCount;
      for (int k = 0; k < D::kCount; ++k)
        if (at + k < n) out[at + k] = pack.v[k];
    }
  }
}

// The CPU kernel's error.
template <class D>
void throw_parameter(const Finding& f) {
  detail::throw_bad_parameter(D::kText, static_cast<int>(f.limit), f.at,
                              std::bit_cast<double>(static_cast<int64_t>(f.value)));
}

template <class D>
__global__ void __launch_bounds__(kBlock)
    check_parameters(const double* v, int64_t n, int input, Fault* fault) {
  for (int64_t i = first_thread(); i < n; i += all_threads())
    if (!D::valid(v[i]))
      report(fault, {FaultKind::parameter, __double_as_longlong(v[i]), input, i});
}

// A thread draws one element at a time.
template <class From>
__global__ void __launch_bounds__(kBlock)
    draw_by_element(const __grid_constant__ Live<PhiloxKey> live, const __grid_constant__ From from,
                    DType d, void* out, int64_t n) {
  const PhiloxKey key = live.now();
  auto distribution = from.build(0);
  for (int64_t i = first_thread(); i < n; i += all_threads()) {
    if (from.each()) distribution = from.build(i);
    const ElementBlocks blocks{key, static_cast<uint64_t>(i)};
    PhiloxBlock first[From::D::kFirst];
    double normal[From::D::kFirst];
    for (int part = 0; part < From::D::kFirst; ++part) {
      first[part] = blocks(0, static_cast<uint32_t>(2 * part));
      if constexpr (From::D::kNormals) normal[part] = detail::normal_of(first[part]);
    }
    store(d, out, i, distribution.draw(blocks, first, normal));
  }
}

__global__ void __launch_bounds__(kBlock)
    draw_rows(const __grid_constant__ RandomAttrs a, const double* chances, int64_t count, DType d,
              void* out, int64_t rows) {
  const PhiloxKey key = a.key.now();
  for (int64_t i = first_thread(); i < rows; i += all_threads())
    draw_multinomial(a.low, chances, count, {key, static_cast<uint64_t>(i)},
                     [&](int64_t k, double v) { store(d, out, i * count + k, v); });
}

template <class T>
__global__ void __launch_bounds__(kBlock)
    draw_places(const __grid_constant__ RandomAttrs a, const double* sums, int64_t count, T* out,
                int64_t n) {
  const PhiloxKey key = a.key.now();
  for (int64_t i = first_thread(); 2 * i < n; i += all_threads()) {
    const PhiloxBlock b = philox(key, static_cast<uint64_t>(i));
    for (int k = 0; k < 2; ++k)
      if (2 * i + k < n)
        out[2 * i + k] =
            static_cast<T>(place_of(detail::fraction(detail::pair(b, k)), sums, count));
  }
}

struct Backend {
  template <class T, template <class> class Distribution>
  static void draw(const Call& call) {
    const int64_t n = call.out[0].meta.size(), count = Distribution<T>::kCount;
    const auto kernel =
        narrow(n) ? draw_blocks<uint32_t, T, Distribution> : draw_blocks<uint64_t, T, Distribution>;
    launch(call.stream, (n + count - 1) / count, kernel, call.attributes<RandomAttrs>(),
           call.out[0].as<T>(), n);
  }

  template <class D>
  static void check(const Call& call, int input) {
    const int64_t n = call.in[input].meta.size();
    launch(call.stream, n, check_parameters<D>, call.in[input].as<double>(), n, input,
           fault(call, throw_parameter<D>));
  }

  template <class From>
  static void draw_each(const Call& call, const Live<PhiloxKey>& live, const From& from) {
    const int64_t n = call.out[0].meta.size();
    if (n == 0) return;
    launch(call.stream, n, draw_by_element<From>, live, from, call.out[0].meta.dtype,
           call.out[0].data, n);
  }

  static void multinomial(const Call& call) {
    const View& out = call.out[0];
    const int64_t count = call.in[0].meta.size(), rows = out.meta.size() / count;
    launch(call.stream, rows, draw_rows, call.attributes<RandomAttrs>(), call.in[0].as<double>(),
           count, out.meta.dtype, out.data, rows);
  }

  template <class T>
  static void choice(const Call& call) {
    const int64_t n = call.out[0].meta.size();
    launch(call.stream, (n + 1) / 2, draw_places<T>, call.attributes<RandomAttrs>(),
           call.in[0].as<double>(), call.in[0].meta.size(), call.out[0].as<T>(), n);
  }
};

}  // namespace

extern constinit const KernelList random = random_kernels<Backend>();

}  // namespace locus::cuda
