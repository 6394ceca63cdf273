// cuDNN's engines do not report which of them lose infinities. In cuDNN 9.14 on an H200, engine 32
// with a bias and engine 47 in 16 bits gave 0 for -infinity. Only engine 0 promises to pass NaNs
// on. So each engine is tested, with the present version and device.
#ifdef LOCUS_WITH_CUDNN
#include <algorithm>
#include <cmath>
#include <limits>

#include <locus/core/device.h>
#include <locus/core/half.h>
#include <locus/devices/cuda/dnn_graph.h>
#include <locus/devices/cuda/driver.h>

namespace locus::cuda {
namespace {

// One image and few results, with all that selects an engine's kernel: channels, kernel size,
// layout.
DnnConvolution small(DnnConvolution c) {
  constexpr int64_t kMost = 16;
  c.images = 1;
  for (int a = 0; a < 3; ++a) {
    const int64_t less = std::max<int64_t>(c.result[a] - kMost, 0);
    if (c.data[a] <= less * c.stride[a]) continue;
    c.result[a] -= less;
    c.data[a] -= less * c.stride[a];
  }
  return c;
}

// A stream and memory on it.
class ProbeStream : NonCopyable {
 public:
  explicit ProbeStream(Context c) : device_(device(c)), stream_(device_.open_stream()) {}
  ~ProbeStream() {
    for (const auto& [data, bytes] : taken_) device_.allocator().deallocate(data, bytes, stream_);
    device_.close_stream(stream_);
  }
  void* take(size_t bytes) {
    if (bytes == 0) return nullptr;
    taken_.reserve(taken_.size() + 1);
    return taken_.emplace_back(device_.allocator().allocate(bytes, stream_), bytes).first;
  }
  cudaStream_t stream() const { return static_cast<cudaStream_t>(stream_.native); }

 private:
  Device& device_;
  const StreamView stream_;
  std::vector<std::pair<void*, size_t>> taken_;
};

// n numbers on the device.
template <class S>
struct Array {
  ProbeStream& probe;
  const size_t n;
  void* const data = probe.take(n * sizeof(S));

  void fill(double v) const {
    const std::vector<S> all(n, S(static_cast<float>(v)));
    LOCUS_CUDA(copy_up(data, all.data(), n * sizeof(S), probe.stream()));
    LOCUS_CUDA(synchronize(probe.stream()));
  }
  std::vector<float> values() const {
    std::vector<S> all(n);
    LOCUS_CUDA(copy_down(all.data(), data, n * sizeof(S), probe.stream()));
    LOCUS_CUDA(synchronize(probe.stream()));
    std::vector<float> found(n);
    std::ranges::transform(all, found.begin(), [](S v) { return static_cast<float>(v); });
    return found;
  }
};

// Whether non-finite inputs give non-finite results. One operand is all 1 or all -1, so products do
// not cancel. The other is first 1, then not finite. Where 1 gives 0, no products are summed.
template <class S>
bool keeps(const DnnConvolution& c, const Descriptor& plan, cudnnHandle_t handle, Context where) {
  ProbeStream probe(where);
  const auto array = [&](int64_t first, int64_t channels, const int64_t(&n)[3]) {
    return Array<S>{probe, static_cast<size_t>(first * channels * n[0] * n[1] * n[2])};
  };
  const Array<S> data = array(c.images, c.groups * c.in, c.data),
                 weight = array(c.groups * c.out, c.in, c.kernel),
                 result = array(c.images, c.groups * c.out, c.result);
  const Array<S> bias{probe, c.bias ? static_cast<size_t>(c.groups * c.out) : 0};
  const void* const workspace = probe.take(workspace_of(plan));
  const Array<S>&ones = c.kind == DnnKind::weight_gradient ? data : weight,
        &other = c.kind == DnnKind::forward ? data : result,
        &to = c.kind == DnnKind::forward         ? result
              : c.kind == DnnKind::data_gradient ? data
                                                 : weight;
  LOCUS_CUDA(cudnnSetStream(handle, probe.stream()));
  ones.fill(c.relu ? 1 : -1);
  if (c.bias) bias.fill(0);
  const auto with = [&](double v) {
    other.fill(v);
    execute(plan, handle, {data.data, weight.data, result.data, bias.data}, workspace);
    return to.values();
  };
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const std::vector<float> finite = with(1);
  for (const double v : {kInfinity, -kInfinity, std::numeric_limits<double>::quiet_NaN()}) {
    if (c.relu && v == -kInfinity) continue;
    const std::vector<float> got = with(v);
    for (size_t i = 0; i < got.size(); ++i)
      if (finite[i] != 0 ? std::isfinite(got[i]) : std::isinf(got[i])) return false;
  }
  return true;
}

}  // namespace

bool keeps_infinities(const DnnConvolution& c, const Descriptor& config, cudnnHandle_t handle,
                      Context where) {
  // If an engine splits a sum into many parts, it may reject the small convolution.
  for (const DnnConvolution& some : {small(c), c}) {
    const std::vector<Descriptor> graph = make_graph(some, handle);
    const std::vector<Descriptor> same = make_config(config, graph);
    const Descriptor plan = same.empty() ? nullptr : make_plan(same.back(), handle);
    if (!plan) continue;
    switch (c.dtype) {
      case f64:
        return keeps<double>(some, plan, handle, where);
      case f16:
        return keeps<Half>(some, plan, handle, where);
      case bf16:
        return keeps<BFloat16>(some, plan, handle, where);
      default:
        return keeps<float>(some, plan, handle, where);
    }
  }
  return false;
}

}  // namespace locus::cuda
#endif
