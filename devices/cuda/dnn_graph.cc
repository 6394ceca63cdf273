#ifdef LOCUS_WITH_CUDNN
#include <locus/devices/cuda/dnn_graph.h>

#include <initializer_list>
#include <utility>

#include <locus/core/base/text.h>

namespace locus::cuda {

namespace {

bool out_of_memory(cudnnStatus_t status) {
  return status == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED ||
         status == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED;
}

}  // namespace

[[noreturn]] void failed(cudnnStatus_t status, const char* call, const char* file, int line) {
  char last[512] = "";
  cudnnGetLastErrorString(last, sizeof(last));
  const std::string text = text_of(cudnnGetErrorString(status), *last ? ": " : "", last);
  cuda::failed(out_of_memory(status), text.c_str(), call, file, line);
}

bool try_finalize(const Descriptor& d) {
  const cudnnStatus_t status = cudnnBackendFinalize(d.get());
  if (out_of_memory(status)) LOCUS_CUDA(status);
  return status == CUDNN_STATUS_SUCCESS;
}

namespace {

constexpr int64_t kAlignment = 16;
struct Unsupported {};

cudnnDataType_t data_type(DType d) {
  return d == f64    ? CUDNN_DATA_DOUBLE
         : d == f16  ? CUDNN_DATA_HALF
         : d == bf16 ? CUDNN_DATA_BFLOAT16
                     : CUDNN_DATA_FLOAT;
}

// The descriptors of a convolution; the last is the graph.
class Graph {
 public:
  Graph(const DnnConvolution& c, cudnnHandle_t handle) : c_(c), axes_(flat() ? 2 : 3) {
    const bool more = c.bias || c.relu;
    const int64_t channels = c.groups * c.out;
    const auto data = tensor(kData, c.images, c.groups * c.in, c.data, data_type(c.dtype)),
               weight = tensor(kWeight, channels, c.in, c.kernel, data_type(c.dtype));
    auto sum = result(more ? kBetween : kResult);
    convolve(data, weight, sum);
    const auto then = [&](cudnnPointwiseMode_t mode, bool last, cudnnBackendDescriptor_t with) {
      const auto to = result(last ? kResult : kBetween + static_cast<int64_t>(parts.size()));
      pointwise(mode, sum, with, to);
      sum = to;
    };
    if (c.bias) then(CUDNN_POINTWISE_ADD, !c.relu, bias(channels));
    if (c.relu) then(CUDNN_POINTWISE_RELU_FWD, true, nullptr);
    const Descriptor& graph = parts.emplace_back(make(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR));
    set(graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, handle);
    LOCUS_CUDA(cudnnBackendSetAttribute(
        graph.get(), CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
        static_cast<int64_t>(operations_.size()), operations_.data()));
    complete(graph);
  }

  std::vector<Descriptor> parts;

 private:
  // Convolutions of one and two axes use two.
  bool flat() const {
    return c_.data[0] == 1 && c_.kernel[0] == 1 && c_.result[0] == 1 && c_.padding[0] == 0;
  }
  cudnnDataType_t compute() const { return c_.dtype == f64 ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT; }
  const int64_t* spatial(const int64_t (&n)[3]) const { return n + 3 - axes_; }

  static void complete(const Descriptor& d) {
    const cudnnStatus_t status = cudnnBackendFinalize(d.get());
    if (CUDNN_STATUS_CATEGORY(status) == CUDNN_STATUS_NOT_SUPPORTED) throw Unsupported();
    LOCUS_CUDA(status);
  }

  cudnnBackendDescriptor_t tensor(int64_t id, int64_t n, int64_t channels, const int64_t (&at)[3],
                                  cudnnDataType_t type) {
    int64_t dims[5] = {n, channels}, strides[5];
    std::copy_n(spatial(at), axes_, dims + 2);
    int64_t size = c_.channels_last ? channels : 1;
    for (int i = axes_ + 1; i > 1; --i) {
      strides[i] = size;
      size *= dims[i];
    }
    strides[1] = c_.channels_last ? 1 : size;
    strides[0] = c_.channels_last ? size : size * channels;
    return finish(id, dims, strides, type);
  }
  cudnnBackendDescriptor_t result(int64_t id) {
    return tensor(id, c_.images, c_.groups * c_.out, c_.result,
                  id >= kBetween ? compute() : data_type(c_.dtype));
  }
  cudnnBackendDescriptor_t bias(int64_t channels) {
    const int64_t dims[5] = {1, channels, 1, 1, 1},
                  strides[5] = {channels, 1, channels, channels, channels};
    return finish(kBias, dims, strides, data_type(c_.dtype));
  }
  cudnnBackendDescriptor_t finish(int64_t id, const int64_t* dims, const int64_t* strides,
                                  cudnnDataType_t type) {
    const Descriptor& t = parts.emplace_back(make(CUDNN_BACKEND_TENSOR_DESCRIPTOR));
    set(t, CUDNN_ATTR_TENSOR_UNIQUE_ID, id);
    set(t, CUDNN_ATTR_TENSOR_DATA_TYPE, type);
    set(t, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, kAlignment);
    set(t, CUDNN_ATTR_TENSOR_DIMENSIONS, dims, axes_ + 2);
    set(t, CUDNN_ATTR_TENSOR_STRIDES, strides, axes_ + 2);
    set(t, CUDNN_ATTR_TENSOR_IS_VIRTUAL, id >= kBetween);
    complete(t);
    return t.get();
  }

  void operation(cudnnBackendDescriptorType_t type,
                 std::initializer_list<std::pair<Name, cudnnBackendDescriptor_t> > of,
                 std::initializer_list<std::pair<Name, double> > numbers = {}) {
    const Descriptor& op = parts.emplace_back(make(type));
    for (const auto& [name, d] : of)
      if (d)
        LOCUS_CUDA(cudnnBackendSetAttribute(op.get(), name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &d));
    for (const auto& [name, v] : numbers) {
      if (c_.dtype == f64)
        set(op, name, v);
      else
        set(op, name, static_cast<float>(v));
    }
    complete(op);
    operations_.push_back(op.get());
  }

  void convolve(cudnnBackendDescriptor_t x, cudnnBackendDescriptor_t w,
                cudnnBackendDescriptor_t y) {
    const Descriptor& how = parts.emplace_back(make(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR));
    set(how, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, int64_t{axes_});
    set(how, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, compute());
    set(how, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_CROSS_CORRELATION);
    set(how, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, spatial(c_.stride), axes_);
    set(how, CUDNN_ATTR_CONVOLUTION_DILATIONS, spatial(c_.dilation), axes_);
    set(how, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, spatial(c_.padding), axes_);
    set(how, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, spatial(c_.padding), axes_);
    complete(how);
    const cudnnBackendDescriptor_t h = how.get();
    switch (c_.kind) {
      case DnnKind::forward:
        return operation(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
                         {{CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, h},
                          {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, x},
                          {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, w},
                          {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, y}},
                         {{CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, 1},
                          {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, 0}});
      case DnnKind::data_gradient:
        return operation(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
                         {{CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, h},
                          {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, x},
                          {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, w},
                          {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, y}},
                         {{CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, 1},
                          {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA, 0}});
      case DnnKind::weight_gradient:
        return operation(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
                         {{CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, h},
                          {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, x},
                          {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, w},
                          {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY, y}},
                         {{CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA, 1},
                          {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA, 0}});
    }
  }

  void pointwise(cudnnPointwiseMode_t mode, cudnnBackendDescriptor_t x,
                 cudnnBackendDescriptor_t with, cudnnBackendDescriptor_t to) {
    const Descriptor& how = parts.emplace_back(make(CUDNN_BACKEND_POINTWISE_DESCRIPTOR));
    set(how, CUDNN_ATTR_POINTWISE_MODE, mode);
    set(how, CUDNN_ATTR_POINTWISE_MATH_PREC, compute());
    if (mode == CUDNN_POINTWISE_RELU_FWD)
      set(how, CUDNN_ATTR_POINTWISE_NAN_PROPAGATION, CUDNN_PROPAGATE_NAN);
    complete(how);
    operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR,
              {{CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how.get()},
               {CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x},
               {CUDNN_ATTR_OPERATION_POINTWISE_BDESC, with},
               {CUDNN_ATTR_OPERATION_POINTWISE_YDESC, to}});
  }

  const DnnConvolution& c_;
  const int axes_;
  std::vector<cudnnBackendDescriptor_t> operations_;
};

}  // namespace

std::vector<Descriptor> make_graph(const DnnConvolution& c, cudnnHandle_t handle) try {
  return std::move(Graph(c, handle).parts);
} catch (const Unsupported&) {
  return {};
}

std::vector<Descriptor> make_config(const Descriptor& like, const std::vector<Descriptor>& graph) {
  const auto old = get(like, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_BACKEND_ENGINE_DESCRIPTOR, 1);
  if (graph.empty() || old.empty()) return {};
  std::vector<Descriptor> parts;
  parts.push_back(make(CUDNN_BACKEND_ENGINE_DESCRIPTOR));
  set(parts[0], CUDNN_ATTR_ENGINE_OPERATION_GRAPH, graph.back());
  set(parts[0], CUDNN_ATTR_ENGINE_GLOBAL_INDEX,
      get<int64_t>(old[0], CUDNN_ATTR_ENGINE_GLOBAL_INDEX));
  if (!try_finalize(parts[0])) return {};
  std::vector<cudnnBackendDescriptor_t> knobs;
  for (const Descriptor& knob : knobs_of(like)) {
    const Descriptor& same = parts.emplace_back(make(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR));
    set(same, CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE,
        get<cudnnBackendKnobType_t>(knob, CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE));
    set(same, CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE,
        get<int64_t>(knob, CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE));
    if (!try_finalize(same)) return {};
    knobs.push_back(same.get());
  }
  const Descriptor& config = parts.emplace_back(make(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR));
  set(config, CUDNN_ATTR_ENGINECFG_ENGINE, parts[0]);
  if (!knobs.empty())
    LOCUS_CUDA(cudnnBackendSetAttribute(config.get(), CUDNN_ATTR_ENGINECFG_KNOB_CHOICES,
                                        CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                        static_cast<int64_t>(knobs.size()), knobs.data()));
  if (!try_finalize(config)) return {};
  return parts;
}

Descriptor make_plan(const Descriptor& config, cudnnHandle_t handle) {
  constexpr size_t kMostWorkspace = size_t{256} << 20;
  Descriptor plan = make(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  set(plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, handle);
  set(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
  if (!try_finalize(plan) || workspace_of(plan) > kMostWorkspace) return nullptr;
  return plan;
}

size_t workspace_of(const Descriptor& plan) {
  return static_cast<size_t>(get<int64_t>(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE));
}

void execute(const Descriptor& plan, cudnnHandle_t handle, const DnnOperands& operands,
             const void* workspace) {
  const int64_t ids[] = {kData, kWeight, kResult, kBias};
  const void* const pointers[] = {operands.data, operands.weight, operands.result, operands.bias};
  const int64_t n = operands.bias ? 4 : 3;
  const Descriptor pack = make(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  set(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, ids, n);
  set(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, pointers, n);
  set(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, workspace);
  finalize(pack);
  LOCUS_CUDA(cudnnBackendExecute(handle, plan.get(), pack.get()));
}

}  // namespace locus::cuda
#endif
