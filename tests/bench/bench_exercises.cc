// Exercises whose speed depends on the framework, against cuBLAS alone: 1000 small products whose
// norms stay on the GPU, and two large products on two GPUs.
#include <locus/core/device.h>
#include <locus/core/op.h>
#include <locus/ops/create.h>
#include <locus/ops/matmul.h>
#include <locus/ops/reduce.h>

#include "tests/bench/bench.h"

#ifdef LOCUS_WITH_CUDA
#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include <locus/devices/cuda/check.h>

namespace locus::cuda {
[[noreturn]] void failed(cublasStatus_t status, const char* call, const char* file, int line);
}
#endif

namespace locus::bench {
namespace {

struct TwoProducts {
  TwoProducts() {
    for (int i = 0; i < 2; ++i) {
      a.push_back(sample_values(gpu(i), f32, {4096, 4096}, -1, 1, 0));
      b.push_back(sample_values(gpu(i), f32, {4096, 4096}, -1, 1, 1));
    }
  }
  void on_one() const { multiply(0, 0); }
  void on_each() const { multiply(0, 1); }
  void multiply(size_t first, size_t second) const {
    const Tensor x = dot(a[first], b[first]), y = dot(a[second], b[second]);
    x.wait_to_read();
    y.wait_to_read();
  }
  Tensors a, b;
};

#ifdef LOCUS_WITH_CUDA

float* pointer(const Tensor& x) { return static_cast<float*>(x.data_ptr()); }

// cuBLAS on a separate stream.
class RawBlas {
 public:
  explicit RawBlas(int index) : index_(index) {
    LOCUS_CUDA(cudaSetDevice(index_));
    LOCUS_CUDA(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    LOCUS_CUDA(cublasCreate(&handle_));
    LOCUS_CUDA(cublasSetStream(handle_, stream_));
    LOCUS_CUDA(cublasSetPointerMode(handle_, CUBLAS_POINTER_MODE_DEVICE));
    LOCUS_CUDA(cudaSetDevice(0));
    one_ = ones({}, gpu(index));
    zero_ = zeros({}, gpu(index));
  }
  ~RawBlas() {
    static_cast<void>(cublasDestroy(handle_));
    static_cast<void>(cudaStreamDestroy(stream_));
  }
  RawBlas(const RawBlas&) = delete;
  RawBlas& operator=(const RawBlas&) = delete;

  void multiply(const Tensor& a, const Tensor& b, const Tensor& c) {
    const int n = static_cast<int>(a.shape()[0]);
    LOCUS_CUDA(cudaSetDevice(index_));
    LOCUS_CUDA(cublasSgemm(handle_, CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, pointer(one_), pointer(b), n,
                           pointer(a), n, pointer(zero_), pointer(c), n));
  }
  void norm(const Tensor& x, float* out) {
    LOCUS_CUDA(cublasSnrm2(handle_, static_cast<int>(x.size()), pointer(x), 1, out));
  }
  void read(void* host, const void* from, size_t bytes) {
    LOCUS_CUDA(cudaMemcpyAsync(host, from, bytes, cudaMemcpyDeviceToHost, stream_));
    wait();
  }
  void wait() {
    LOCUS_CUDA(cudaStreamSynchronize(stream_));
    LOCUS_CUDA(cudaSetDevice(0));
  }

 private:
  int index_;
  cudaStream_t stream_ = nullptr;
  cublasHandle_t handle_ = nullptr;
  Tensor one_, zero_;
};

// ours() and raw() end with a wait.
template <class Ours, class Raw>
Turns side_by_side(benchmark::State& state, const Ours& ours, const Raw& raw) {
  const Turns t = take_turns(state, 3, ours, raw);
  state.counters["raw_us"] = t.raw * 1e6;
  state.counters["ratio"] = t.ours / t.raw;
  return t;
}

void logging(benchmark::State& state) {
  constexpr int64_t kCount = 1000, kN = 100;
  const Tensor a = sample_values(gpu(0), f32, {kCount, kN, kN}, -1, 1, 0);
  const Tensor b = sample_values(gpu(0), f32, {kCount, kN, kN}, -1, 1, 1);
  Tensors as, bs;
  for (int64_t i = 0; i < kCount; ++i) as.push_back(a[i]), bs.push_back(b[i]);
  const Tensor product = empty({kN, kN}, gpu(0)), raw_log = empty({kCount}, gpu(0));
  RawBlas blas(0);
  wait_all();
  std::vector<float> host(kCount);
  side_by_side(
      state,
      [&] {
        const Tensor log = empty({kCount}, gpu(0));
        for (size_t i = 0; i < kCount; ++i) norm(dot(as[i], bs[i]), {.out = log[i]});
        log.to_host(host.data(), f32);
      },
      [&] {
        for (size_t i = 0; i < kCount; ++i) {
          blas.multiply(as[i], bs[i], product);
          blas.norm(product, pointer(raw_log) + i);
        }
        blas.read(host.data(), pointer(raw_log), kCount * sizeof(float));
      });
}

// The counter `speed_up`: both products on gpu(0) against one on each GPU.
void two_gpus(benchmark::State& state) {
  const TwoProducts two;
  Tensors c;
  for (int i = 0; i < 2; ++i) c.push_back(empty(two.a[0].shape(), gpu(i)));
  RawBlas blas0(0), blas1(1);
  wait_all();
  std::vector<double> one;
  two.on_one();
  for (int i = 0; i < 20; ++i) one.push_back(timed([&] { two.on_one(); }));
  const Turns t = side_by_side(
      state, [&] { two.on_each(); },
      [&] {
        blas0.multiply(two.a[0], two.b[0], c[0]);
        blas1.multiply(two.a[1], two.b[1], c[1]);
        blas0.wait();
        blas1.wait();
      });
  state.counters["speed_up"] = median(one) / t.ours;
}

#endif

// The same on emulated GPUs with modelled times, without a raw counterpart.
void two_emulated_gpus(benchmark::State& state) {
  const TwoProducts two;
  const Turns t = take_turns(
      state, 3, [&] { two.on_each(); }, [&] { two.on_one(); });
  state.counters["speed_up"] = t.raw / t.ours;
}

}  // namespace

void add_exercises() {
  if (num_gpus() >= 2 && context_info(gpu(0)).modelled)
    add_timed("exercises/two_emulated_gpus", &two_emulated_gpus);
#ifdef LOCUS_WITH_CUDA
  if (!real_gpu()) return;
  add_timed("exercises/log_on_gpu", &logging);
  if (num_gpus() >= 2) add_timed("exercises/two_gpus", &two_gpus);
#endif
}

}  // namespace locus::bench
