#include <locus/ops/kernel/math.h>
#include <locus/ops/kernel/rows_cuda.h>
#include <locus/ops/softmax/softmax_kernel.h>

namespace locus::cuda {
namespace {

using Mode = SoftmaxMode;

struct Labels {
  View ids;
  Fault* fault;
  void* losses;
};

template <Mode kMode, class T>
struct SoftmaxRow {
  using A = Compute<T>;
  static constexpr bool kPair = kMode == Mode::softmax_grad || kMode == Mode::log_softmax_grad;

  A scale;
  Labels labels;
  const T* dloss;

  // Elements behind the row's end change no result.
  template <class V>
  __device__ static V outside() {
    return kPair ? V(0) : -static_cast<V>(INFINITY);
  }
  __device__ __forceinline__ void operator()(auto& row) const {
    if constexpr (kPair)
      gradient(row);
    else
      forward(row);
  }

 private:
  __device__ __forceinline__ void gradient(auto& row) const {
    A total = 0;
    row.each([&](int64_t, A v, A d) { total += kMode == Mode::softmax_grad ? v * d : d; });
    total = row.all(total, [](A a, A b) { return a + b; });
    row.write([&](int64_t, A v, A d) {
      return (kMode == Mode::softmax_grad ? v * (d - total) : d - m::exp(v) * total) * scale;
    });
  }

  __device__ __forceinline__ void forward(auto& row) const {
    A top = -static_cast<A>(INFINITY);
    // Ignores NaN, which the total keeps.
    const auto larger = [](A a, A b) { return b > a ? b : a; };
    row.each([&](int64_t, A v, A) { top = larger(top, v); });
    top = row.all(top, larger);
    constexpr bool kKeeps = std::remove_cvref_t<decltype(row)>::kCached &&
                            kMode != Mode::log_softmax && kMode != Mode::loss;
    A total = 0;
    row.each([&](int64_t, auto&& v, A) {
      const A e = m::exp((v - top) * scale);
      if constexpr (kKeeps) v = e;
      total += e;
    });
    total = row.all(total, [](A a, A b) { return a + b; });
    const A factor = A(1) / total;
    const auto probability = [&](A v) { return (kKeeps ? v : m::exp((v - top) * scale)) * factor; };

    if constexpr (takes_labels(kMode)) {
      losses(row, top, total, probability);
    } else if constexpr (kMode == Mode::softmax) {
      row.write([&](int64_t, A v, A) { return probability(v); });
    } else {
      const A log_total = m::log(total);
      row.write([&](int64_t, A v, A) { return (v - top) * scale - log_total; });
    }
  }

  __device__ __forceinline__ void losses(auto& row, A top, A total, const auto& probability) const {
    if (!row.active()) return;
    const int64_t r = row.index(), n = row.length(), label = label_at(labels.ids, r);
    const bool valid = label >= 0 && label < n;
    if (!valid && row.first_lane())
      report(labels.fault, {FaultKind::label, label, n, r, is_exact(label, labels.ids.meta.dtype)});
    if (kMode != Mode::loss_grad && row.first_lane()) {
      // NaN if the label is invalid.
      const A loss = m::log(total) - ((valid ? row.at(label) : top) - top);
      static_cast<T*>(labels.losses)[r] = convert<T>(valid ? loss : (loss - loss) / (loss - loss));
    }
    if constexpr (kMode != Mode::loss) {
      const A head = kMode == Mode::loss_grad ? convert<A>(dloss[r]) : A(1);
      row.write([&](int64_t c, A v, A) {
        const A p = probability(v);
        return (c == label ? p - A(1) : p) * head;
      });
    }
  }
};

struct Backend {
  template <Mode kMode, DType D>
  static void along_axis(const Call& call) {
    using T = CppTypeOf<D>;
    using F = SoftmaxRow<kMode, T>;
    const SoftmaxAttrs& attrs = call.attributes<SoftmaxAttrs>();
    const Along s(call.in[0].meta, attrs.axis);
    RowMemory<T, F::kPair ? 2 : 1> rows{{}, call.out[0].as<T>(), s.rows(), s.n, s.inner};
    for (int i = 0; i < call.n_in; ++i) rows.in[i] = call.in[i].as<T>();
    launch_rows(call, rows, F{static_cast<typename F::A>(1 / attrs.temperature), {}, nullptr});
  }

  template <Mode kMode, DType D>
  static void cross_entropy(const Call& call) {
    using T = CppTypeOf<D>;
    const Meta& m = call.in[0].meta;
    const RowMemory<T, 1> rows{{call.in[0].as<T>()},
                               call.out[call.n_out - 1].as<T>(),
                               call.in[1].meta.size(),
                               m.shape[m.rank - 1],
                               1};
    const Labels labels{call.in[1], fault(call), call.out[0].data};
    const T* const dloss = call.n_in == 3 ? call.in[2].as<const T>() : nullptr;
    launch_rows(call, rows, SoftmaxRow<kMode, T>{1, labels, dloss});
  }
};

}  // namespace

extern constinit const KernelList softmax = softmax_kernels<Backend>();

}  // namespace locus::cuda
