// Descriptors of cuDNN's graph API, and the graph of a convolution. Internal to
// devices/cuda/dnn*.cc.
#pragma once

#include <cudnn_graph.h>

#include <algorithm>
#include <memory>
#include <type_traits>
#include <vector>

#include <locus/devices/cuda/check.h>
#include <locus/devices/cuda/dnn.h>

namespace locus::cuda {

[[noreturn]] void failed(cudnnStatus_t status, const char* call, const char* file, int line);

// A descriptor of cuDNN's graph API: filled, finalized, then only read.
struct Destroy {
  void operator()(cudnnBackendDescriptor_t d) const {
    static_cast<void>(cudnnBackendDestroyDescriptor(d));
  }
};
using Descriptor = std::unique_ptr<void, Destroy>;

inline Descriptor make(cudnnBackendDescriptorType_t type) {
  cudnnBackendDescriptor_t d = nullptr;
  LOCUS_CUDA(cudnnBackendCreateDescriptor(type, &d));
  return Descriptor(d);
}
inline void finalize(const Descriptor& d) { LOCUS_CUDA(cudnnBackendFinalize(d.get())); }
// False if cuDNN rejects the descriptor. Throws OutOfMemory.
bool try_finalize(const Descriptor& d);

template <class T>
constexpr cudnnBackendAttributeType_t kType =
    std::is_same_v<T, int64_t>                  ? CUDNN_TYPE_INT64
    : std::is_same_v<T, bool>                   ? CUDNN_TYPE_BOOLEAN
    : std::is_same_v<T, float>                  ? CUDNN_TYPE_FLOAT
    : std::is_same_v<T, double>                 ? CUDNN_TYPE_DOUBLE
    : std::is_same_v<T, const void*>            ? CUDNN_TYPE_VOID_PTR
    : std::is_same_v<T, cudnnHandle_t>          ? CUDNN_TYPE_HANDLE
    : std::is_same_v<T, cudnnDataType_t>        ? CUDNN_TYPE_DATA_TYPE
    : std::is_same_v<T, cudnnConvolutionMode_t> ? CUDNN_TYPE_CONVOLUTION_MODE
    : std::is_same_v<T, cudnnPointwiseMode_t>   ? CUDNN_TYPE_POINTWISE_MODE
    : std::is_same_v<T, cudnnNanPropagation_t>  ? CUDNN_TYPE_NAN_PROPOGATION
    : std::is_same_v<T, cudnnBackendHeurMode_t> ? CUDNN_TYPE_HEUR_MODE
    : std::is_same_v<T, cudnnBackendKnobType_t> ? CUDNN_TYPE_KNOB_TYPE
                                                : CUDNN_TYPE_NUMERICAL_NOTE;

using Name = cudnnBackendAttributeName_t;
template <class T>
void set(const Descriptor& d, Name name, const T* v, int64_t n) {
  LOCUS_CUDA(cudnnBackendSetAttribute(d.get(), name, kType<T>, n, v));
}
template <class T>
void set(const Descriptor& d, Name name, const T& v) {
  set(d, name, &v, 1);
}
inline void set(const Descriptor& d, Name name, const Descriptor& v) {
  const cudnnBackendDescriptor_t raw = v.get();
  LOCUS_CUDA(cudnnBackendSetAttribute(d.get(), name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &raw));
}

// Reads up to n values; returns how many.
template <class T>
int64_t get(const Descriptor& d, Name name, T* v, int64_t n) {
  int64_t there = 0;
  LOCUS_CUDA(cudnnBackendGetAttribute(d.get(), name, kType<T>, n, &there, v));
  return std::min(n, there);
}
template <class T>
T get(const Descriptor& d, Name name) {
  T v{};
  get(d, name, &v, 1);
  return v;
}
// If `most` < 0, all descriptors.
inline std::vector<Descriptor> get(const Descriptor& d, Name name,
                                   cudnnBackendDescriptorType_t type, int64_t most) {
  int64_t n = most;
  if (most < 0)
    LOCUS_CUDA(
        cudnnBackendGetAttribute(d.get(), name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &n, nullptr));
  std::vector<Descriptor> all;
  std::vector<cudnnBackendDescriptor_t> raw;
  for (int64_t i = 0; i < n; ++i) raw.push_back(all.emplace_back(make(type)).get());
  int64_t there = 0;
  if (n > 0)
    LOCUS_CUDA(cudnnBackendGetAttribute(d.get(), name, CUDNN_TYPE_BACKEND_DESCRIPTOR, n, &there,
                                        raw.data()));
  all.resize(static_cast<size_t>(std::min(n, there)));
  return all;
}

inline std::vector<Descriptor> knobs_of(const Descriptor& config) {
  return get(config, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR,
             CUDNN_KNOB_TYPE_COUNTS);
}

// Ids of tensors; kBetween and above are virtual.
enum Id : int64_t { kData = 1, kWeight, kResult, kBias, kBetween };

// The graph's descriptors; the graph is the last. Empty if cuDNN does not support the convolution.
std::vector<Descriptor> make_graph(const DnnConvolution& c, cudnnHandle_t handle);

// Applies the engine and settings of another graph's configuration to `graph`. Returns the
// descriptors; the configuration is the last. Empty if the engine rejects the graph.
std::vector<Descriptor> make_config(const Descriptor& like, const std::vector<Descriptor>& graph);

// Null if the engine rejects the configuration or needs over 256 MiB of workspace.
Descriptor make_plan(const Descriptor& config, cudnnHandle_t handle);
size_t workspace_of(const Descriptor& plan);
void execute(const Descriptor& plan, cudnnHandle_t handle, const DnnOperands& operands,
             const void* workspace);

// Whether the configuration's engine passes infinities and NaNs on when it computes c.
bool keeps_infinities(const DnnConvolution& c, const Descriptor& config, cudnnHandle_t handle,
                      Context where);

}  // namespace locus::cuda
