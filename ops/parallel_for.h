// parallel_for: runs a C++ function for i = 0 to n - 1, on the CPU or a GPU, in the order of other
// work on the same tensors.
//
//   const float a = 2;
//   parallel_for(x.size(), LOCUS_LAMBDA(int64_t i, float* to, const float* from) {
//     to[i] += a * from[i];
//   }, Writes<float>(y), Reads<float>(x));
//
// The tensors' context decides where the function runs. On a GPU, nvcc must compile the user's
// file: a .cu file, with --extended-lambda. On cpu and emulated contexts, any C++ compiler will do.
// On a GPU the call returns at once; on cpu, when the loop is done. Threads: any. n calls of the
// function run in any order and at the same time.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>

#include <locus/core/caller.h>
#include <locus/core/dtype.h>
#include <locus/core/kernel.h>
#include <locus/core/tensor.h>
#include <locus/devices/cpu.h>
#include <locus/ops/register.h>

// A lambda for parallel_for. It copies what it captures: numbers, and structs of numbers.
#ifdef __CUDACC__
#define LOCUS_LAMBDA [=] __host__ __device__
#else
#define LOCUS_LAMBDA [=]
#endif

namespace locus {

// A tensor that the function reads: it gets a const T*. A tensor that is not row-major is copied.
template <Element T>
struct Reads {
  explicit Reads(const Tensor& x, Caller caller = Caller::here()) : tensor(x), from(caller) {}
  using Pointer = const T*;
  static constexpr DType kDType = dtype_of<T>();
  static constexpr bool kWritten = false;
  const Tensor& tensor;  // borrowed for the call
  Caller from;
};
// A tensor that the function writes, and may read: it gets a T*. The tensor must be row-major.
template <Element T>
struct Writes {
  explicit Writes(const Tensor& x, Caller caller = Caller::here()) : tensor(x), from(caller) {}
  using Pointer = T*;
  static constexpr DType kDType = dtype_of<T>();
  static constexpr bool kWritten = true;
  const Tensor& tensor;
  Caller from;
};

namespace detail {

#ifdef __CUDACC__
inline constexpr bool kCompilesForGpus = true;
#else
inline constexpr bool kCompilesForGpus = false;
#endif

// One call's loop: f(i, pointers...) for i below n.
using RunLoop = void (*)(const Call& call, int64_t n, const void* f);
struct LoopTensor {
  const Tensor* tensor;
  DType dtype;  // that f expects
  bool written;
  Caller from;
};
// `on_gpu`: null if nvcc did not compile f.
void run_loop(int64_t n, std::span<const LoopTensor> tensors, std::shared_ptr<const void> f,
              RunLoop on_host, RunLoop on_gpu);

// Whether f can be copied to a GPU. nvcc itself checks the captures of its lambdas.
template <class F>
inline constexpr bool kPlain =
#ifdef __CUDACC_EXTENDED_LAMBDA__
    __nv_is_extended_host_device_lambda_closure_type(F) ||
#endif
    std::is_trivially_copyable_v<F>;

#ifdef __CUDACC__
template <class F, class... P>
__global__ void gpu_loop(int64_t n, const F f, P... p) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += step) f(i, p...);
}
#endif

// P...: the pointers' types.
template <class F, class... P>
struct Loop {
  static void on_host(const Call& call, int64_t n, const void* f) {
    const Loop loop{static_cast<const F*>(f), call.in};
    constexpr int64_t kGrain = 4096;
    run_parallel(n, kGrain, &range, const_cast<Loop*>(&loop));
  }
#ifdef __CUDACC__
  static void on_gpu(const Call& call, int64_t n, const void* f) {
    const Loop loop{static_cast<const F*>(f), call.in};
    loop.launch(call.stream, n, std::index_sequence_for<P...>());
  }
#endif

 private:
  Loop(const F* function, const View* views) : f(function), in(views) {}

  static void range(void* loop, int64_t begin, int64_t end) {
    static_cast<const Loop*>(loop)->run(begin, end, std::index_sequence_for<P...>());
  }
  template <size_t... I>
  void run(int64_t begin, int64_t end, std::index_sequence<I...>) const {
    run_range(begin, end, *f, static_cast<P>(in[I].data)...);
  }
  // A copy of f: no write changes what it captured.
  static void run_range(int64_t begin, int64_t end, const F of_range, P... p) {
    for (int64_t i = begin; i < end; ++i) of_range(i, p...);
  }
#ifdef __CUDACC__
  template <size_t... I>
  void launch(StreamView s, int64_t n, std::index_sequence<I...>) const {
    constexpr int64_t kThreads = 256, kMostBlocks = 1 << 20;
    const int64_t blocks = (n + kThreads - 1) / kThreads;
    gpu_loop<F, P...>
        <<<static_cast<unsigned>(blocks < kMostBlocks ? blocks : kMostBlocks), kThreads, 0,
           static_cast<cudaStream_t>(s.native)>>>(n, *f, static_cast<P>(in[I].data)...);
  }
#endif

  const F* const f;
  const View* const in;
};

}  // namespace detail

// Calls f(i, pointers...) for i = 0 to n - 1. `tensors` are 1 to 32 of Writes<T> and Reads<T>, with
// at least one Writes<T>. f gets their pointers in this order. n is not checked against sizes: f
// must not access elements outside of the tensors.
//
// Before anything runs, the call throws EmptyTensor; DTypeError if T is not a tensor's dtype;
// ShapeError if a written tensor is not row-major; ContextMismatch; ValueError if n < 0, if
// written tensors overlap or if there are more than 32 tensors; UnsupportedOnContext on a GPU if
// nvcc did not compile f.
template <bool ForGpus = detail::kCompilesForGpus, class F, class... T>
void parallel_for(int64_t n, const F& f, const T&... tensors) {
  static_assert((T::kWritten || ...), "parallel_for: name the tensors that f writes: Writes<T>(y)");
  static_assert(std::is_invocable_v<const F&, int64_t, typename T::Pointer...>,
                "parallel_for: expected f(int64_t i, pointers...), one pointer a tensor");
  static_assert(detail::kPlain<F>,
                "parallel_for: f may capture numbers and structs of numbers by value; pass tensors "
                "as Reads<T>(x), Writes<T>(y)");
  detail::RunLoop on_gpu = nullptr;
#ifdef __CUDACC__
  on_gpu = &detail::Loop<F, typename T::Pointer...>::on_gpu;
#endif
  const detail::LoopTensor all[] = {{&tensors.tensor, T::kDType, T::kWritten, tensors.from}...};
  detail::run_loop(n, all, std::make_shared<const F>(f),
                   &detail::Loop<F, typename T::Pointer...>::on_host, on_gpu);
}

// --- Details ---
//
// - An exception that f throws: on cpu, the call throws it. On an emulated GPU, a later wait does.
//   Elements that ran before it stay written.
// - Nothing is differentiated. Under autograd::Record, tensors in the graph are refused.
// - A recording (capture.h) keeps f with the numbers that it captured. There, a written tensor
//   counts as read, too: fill it first.
// - Two tensors may share memory if only one is written. Then f must not read what another i
//   writes.
// - nvcc calls a lambda through a pointer on the host. A struct with `LOCUS_HD void operator()(...)
//   const` is faster there, and works without --extended-lambda.

}  // namespace locus
